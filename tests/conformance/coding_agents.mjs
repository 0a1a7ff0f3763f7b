// Coding agents' own programs, where CONFORMANCE_PROGRAMS names the folders that have them, divided
// by colons: how each is told of a server, and asked. A test that imports this is skipped without
// such folders, and runs where nothing but loopback is to be reached.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { make_folder } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';

const folders = process.env.CONFORMANCE_PROGRAMS?.split(':');
if (!folders) skip('CONFORMANCE_PROGRAMS names no folder with programs of agents');
be_alone_on_loopback();

export const patience_ms = 240_000;
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
