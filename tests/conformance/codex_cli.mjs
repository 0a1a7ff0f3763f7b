// The Codex program itself, where CONFORMANCE_CODEX names one: a conversation over Responses, and
// its continuation by another process behind a kill -9 of the server.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { main, make_folder, Server } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';

const program = process.env.CONFORMANCE_CODEX;
if (!program) skip('CONFORMANCE_CODEX names no Codex program');
be_alone_on_loopback();

const cache = make_folder();
const home = make_folder();
const work = join(home, 'work');
mkdirSync(work);
const start = () => Server.start({ cache, args: ['--save-wait-ms', '30000'] });

function configure(server) {
  const lines = [
    'model = "semantic-tiny"',
    'model_provider = "semantic"',
    'approval_policy = "never"',
    'sandbox_mode = "danger-full-access"',
    '[model_providers.semantic]',
    'name = "Semantic"',
    `base_url = "${server.url}/v1"`,
    'wire_api = "responses"',
  ];
  writeFileSync(join(home, 'config.toml'), lines.join('\n') + '\n');
}

/** One process of Codex, asked once. Resolves with its answer, usage and thread. */
async function ask(server, text, more = []) {
  configure(server);
  const options = ['--skip-git-repo-check', '--json'];
  const env = { PATH: process.env.PATH, HOME: home, CODEX_HOME: home };
  const child = spawn(program, ['exec', ...more, ...options, text], {
    env,
    cwd: work,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (bytes) => (output += bytes));
  child.stderr.on('data', (bytes) => (errors += bytes));
  const status = await new Promise((resolve) => child.on('close', resolve));
  assert.equal(status, 0, errors + output);
  const events = output.split('\n').filter(Boolean).map(JSON.parse);
  const said = events.filter((e) => e.type === 'item.completed' && e.item.type === 'agent_message');
  return {
    text: said.map((event) => event.item.text).join('\n'),
    usage: events.find((event) => event.type === 'turn.completed').usage,
    thread: events.find((event) => event.type === 'thread.started')?.thread_id,
  };
}

let server = await start();
let first;
let counted = 0; // tokens read again in all turns so far: Codex adds up the usage of a thread

function read_again({ usage }) {
  const before = counted;
  counted = usage.input_tokens - usage.cached_input_tokens;
  return counted - before;
}

await main(
  {
    'Codex talks, and a turn reads its new text alone': async () => {
      first = await ask(server, 'My dog is called Biscuit.');
      assert(read_again(first) > 5000, 'its tools and texts were read');
      const turn = await ask(server, 'What is my dog called?', ['resume', first.thread]);
      assert(read_again(turn) < 100, JSON.stringify(turn.usage));
      assert.match(turn.text, /Biscuit/);
    },

    'it goes on behind a kill -9 of the server': async () => {
      await server.kill();
      server = await start();
      const turn = await ask(server, 'My cat is called Pickle.', ['resume', first.thread]);
      assert(read_again(turn) < 100, JSON.stringify(turn.usage));
      const last = await ask(server, 'What is my dog called?', ['resume', first.thread]);
      assert(read_again(last) < 100, JSON.stringify(last.usage));
      assert.match(last.text, /Biscuit/);
    },
  },
  200_000,
);
