// Coding agents' own programs, where CONFORMANCE_PROGRAMS names the folders that have them, divided
// by colons: a streamed turn, its continuation by another process behind a kill -9 of the server, a
// loop of five calls, an answer that is broken off, and structured output where a program has that.
// The server's own count says how much of the prompts came from memory from the second turn on,
// side requests for titles and summaries included.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { far_sighted_model, main, make_folder, Server } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';
import { WishingProxy } from './wishing_proxy.mjs';

const folders = process.env.CONFORMANCE_PROGRAMS?.split(':');
if (!folders) skip('CONFORMANCE_PROGRAMS names no folder with programs of agents');
be_alone_on_loopback();

const reused_least = 0.95;
const patience_ms = 240_000;
const calls = 5;
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
      models: { [name]: { name, limit: { context: 65536, output: 256 } } },
    },
  },
});

const pi_models = (url) => ({
  providers: {
    semantic: {
      baseUrl: `${url}/v1`,
      api: 'openai-completions',
      apiKey: 'none',
      models: [{ id: name, contextWindow: 65536, maxTokens: 256 }],
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

const answer_schema = {
  type: 'object',
  properties: { sure: { type: 'boolean' } },
  required: ['sure'],
  additionalProperties: false,
};

function write(home, path, value) {
  const file = join(home, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
}

/** How each program is told of the server, and asked: for the first time, and once more. `tool`
 *  does no harm, whatever a small model writes as its arguments. */
const programs = {
  claude: {
    tool: 'TaskList',
    configure: () => {},
    env: (url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: 'none',
      ANTHROPIC_MODEL: name, // its own default changes its tools when it resumes
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
    }),
    first: (text) => ['-p', text],
    again: (text) => ['-p', '--continue', text],
    // A tool of the program's own brings the answer in.
    form_tool: 'StructuredOutput',
    structured: (home, text) => ['-p', '--json-schema', JSON.stringify(answer_schema), text],
  },
  codex: {
    tool: 'get_goal',
    configure: (home, url) => write(home, 'config.toml', codex_config(url)),
    env: (url, home) => ({ CODEX_HOME: home }),
    first: (text) => ['exec', '--skip-git-repo-check', text],
    again: (text) => ['exec', 'resume', '--last', '--skip-git-repo-check', text],
    structured(home, text) {
      write(home, 'schema.json', answer_schema);
      const schema = ['--output-schema', join(home, 'schema.json')];
      return ['exec', '--skip-git-repo-check', ...schema, text];
    },
  },
  opencode: {
    tool: 'todowrite',
    configure: (home, url) => write(home, '.config/opencode/opencode.json', opencode_config(url)),
    first: (text) => ['run', text],
    again: (text) => ['run', '--continue', text],
  },
  pi: {
    tool: 'read',
    configure: (home, url) => write(home, '.pi/agent/models.json', pi_models(url)),
    first: (text) => ['--provider', 'semantic', '--model', name, '-p', text],
    again: (text) => ['--provider', 'semantic', '--model', name, '--continue', '-p', text],
  },
  qwen: {
    tool: 'read_file',
    configure: () => {},
    env: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: 'none', OPENAI_MODEL: name }),
    first: (text) => ['--auth-type', 'openai', '-p', text],
    again: (text) => ['--auth-type', 'openai', '--continue', '-p', text],
    form_tool: 'structured_output',
    structured(home, text) {
      const schema = ['--json-schema', JSON.stringify(answer_schema)];
      return ['--auth-type', 'openai', ...schema, '-p', text];
    },
  },
};

const folder_of = (program) => folders.find((folder) => existsSync(join(folder, program)));

/** A person's machine: the program, its home, a server with a memory, and a proxy between them. */
class Desk {
  constructor(program) {
    this.program = program;
    [this.home, this.cache] = [make_folder(), make_folder()];
    mkdirSync(join(this.home, 'work'));
    this.proxy = new WishingProxy();
    this.proxy.tool = programs[program].tool;
  }
  async start_server() {
    const args = ['--model', model, '--cache-budget-mb', '1024'];
    this.server = await Server.start({ cache: this.cache, args });
    this.url = await this.proxy.listen(this.server.url);
  }
  async end_server(how) {
    await this.proxy.close();
    await this.server[how]();
  }
  launch(args) {
    const { configure, env = () => ({}) } = programs[this.program];
    configure(this.home, this.url);
    const own = env(this.url, this.home);
    const child = spawn(join(folder_of(this.program), this.program), args, {
      env: { PATH: process.env.PATH, HOME: this.home, NO_COLOR: '1', ...own },
      cwd: join(this.home, 'work'),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // a group of its own: some programs start themselves once more
    });
    const kill = (signal) => {
      try {
        process.kill(-child.pid, signal);
      } catch {
        // nobody is left
      }
    };
    const output = { said: '', errors: '' };
    child.stdout.on('data', (bytes) => (output.said += bytes));
    child.stderr.on('data', (bytes) => (output.errors += bytes));
    const timer = setTimeout(() => kill('SIGKILL'), patience_ms);
    const ended = new Promise((resolve) => child.on('close', resolve)).then((status) => {
      clearTimeout(timer);
      return { status, ...output };
    });
    return { kill, ended };
  }
  async run(args) {
    const { status, said, errors } = await this.launch(args).ended;
    assert.equal(status, 0, said.slice(-1000) + errors.slice(-2000));
    return said;
  }
  /** Prompt tokens that were computed and reused since the server's start. */
  async counts() {
    const text = await (await fetch(`${this.server.url}/metrics`)).text();
    const sum = (metric) =>
      [...text.matchAll(new RegExp(`^${metric}(?:{[^}]*})? (\\S+)$`, 'gm'))].reduce(
        (all, [, value]) => all + Number(value),
        0,
      );
    const [computed, reused] = ['semantic_tokens_prefilled_total', 'semantic_tokens_reused_total'];
    return { computed: sum(computed), reused: sum(reused) };
  }
  /** Of what was asked since `before`, nearly all came from memory. */
  async expect_reuse(what, before) {
    const now = await this.counts();
    const computed = now.computed - before.computed;
    const reused = now.reused - before.reused;
    const share = reused / (reused + computed);
    console.log(
      `        ${this.program}, ${what}: ${computed} tokens computed ` +
        `and ${reused} from memory: ${(100 * share).toFixed(1)} %`,
    );
    assert.ok(share >= reused_least, `${share} of the prompts came from memory`);
  }
  async requests_under_way() {
    const { semantic_sequences_running: running } = await this.server.metrics();
    return running;
  }
}

const nothing = { computed: 0, reused: 0 };

async function converse(program) {
  const desk = new Desk(program);
  const { first, again } = programs[program];
  await desk.start_server();
  await desk.run(first('My dog is called Biscuit.'));
  assert.ok(desk.proxy.streamed > 0, 'its turn was streamed');
  await desk.end_server('kill');

  await desk.start_server();
  await desk.run(again('What is my dog called?'));
  await desk.expect_reuse('behind a kill -9', nothing);

  const before = await desk.counts();
  desk.proxy.calls = calls;
  await desk.run(again('Look for it.'));
  assert.ok(desk.proxy.results >= calls, `${desk.proxy.results} results of calls came`);
  await desk.expect_reuse(`${calls} calls`, before);
  desk.proxy.calls = 0;

  desk.proxy.is_endless = true;
  const { kill, ended } = desk.launch(again('Tell me everything.'));
  await Promise.race([new Promise((resolve) => (desk.proxy.on_endless = resolve)), ended]);
  kill('SIGINT');
  await Promise.race([ended, sleep(10_000, null, { ref: false })]);
  kill('SIGKILL'); // one that takes no interrupt without a terminal
  await ended;
  desk.proxy.is_endless = false;
  for (let i = 0; i < 600 && (await desk.requests_under_way()) > 0; ++i) await sleep(100);
  assert.equal(await desk.requests_under_way(), 0, 'the answer was broken off');
  const then = await desk.counts();
  await desk.run(again('What is my dog called?'));
  await desk.expect_reuse('behind an answer that was broken off', then);
  await desk.end_server('stop');
}

async function answer_in_form(program) {
  const desk = new Desk(program);
  const { form_tool } = programs[program];
  if (form_tool) Object.assign(desk.proxy, { tool: form_tool, calls: 1 });
  await desk.start_server();
  const said = await desk.run(programs[program].structured(desk.home, 'Are you sure?'));
  const answer = JSON.parse(/\{[^{}]*\}/.exec(said)[0]);
  assert.equal(typeof answer.sure, 'boolean', said);
  await desk.end_server('stop');
}

const there = Object.keys(programs).filter(folder_of);
await main(
  Object.fromEntries([
    ...there.map((program) => [`${program} goes on from memory`, () => converse(program)]),
    ...there
      .filter((program) => programs[program].structured)
      .map((program) => [`${program} gets its form`, () => answer_in_form(program)]),
  ]),
  4 * patience_ms,
);
