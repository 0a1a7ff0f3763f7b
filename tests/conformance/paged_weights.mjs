// SPDX-License-Identifier: Apache-2.0
// A model whose weights are twice the memory of its control group: refused with the sum, or, where
// that is allowed, run from the disk with the same answers, over kill -9 too. MEMORY_GROUP names a
// control group's folder that this test may use, where the kernel ends who takes more; skipped
// without it. PAGED_MODEL: a file of 1 GB and more, so that half of it has room for the rest
// of a server; without it a published one in SEMANTIC_REAL_MODELS.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { launch, main, make_folder, Server, text_of, user } from './harness.mjs';

const group = process.env.MEMORY_GROUP;
const models = process.env.SEMANTIC_REAL_MODELS ?? join(homedir(), '.semantic/models');
const model = process.env.PAGED_MODEL ?? join(models, 'qwen2.5-coder-1.5b.gguf');
const patience = 600_000;
for (const [missing, why] of [
  [!group, 'MEMORY_GROUP names no control group'],
  [!existsSync(model), `${model} is not there`],
])
  if (missing) {
    console.log(`skipped: ${why}`);
    process.exit(77);
  }

const unified = existsSync(join(group, 'memory.max'));
const limit_file = join(group, unified ? 'memory.max' : 'memory.limit_in_bytes');
const enter = `echo $$ > ${group}/cgroup.procs`;
// Little besides the weights.
const args = [
  ...['--model', model, '--kv-recipe', 'k8v8', '--max-batch', '2', '--max-connections', '16'],
  ...['--context-tokens', '4096', '--prefill-max-chunk', '512', '--speculation', 'off'],
  ...['--body-limit-mb', '1', '--cache-budget-mb', '64'],
];
const messages = [user('Which is the capital of France?')];
const more = { max_tokens: 12 };

/** How often a process of the group was ended for want of memory. */
function kills() {
  const file = join(group, unified ? 'memory.events' : 'memory.oom_control');
  return Number(readFileSync(file, 'utf8').match(/oom_kill (\d+)/)?.[1] ?? 0);
}

async function start(cache, more_args, first) {
  const server = await Server.start({ cache, args: [...args, ...more_args], first, patience });
  server.ask_ms = patience;
  return server;
}

const paged = ['--paged-weights', 'on'];
let weights_mb;

await main(
  {
    async 'weights of twice the group are refused with the sum, and what would do is said'() {
      const said = async (options, first) => {
        const place = ['--port', '0', '--cache-dir', make_folder()];
        const { code, err } = await launch([...place, ...args, ...options], first).ended;
        assert.equal(code, 1, err);
        return err;
      };
      const err = await said(['--memory-limit-mb', '100']);
      const [, weights] = err.match(/does not suffice: weights ([\d,]+) MiB/);
      weights_mb = Number(weights.replaceAll(',', ''));
      const limit_mb = Math.floor(weights_mb / 2);
      writeFileSync(limit_file, String(limit_mb * 2 ** 20));
      const refusal = await said([], enter);
      console.log(`        ${refusal.trim()}`);
      assert.match(refusal, /does not suffice: .* = [\d,]+ MiB of \d+ MiB, .*control group/);
      assert.match(refusal, /--paged-weights on \([\d,]+ MiB read again for every token\)/);
    },

    async 'they run from the disk with the same answers, and nothing is lost by kill -9'() {
      const plain = await start(make_folder(), []);
      const expected = text_of(await plain.ask('whole', messages, more));
      await plain.stop();
      const cache = make_folder();
      const before = kills();
      let server = await start(cache, paged, enter);
      assert.match(server.output.err, /of the weights do not fit and are read from disk again/);
      const begin = Date.now();
      assert.equal(text_of(await server.ask('paged', messages, more)), expected);
      const seconds = (Date.now() - begin) / 1000;
      console.log(`        ${weights_mb} MiB in half: ${more.max_tokens} tokens in ${seconds} s`);
      await server.kill();
      server = await start(cache, paged, enter);
      const again = await server.ask('paged', messages, more);
      assert.equal(text_of(again), expected);
      assert.ok(again.usage.cache_read_input_tokens > 0, JSON.stringify(again.usage));
      assert.equal((await server.stop()).code, 0);
      assert.equal(kills(), before);
    },
  },
  2 * patience,
);
