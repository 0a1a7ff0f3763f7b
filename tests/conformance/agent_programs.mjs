// Coding agents' own programs, where CONFORMANCE_PROGRAMS names the folder that has them: a turn,
// and its continuation by another process behind a kill -9 of the server. The server's own count
// says how much of the second process's prompts came from memory, side requests for titles and
// summaries included.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { far_sighted_model, main, make_folder, Server } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';

const folder = process.env.CONFORMANCE_PROGRAMS;
if (!folder) skip('CONFORMANCE_PROGRAMS names no folder with programs of agents');
be_alone_on_loopback();

const reused_least = 0.95;
const patience_ms = 240_000;
const model = far_sighted_model();
const name = 'semantic-tiny';

const opencode_config = (url) => ({
  $schema: 'https://opencode.ai/config.json',
  autoupdate: false,
  share: 'disabled',
  model: `semantic/${name}`,
  small_model: `semantic/${name}`,
  provider: {
    semantic: {
      npm: '@ai-sdk/openai-compatible',
      options: { baseURL: `${url}/v1`, apiKey: 'none' },
      models: { [name]: { name, limit: { context: 65536, output: 64 } } },
    },
  },
});

const pi_models = (url) => ({
  providers: {
    semantic: {
      baseUrl: `${url}/v1`,
      api: 'openai-completions',
      apiKey: 'none',
      models: [{ id: name, contextWindow: 65536, maxTokens: 64 }],
    },
  },
});

function write(home, path, value) {
  const file = join(home, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, JSON.stringify(value));
}

/** How each program is told of the server, and asked: for the first time, and once more. */
const programs = {
  opencode: {
    configure: (home, url) => write(home, '.config/opencode/opencode.json', opencode_config(url)),
    first: (text) => ['run', text],
    again: (text) => ['run', '--continue', text],
  },
  pi: {
    configure: (home, url) => write(home, '.pi/agent/models.json', pi_models(url)),
    first: (text) => ['--provider', 'semantic', '--model', name, '-p', text],
    again: (text) => ['--provider', 'semantic', '--model', name, '--continue', '-p', text],
  },
  qwen: {
    configure: () => {},
    env: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: 'none', OPENAI_MODEL: name }),
    first: (text) => ['--auth-type', 'openai', '-p', text],
    again: (text) => ['--auth-type', 'openai', '--continue', '-p', text],
  },
};

async function run(program, home, url, args) {
  const { configure, env = () => ({}) } = programs[program];
  configure(home, url);
  const child = spawn(join(folder, program), args, {
    env: { PATH: process.env.PATH, HOME: home, NO_COLOR: '1', ...env(url) },
    cwd: join(home, 'work'),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stdout.on('data', (bytes) => (said += bytes));
  child.stderr.on('data', (bytes) => (said += bytes));
  const timer = setTimeout(() => child.kill('SIGKILL'), patience_ms);
  const status = await new Promise((resolve) => child.on('close', resolve));
  clearTimeout(timer);
  assert.equal(status, 0, said.slice(-2000));
  return said;
}

/** Prompt tokens that were computed and reused since the server's start. */
async function counts(server) {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const sum = (metric) =>
    [...text.matchAll(new RegExp(`^${metric}(?:{[^}]*})? (\\S+)$`, 'gm'))].reduce(
      (all, [, value]) => all + Number(value),
      0,
    );
  const [computed, reused] = ['semantic_tokens_prefilled_total', 'semantic_tokens_reused_total'];
  return { computed: sum(computed), reused: sum(reused) };
}

async function converse(program) {
  const [home, cache] = [make_folder(), make_folder()];
  mkdirSync(join(home, 'work'));
  const options = ['--model', model, '--cache-budget-mb', '1024', '--save-wait-ms', '30000'];
  const start = () => Server.start({ cache, args: options });
  let server = await start();
  const { first, again } = programs[program];
  await run(program, home, server.url, first('My dog is called Biscuit.'));
  const { computed } = await counts(server);
  await server.kill();
  server = await start();
  await run(program, home, server.url, again('What is my dog called?'));
  const then = await counts(server);
  const share = then.reused / (then.reused + then.computed);
  console.log(
    `        ${program}: ${computed} tokens computed at first, then ${then.computed} ` +
      `and ${then.reused} from memory: ${(100 * share).toFixed(1)} %`,
  );
  await server.stop();
  assert.ok(share >= reused_least, `${share} of the prompts came from memory`);
}

await main(
  Object.fromEntries(
    Object.keys(programs)
      .filter((program) => existsSync(join(folder, program)))
      .map((program) => [`${program} goes on from memory`, () => converse(program)]),
  ),
  2 * patience_ms,
);
