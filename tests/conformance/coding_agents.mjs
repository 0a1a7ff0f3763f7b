// SPDX-License-Identifier: Apache-2.0
// Coding agents' own programs, where CONFORMANCE_PROGRAMS names the folders that have them, divided
// by colons: how each is told of a server, and asked. A test that imports this is skipped without
// such folders, and runs where nothing but loopback is to be reached.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { far_sighted_model, make_folder, slowness, Server } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';
import { WishingProxy } from './wishing_proxy.mjs';

const folders = process.env.CONFORMANCE_PROGRAMS?.split(':');
if (!folders) skip('CONFORMANCE_PROGRAMS names no folder with programs of agents');
be_alone_on_loopback();

export const patience_ms = 240_000 * slowness;
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

const cline_providers = (url) => ({
  version: 1,
  lastUsedProvider: 'openai-compatible',
  modes: {},
  providers: {
    'openai-compatible': {
      settings: {
        provider: 'openai-compatible', apiKey: 'none', model: name, baseUrl: `${url}/v1`,
      },
      updatedAt: '2026-01-01T00:00:00.000Z',
      tokenSource: 'manual',
    },
  },
}); // prettier-ignore

const openclaw_config = (url, home) => ({
  models: {
    mode: 'merge',
    providers: {
      semantic: {
        baseUrl: `${url}/v1`,
        apiKey: 'none',
        api: 'openai-completions',
        models: [{ id: name, name, contextWindow: 65536, maxTokens: 256, input: ['text'] }],
      },
    },
  },
  agents: { defaults: { model: { primary: `semantic/${name}` }, workspace: join(home, 'work') } },
});

const continue_config = (url) => `name: Semantic
version: 1.0.0
schema: v1
models:
  - name: ${name}
    provider: openai
    model: ${name}
    apiBase: ${url}/v1
    apiKey: none
    roles: [chat]
    capabilities: [tool_use]
    defaultCompletionOptions:
      contextLength: 65536
      maxTokens: 256
`;

const codex_config = (url, over_socket = false) => `model = "${name}"
model_provider = "semantic"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.semantic]
name = "Semantic"
base_url = "${url}/v1"
wire_api = "responses"
supports_websockets = ${over_socket}
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
 *  does no harm, whatever a small model writes as its arguments, or with those in `fixed`. A
 *  `file` is its executable, where that has another name; `over_socket`: all that it asks of models
 *  goes over WebSockets. */
export const programs = {
  claude: {
    // It finds nothing: what it finds is added to the prompt.
    tool: 'ToolSearch',
    fixed: { ToolSearch: { query: 'select:nothing', max_results: 1 } },
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

Object.assign(programs, {
  // Without a terminal it continues no session: each process begins one. After the fourth call of
  // one tool that fails it gives up.
  cline: {
    tool: 'read_files',
    has_no_sessions: true,
    calls: 3,
    configure: (home, url) =>
      write(home, '.cline/data/settings/providers.json', cline_providers(url)),
    first: (text) => ['-P', 'openai-compatible', '-m', name, text],
    again: (text) => ['-P', 'openai-compatible', '-m', name, text],
  },
  // Continue: what was said in a turn that was broken off is not in its next prompt.
  cn: {
    tool: 'Read',
    reused_least_after_break: 0.8,
    configure: (home, url) => write(home, '.continue/config.yaml', continue_config(url)),
    first: (text) => ['-p', text],
    again: (text) => ['-p', '--resume', text],
  },
});

const openclaw_turn = (text) => ['agent', '--local', '--session-id', 'one', '-m', text];
programs.openclaw = {
  tool: 'session_status',
  configure: (home, url) => write(home, '.openclaw/openclaw.json', openclaw_config(url, home)),
  first: openclaw_turn,
  again: openclaw_turn,
};

programs['codex over a WebSocket'] = {
  ...programs.codex,
  file: 'codex',
  over_socket: true,
  configure: (home, url) => write(home, 'config.toml', codex_config(url, true)),
};

const file_of = (program) => programs[program].file ?? program;
const folder_of = (program) =>
  folders.find((folder) => existsSync(join(folder, file_of(program))));

export const asks_a_model = (method, path) =>
  method === 'POST' && /\/(messages|chat\/completions|responses)(\?|$)/.test(path);

/** Those that are there. */
export const found = Object.keys(programs).filter(folder_of);

/** Starts a program in its home, told of the server at `url`. `ended` resolves with its status and
 *  what it said; `kill` reaches all of it. */
export function launch(program, home, url, args) {
  const { configure, env = () => ({}) } = programs[program];
  configure?.(home, url);
  const child = spawn(join(folder_of(program), file_of(program)), args, {
    env: { PATH: process.env.PATH, HOME: home, NO_COLOR: '1', ...env(url, home) },
    cwd: join(home, 'work'),
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

/** Resolves with what it said, once it has ended well. */
export async function run(program, home, url, args) {
  const { status, said, errors } = await launch(program, home, url, args).ended;
  assert.equal(status, 0, said.slice(-1000) + errors.slice(-2000));
  return said;
}

/** A folder for a program's own files, with one to work in. */
export function make_home() {
  const home = make_folder();
  mkdirSync(join(home, 'work'));
  return home;
}

export const server_args = ['--model', far_sighted_model(), '--cache-budget-mb', '1024'];
export const reused_least = 0.95;

/** A person's machine: a program in its home, a server with a memory, and a proxy between them. */
export class Desk {
  constructor(program) {
    this.program = program;
    [this.home, this.cache] = [make_home(), make_folder()];
    this.proxy = new WishingProxy();
    this.proxy.tool = programs[program].tool;
    this.proxy.fixed = programs[program].fixed ?? {};
    this.log = ''; // of servers that have ended
  }
  async start_server() {
    this.server = await Server.start({ cache: this.cache, args: server_args });
    this.url = await this.proxy.listen(this.server.url);
    this.known = { computed: 0, reused: 0 };
  }
  /** `how`: "stop" or "kill". */
  async end_server(how) {
    await this.proxy.close();
    this.log += `${this.server.output.out}${this.server.output.err}`;
    await this.server[how]();
  }
  launch(args) {
    return launch(this.program, this.home, this.url, args);
  }
  run(args) {
    return run(this.program, this.home, this.url, args);
  }
  /** The program on a terminal of its own, 160 characters wide: `screen()` is all that it has
   *  written there, `type()` enters a line. */
  launch_in_terminal(args) {
    const { env = () => ({}) } = programs[this.program];
    const words = [join(folder_of(this.program), file_of(this.program)), ...args];
    const line = words.map((word) => `'${word}'`).join(' ');
    const shell = ['-qfc', `stty cols 160 rows 50; exec ${line}`, '/dev/null'];
    const own = { PATH: process.env.PATH, HOME: this.home, TERM: 'xterm-256color' };
    const child = spawn('script', shell, {
      env: { ...own, ...env(this.url, this.home) },
      cwd: join(this.home, 'work'),
      detached: true,
    });
    const kill = (signal) => {
      try {
        process.kill(-child.pid, signal);
      } catch {
        // nobody is left
      }
    };
    process.on('exit', () => kill('SIGKILL')); // where a promise is broken, too
    let written = '';
    child.stdout.on('data', (bytes) => (written += bytes));
    return {
      screen: () => written.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, ' ').replace(/\s+/g, ' '),
      async type(text) {
        child.stdin.write(text);
        await sleep(1_500);
        child.stdin.write('\r');
      },
      kill,
      ended: new Promise((resolve) => child.on('close', resolve)),
    };
  }
  /** Prompt tokens that were computed and reused since the last call of this, and which share of
   *  them came from memory. */
  async share() {
    const samples = await this.server.metrics();
    const sum = (metric) =>
      Object.entries(samples).reduce(
        (all, [name, value]) => (name.split('{')[0] === metric ? all + value : all),
        0,
      );
    const computed = sum('semantic_tokens_prefilled_total');
    const reused = sum('semantic_tokens_reused_total');
    const [newly, again] = [computed - this.known.computed, reused - this.known.reused];
    this.known = { computed, reused };
    return { computed: newly, reused: again, share: again / (newly + again) };
  }
  /** Of what was asked since the last share(), nearly all came from memory. */
  async expect_reuse(occasion, least = reused_least) {
    const { computed, reused, share } = await this.share();
    console.log(
      `        ${this.program}, ${occasion}: ${computed} tokens computed ` +
        `and ${reused} from memory: ${(100 * share).toFixed(1)} %`,
    );
    assert.ok(share >= least, `${occasion}: ${share} of the prompts came from memory`);
  }
  /** Whether a request to a model had these words. */
  asked(words) {
    return this.proxy.asked.some(
      ({ method, path, body }) => asks_a_model(method, path) && words.test(`${body}`),
    );
  }
  /** All that was asked of models went over WebSockets, or nothing did. */
  expect_wire() {
    const posted = this.proxy.asked.filter(({ method, path }) => asks_a_model(method, path));
    const { over_socket = false } = programs[this.program];
    assert.equal(this.proxy.over_sockets > 0, over_socket, 'a WebSocket was used');
    assert.equal(posted.length > 0, !over_socket, 'requests were posted');
  }
  /** No request was refused; 499 is a program that has left. */
  expect_no_refusal() {
    const refused = this.log.split('\n').filter((line) => / POST \S+ 4(?!99)\d\d /.test(line));
    assert.deepEqual(refused, []);
  }
  /** No request to a model was posted twice: a program does that when it has lost an answer. One
   *  that begins a session each time is asked the same twice. */
  expect_each_once() {
    if (programs[this.program].has_no_sessions) return;
    const seen = new Set();
    const twice = this.proxy.asked
      .filter(({ method, path }) => asks_a_model(method, path))
      .map(({ body }) => `${body}`)
      .filter((text) => seen.has(text) || !seen.add(text));
    assert.deepEqual(twice.map((text) => `${text.slice(0, 200)} … ${text.slice(-300)}`), []);
  }
  async requests_under_way() {
    const { semantic_sequences_running: running } = await this.server.metrics();
    return running;
  }
}
