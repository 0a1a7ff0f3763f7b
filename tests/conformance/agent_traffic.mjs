// What agents' own programs ask, recorded and replayed, where CONFORMANCE_PROGRAMS names the
// folders that have them, divided by colons: two turns of each go through a proxy that keeps every
// request. Then all of them are sent to a server that knows nothing yet, and the agent's own
// requests alone to another: what the program asks beside its turns (titles, summaries, probes)
// must not cost the agent a token of its memory, of which at least 95 % of each later prompt comes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';

import { far_sighted_model, main, make_folder, Server } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';

const folders = process.env.CONFORMANCE_PROGRAMS?.split(':');
if (!folders) skip('CONFORMANCE_PROGRAMS names no folder with programs of agents');
be_alone_on_loopback();

const reused_least = 0.95;
const patience_ms = 280_000;
const model = far_sighted_model();
const name = 'semantic-tiny';
const args = ['--model', model, '--cache-budget-mb', '1024'];

function write(home, path, value) {
  const file = join(home, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
}

const opencode_config = (url) => ({
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
const codex_config = (url) => `model = "${name}"
model_provider = "semantic"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.semantic]
name = "Semantic"
base_url = "${url}/v1"
wire_api = "responses"
`;

const of_pi = ['--provider', 'semantic', '--model', name];
const of_qwen = ['--auth-type', 'openai'];
const of_codex = ['exec', '--skip-git-repo-check'];

/** How each is told of the server, and asked: for the first time, and once more. */
const programs = {
  opencode: {
    configure: (home, url) => write(home, '.config/opencode/opencode.json', opencode_config(url)),
    first: (text) => ['run', text],
    again: (text) => ['run', '--continue', text],
  },
  pi: {
    configure: (home, url) => write(home, '.pi/agent/models.json', pi_models(url)),
    first: (text) => [...of_pi, '-p', text],
    again: (text) => [...of_pi, '--continue', '-p', text],
  },
  qwen: {
    env: (home, url) => ({
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: 'none',
      OPENAI_MODEL: name,
    }),
    first: (text) => [...of_qwen, '-p', text],
    again: (text) => [...of_qwen, '--continue', '-p', text],
  },
  codex: {
    configure: (home, url) => write(home, 'config.toml', codex_config(url)),
    env: (home) => ({ CODEX_HOME: home }),
    first: (text) => [...of_codex, text],
    again: (text) => ['exec', 'resume', '--last', '--skip-git-repo-check', text],
  },
  claude: {
    env: (home, url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: 'none',
      ANTHROPIC_MODEL: name, // its own default changes its tools when it resumes
      DISABLE_AUTOUPDATER: '1',
    }),
    first: (text) => ['-p', text],
    again: (text) => ['-p', '--continue', text],
  },
};
const folder_of = (program) => folders.find((folder) => existsSync(join(folder, program)));

/** Passes everything on, and keeps what was asked. */
function record(server) {
  const kept = [];
  const proxy = createServer((asked, answer) => {
    const parts = [];
    asked.on('data', (part) => parts.push(part));
    asked.on('end', () => {
      const { method, url: path, headers } = asked;
      const body = Buffer.concat(parts);
      kept.push({ method, path, headers, body });
      const to = { host: '127.0.0.1', port: server.port, method, path, headers };
      const passed = request(to, (got) => {
        answer.writeHead(got.statusCode, got.headers);
        got.pipe(answer);
      });
      passed.on('error', () => answer.destroy());
      passed.end(body);
    });
  });
  return new Promise((resolve) => {
    proxy.listen(0, '127.0.0.1', () => {
      const url = `http://127.0.0.1:${proxy.address().port}`;
      resolve({ kept, url, close: () => proxy.closeAllConnections() ?? proxy.close() });
    });
  });
}

async function run(program, home, url, words) {
  const { configure, env = () => ({}) } = programs[program];
  configure?.(home, url);
  const child = spawn(join(folder_of(program), program), words, {
    env: { PATH: process.env.PATH, HOME: home, NO_COLOR: '1', ...env(home, url) },
    cwd: join(home, 'work'),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stdout.on('data', (bytes) => (said += bytes));
  child.stderr.on('data', (bytes) => (said += bytes));
  const status = await new Promise((resolve) => child.on('close', resolve));
  assert.equal(status, 0, said.slice(-2000));
}

/** What two turns of the program ask of models. */
async function traffic_of(program) {
  const home = make_folder();
  mkdirSync(join(home, 'work'));
  const server = await Server.start({ cache: make_folder(), args });
  const proxy = await record(server);
  const { first, again } = programs[program];
  await run(program, home, proxy.url, first('My dog is called Biscuit.'));
  await run(program, home, proxy.url, again('What is my dog called?'));
  proxy.close();
  await server.kill();
  const asks = /\/(messages|chat\/completions|responses)(\?|$)/;
  return proxy.kept.filter(({ method, path }) => method === 'POST' && asks.test(path));
}

/** An agent's own requests are those with the most tools. */
function mark(traffic) {
  const count = ({ body }) => JSON.parse(body).tools?.length ?? 0;
  const most = Math.max(...traffic.map(count));
  for (const each of traffic) each.is_own = count(each) === most;
}

/** Resolves with the server's own count of each prompt of the agent's own. */
async function replay(traffic) {
  const server = await Server.start({ cache: make_folder(), args });
  const counts = [];
  for (const { path, headers, body, is_own } of traffic) {
    const { host, connection, 'content-length': length, ...rest } = headers;
    const answer = await fetch(`${server.url}${path}`, { method: 'POST', headers: rest, body });
    await answer.arrayBuffer();
    assert.equal(answer.status, 200);
    const count = (what) => Number(answer.headers.get(`x-semantic-${what}-tokens`));
    if (is_own) counts.push({ prompt: count('prompt'), reused: count('reused') });
  }
  await server.kill();
  return counts;
}

async function compare(program) {
  const traffic = await traffic_of(program);
  mark(traffic);
  const own = traffic.filter(({ is_own }) => is_own);
  assert.ok(own.length >= 2, `${own.length} requests are the agent's own`);
  const among_others = await replay(traffic);
  const alone = await replay(own);
  let least = 1;
  for (const [i, { prompt, reused }] of among_others.entries()) {
    assert.ok(reused >= alone[i].reused, `${i}: ${reused}, alone ${alone[i].reused} of ${prompt}`);
    if (i > 0) least = Math.min(least, reused / prompt);
  }
  console.log(
    `        ${program}: ${traffic.length} requests, ${own.length} of them its own; ` +
      `at least ${(100 * least).toFixed(1)} % from memory`,
  );
  assert.ok(least >= reused_least, `${least} came from memory`);
}

await main(
  Object.fromEntries(
    Object.keys(programs)
      .filter(folder_of)
      .map((program) => [
        `${program}: what it asks beside its turns costs the agent no memory`,
        () => compare(program),
      ]),
  ),
  2 * patience_ms,
);
