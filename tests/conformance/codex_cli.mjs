// SPDX-License-Identifier: Apache-2.0
// The Codex program itself, where CONFORMANCE_CODEX names one: a conversation over Responses, by
// POST and over a WebSocket, an answer in a form, a turn that is broken off, and the continuation
// by another process behind a kill -9 of the server.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { main, make_folder, Server } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';

const program = process.env.CONFORMANCE_CODEX;
if (!program) skip('CONFORMANCE_CODEX names no Codex program');
be_alone_on_loopback();

const reused_least = 0.95;

/** Prompt tokens that were computed and reused since the server's start, and open WebSockets. */
async function counts(server) {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const sum = (pattern) =>
    [...text.matchAll(new RegExp(`^${pattern} (\\S+)$`, 'gm'))].reduce(
      (all, [, value]) => all + Number(value),
      0,
    );
  return {
    computed: sum('semantic_tokens_prefilled_total(?:{[^}]*})?'),
    reused: sum('semantic_tokens_reused_total(?:{[^}]*})?'),
  };
}

/** The program with a home of its own. */
class Codex {
  home = make_folder();
  work = join(this.home, 'work');

  constructor(over_socket) {
    this.over_socket = over_socket;
    mkdirSync(this.work);
  }

  configure(server) {
    const lines = [
      'model = "semantic-tiny"',
      'model_provider = "semantic"',
      'approval_policy = "never"',
      'sandbox_mode = "danger-full-access"',
      '[model_providers.semantic]',
      'name = "Semantic"',
      `base_url = "${server.url}/v1"`,
      'wire_api = "responses"',
      `supports_websockets = ${this.over_socket}`,
    ];
    writeFileSync(join(this.home, 'config.toml'), lines.join('\n') + '\n');
  }

  start(server, args) {
    this.configure(server);
    const env = { PATH: process.env.PATH, HOME: this.home, CODEX_HOME: this.home };
    return spawn(program, ['exec', ...args], {
      env,
      cwd: this.work,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** One process, asked once. Resolves with its answer, usage and thread. */
  async ask(server, text, more = [], options = []) {
    const child = this.start(server, [
      ...more, '--skip-git-repo-check', '--json', ...options, text,
    ]); // prettier-ignore
    let [output, errors] = ['', ''];
    child.stdout.on('data', (bytes) => (output += bytes));
    child.stderr.on('data', (bytes) => (errors += bytes));
    const status = await new Promise((resolve) => child.on('close', resolve));
    assert.equal(status, 0, errors + output);
    const events = output.split('\n').filter(Boolean).map(JSON.parse);
    const is_message = (e) => e.type === 'item.completed' && e.item.type === 'agent_message';
    return {
      text: events.filter(is_message).map((event) => event.item.text).join('\n'),
      thread: events.find((event) => event.type === 'thread.started')?.thread_id,
    }; // prettier-ignore
  }

  /** One process that is killed when its turn has begun. */
  async break_off(server, text, more) {
    const child = this.start(server, [...more, '--skip-git-repo-check', '--json', text]);
    child.stdout.on('data', (bytes) => {
      if (`${bytes}`.includes('turn.started')) child.kill('SIGKILL');
    });
    child.stderr.resume();
    await new Promise((resolve) => child.on('close', resolve));
  }
}

async function converse(over_socket) {
  const cache = make_folder();
  const start = () => Server.start({ cache, args: ['--save-wait-ms', '30000'] });
  const codex = new Codex(over_socket);
  let server = await start();
  let known = { computed: 0, reused: 0 };
  const shares = [];
  const share_of_turn = async () => {
    const now = await counts(server);
    const [computed, reused] = [now.computed - known.computed, now.reused - known.reused];
    known = now;
    shares.push(reused / (computed + reused));
    return { computed, reused };
  };
  const reads_new_text_alone = async (what) => {
    const { computed, reused } = await share_of_turn();
    assert.ok(shares.at(-1) >= reused_least, `${what}: ${computed} computed, ${reused} reused`);
  };

  const first = await codex.ask(server, 'My dog is called Biscuit.');
  const opening = await share_of_turn();
  assert.ok(opening.computed > 5000, 'its tools and texts were read');
  shares.length = 0;
  const resume = ['resume', first.thread];
  const second = await codex.ask(server, 'What is my dog called?', resume);
  await reads_new_text_alone('the second turn');
  assert.match(second.text, /Biscuit/);

  await codex.break_off(server, 'Tell me a story.', resume);
  await server.kill();
  server = await start();
  known = { computed: 0, reused: 0 };
  await codex.ask(server, 'My cat is called Pickle.', resume);
  await reads_new_text_alone('behind kill -9');
  const last = await codex.ask(server, 'What is my dog called?', resume);
  await reads_new_text_alone('the last turn');
  assert.match(last.text, /Biscuit/);

  const schema = {
    type: 'object',
    properties: { name: { type: 'string', maxLength: 20 } },
    required: ['name'],
    additionalProperties: false,
  };
  const file = join(codex.home, 'schema.json');
  writeFileSync(file, JSON.stringify(schema));
  const formed = await codex.ask(server, 'What is my dog called?', [], ['--output-schema', file]);
  assert.equal(typeof JSON.parse(formed.text).name, 'string');
  const told = (await server.stop()).err + server.output.out;
  assert.equal(/GET \/v1\/responses 101/.test(told), over_socket, 'it spoke as it was told to');
  const least = (100 * Math.min(...shares)).toFixed(1);
  console.log(`        ${opening.computed} tokens at first, then at least ${least} % from memory`);
}

await main(
  {
    'Codex converses, breaks off, goes on behind kill -9 and answers in a form, by POST': () =>
      converse(false),
    'and over a WebSocket': () => converse(true),
  },
  280_000,
);
