// SPDX-License-Identifier: Apache-2.0
// The promises of real_model.mjs for recipes that nobody would be given: RECIPES and REAL_MODELS
// list some ("all" stands for every one); without them one small model and the forms that differ
// most, since all of them take ten minutes with the smallest and more than an hour with the 1.5B.

import { spawnSync } from 'node:child_process';

import { run_to_end } from './harness.mjs';

const bases = ['gemma3-270m'];
const published = ['smollm2-135m', ...bases, 'qwen2.5-coder-0.5b', 'qwen2.5-coder-1.5b'];
// Divergences beyond 1 (perf/README.md, Keys and values): no answer can be right, all are alike.
const noise = ['qwen2.5-coder-0.5b k4v4', 'qwen2.5-coder-1.5b k4v4'];
const few = ['k4v4', 'k5s-v4r', 'k5s-v4r-w16', 'k16v16'];

/** Every name that the server knows: its help lists them. */
async function all_recipes() {
  const { out } = await run_to_end(['--help']);
  return [...new Set(out.match(/\bk\d+[ms]?-?v\d+r?(-w\d+)?\b/g))];
}

const listed = (names, all, without) =>
  !names ? without : names === 'all' ? all : names.split(',');

const models = listed(process.env.REAL_MODELS, published, published.slice(0, 1));
const recipes = listed(process.env.RECIPES, await all_recipes(), few);
let failed = 0;
let skipped = 0;
for (const model of models)
  for (const recipe of recipes) {
    const start = performance.now();
    const run = spawnSync(process.execPath, ['real_model.mjs'], {
      encoding: 'utf8',
      env: {
        ...process.env,
        REAL_MODEL: model,
        REAL_RECIPE: recipe,
        REAL_MODEL_PATIENCE: '900000',
        ...(bases.includes(model) ? { REAL_MODEL_IS_BASE: '1' } : {}),
        ...(noise.includes(`${model} ${recipe}`) ? { REAL_MODEL_IS_NOISE: '1' } : {}),
      },
    });
    const seconds = ((performance.now() - start) / 1000).toFixed(0);
    const end = run.status === 77 ? 'skipped' : run.status === 0 ? 'ok' : 'FAILED';
    console.log(`${end} ${model} ${recipe} ${seconds} s`);
    if (run.status !== 0) console.log(run.stdout, run.stderr);
    failed += run.status !== 0 && run.status !== 77;
    skipped += run.status === 77;
  }
process.exitCode = failed ? 1 : skipped ? 77 : 0;
