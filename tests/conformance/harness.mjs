// SPDX-License-Identifier: Apache-2.0
// Runs the real server binary for a test: on a free port, with its own cache directory, and never
// longer than the test. Nothing but Node's own modules.

import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const binary = process.env.CONFORMANCE_SERVER;
if (!binary) throw new Error('CONFORMANCE_SERVER must name the semantic-server binary');

/** How many times as long a test waits: for a machine that has much else to do. */
export const slowness = Number(process.env.CONFORMANCE_PATIENCE ?? 1);
const START_MS = 30_000 * slowness;
const STOP_MS = 30_000 * slowness;

const running = new Set();
const folders = new Set();

function clean_up() {
  for (const child of running) {
    try {
      process.kill(child.pid, 'SIGKILL');
    } catch {
      // It ended by itself.
    }
  }
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
process.on('exit', clean_up);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

// Should the test itself be killed, the kernel ends the server with it.
const tied =
  spawnSync('setpriv', ['--version']).status === 0 ? ['setpriv', '--pdeathsig', 'KILL'] : [];

/** A folder of this test, removed at its end. */
export function make_folder() {
  const folder = mkdtempSync(join(tmpdir(), 'semantic-conformance-'));
  folders.add(folder);
  return folder;
}

/** The embedded model with its positions stretched: it sees further, if not as well. */
export function far_sighted_model() {
  const folder = make_folder();
  cpSync(process.env.CONFORMANCE_MODEL, folder, { recursive: true });
  const file = join(folder, 'config.json');
  const config = JSON.parse(readFileSync(file, 'utf8'));
  const rope_scaling = {
    rope_type: 'llama3',
    factor: 4,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: config.max_position_embeddings,
  };
  writeFileSync(file, JSON.stringify({ ...config, max_position_embeddings: 65536, rope_scaling }));
  return folder;
}

export function free_port() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Starts the binary with these arguments and nothing of the caller's own configuration, behind a
 *  shell command where there is one (`ulimit -v 600000`), on a terminal of its own if that is
 *  wanted: its process is then the only child of `child`. */
export function launch(args, first, in_terminal = false) {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(SEMANTIC_|ANTHROPIC_|OPENAI_)/.test(name)),
  );
  const shell = first ? ['bash', '-c', `${first}; exec "$0" "$@"`] : [];
  const plain = [...shell, ...tied, binary, ...args];
  const quoted = plain.map((word) => `'${word}'`).join(' ');
  const terminal = ['script', '-qec', `exec ${quoted}`, '/dev/null'];
  const [command, ...rest] = in_terminal ? terminal : plain;
  const child = spawn(command, rest, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = { out: '', err: '' };
  child.stdout.on('data', (bytes) => (output.out += bytes));
  child.stderr.on('data', (bytes) => (output.err += bytes));
  running.add(child);
  const ended = new Promise((resolve) => {
    child.on('close', (code, signal) => {
      running.delete(child);
      resolve({ code, signal, ...output });
    });
  });
  return { child, output, ended };
}

async function within(promise, ms, what) {
  const late = Symbol();
  const first = await Promise.race([promise, sleep(ms, late, { ref: false })]);
  if (first === late) throw new Error(`${what} took longer than ${ms} ms`);
  return first;
}

/** Runs the binary until it ends by itself. */
export function run_to_end(args, ms = START_MS) {
  return within(launch(args).ended, ms, `semantic-server ${args.join(' ')}`);
}

export class Server {
  ask_ms = 60_000 * slowness;

  /** Resolves when the server says that it is ready, within `patience` ms; on a free port unless
   *  one is given. */
  static async start({ cache, args = [], first, in_terminal, port, patience = START_MS }) {
    const server = new Server();
    server.port = port ?? (await free_port());
    server.url = `http://127.0.0.1:${server.port}`;
    const own = ['--port', String(server.port), '--cache-dir', cache, '--cache-budget-mb', '256'];
    // An end says that its memory is on the disk, however busy that is, unless a test is about it.
    if (!args.includes('--save-wait-ms')) own.push('--save-wait-ms', '30000');
    Object.assign(server, launch([...own, ...args], first, in_terminal));
    const give_up = Date.now() + patience;
    while (!(await server.is_ready())) {
      if (!running.has(server.child) || Date.now() > give_up) {
        throw new Error(
          `the server did not become ready:\n${server.output.out}${server.output.err}`,
        );
      }
      await sleep(50);
    }
    return server;
  }

  async is_ready() {
    try {
      const answer = await fetch(`${this.url}/health/ready`, { signal: AbortSignal.timeout(2000) });
      await answer.arrayBuffer();
      return answer.status === 200;
    } catch {
      return false;
    }
  }

  /** Asks the server to end; resolves with {code, signal, out, err}. */
  stop(signal = 'SIGTERM') {
    this.child.kill(signal);
    return within(this.ended, STOP_MS, 'stopping the server');
  }

  /** Ends the server as a power cut would. */
  kill() {
    this.child.kill('SIGKILL');
    return within(this.ended, STOP_MS, 'killing the server');
  }

  /** The samples of /metrics: {'name{label="value"}': number}. */
  async metrics() {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const samples = {};
    for (const line of text.split('\n')) {
      const space = line.lastIndexOf(' ');
      if (space > 0 && !line.startsWith('#'))
        samples[line.slice(0, space)] = Number(line.slice(space));
    }
    return samples;
  }

  /** POSTs a greedy Messages request; resolves with the parsed answer. */
  async ask(session, messages, more = {}) {
    const answer = await fetch(`${this.url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-id': session },
      body: JSON.stringify({ model: 'any', max_tokens: 80, temperature: 0, messages, ...more }),
      signal: AbortSignal.timeout(this.ask_ms),
    });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(`status ${answer.status}: ${text}`);
    return JSON.parse(text);
  }

  async count_tokens(messages, more = {}) {
    const answer = await fetch(`${this.url}/v1/messages/count_tokens`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'any', messages, ...more }),
    });
    if (answer.status !== 200) throw new Error(`status ${answer.status}: ${await answer.text()}`);
    return (await answer.json()).input_tokens;
  }
}

const long_text = { type: 'string', minLength: 10_000 };
const long_texts = { type: 'array', items: long_text, minItems: 9 };
/** Fields of a Messages request whose answer does not end before its client leaves. */
export const endless = {
  max_tokens: 100_000,
  output_config: { format: { type: 'json_schema', schema: long_texts } },
};

export const user = (content) => ({ role: 'user', content });
export const assistant = (content) => ({ role: 'assistant', content });
export const text_of = (message) => message.content.map((block) => block.text ?? '').join('');

/** All prompt tokens of an answer: computed, kept and reused. */
export const prompt_tokens = ({ usage }) =>
  usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens;

/**
 * How many tokens of a finished turn the next one finds stored: its prompt and its answer. The last
 * token of the answer ended it and was not run, so it may be missing.
 */
export const stored_tokens = (message) => prompt_tokens(message) + message.usage.output_tokens - 1;

/** Has a conversation: each line of `lines` is a turn. Resolves with every answer. */
export async function converse(server, session, lines, { between = async () => {}, ...more } = {}) {
  const messages = [];
  const answers = [];
  for (const line of lines) {
    server = (await between(server, answers.length)) ?? server;
    messages.push(user(line));
    const answer = await server.ask(session, messages, more);
    answers.push(answer);
    messages.push(assistant(text_of(answer)));
  }
  return { answers, texts: answers.map(text_of), messages, server };
}

/** Loads an SDK that install.sh put into the build tree; without it the test ends as skipped. */
export function require_sdk(name) {
  const modules = process.env.CONFORMANCE_NPM ?? '';
  try {
    return createRequire(join(modules, 'package.json'))(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    console.log(`skipped: ${name} is not installed in ${modules}`);
    process.exit(77);
  }
}

/** Runs the cases one after another and ends the process: 0 when every promise holds, else 1. */
export async function main(cases, ms = 60_000) {
  let broken = 0;
  for (const [promise, hold] of Object.entries(cases)) {
    const start = Date.now();
    try {
      await within(hold(), ms, promise);
      console.log(`holds   ${promise} (${Date.now() - start} ms)`);
    } catch (error) {
      broken += 1;
      console.log(`BROKEN  ${promise}\n${error.stack}`);
    }
  }
  process.exit(broken === 0 ? 0 : 1);
}
