// SPDX-License-Identifier: Apache-2.0
// The Claude Code program itself, where CONFORMANCE_CLAUDE names one: a conversation of several
// turns, one that is broken off, and the continuation by another process behind a kill -9 of the
// server.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { far_sighted_model, main, make_folder, Server } from './harness.mjs';
import { be_alone_on_loopback, skip } from './isolated.mjs';

const program = process.env.CONFORMANCE_CLAUDE;
if (!program) skip('CONFORMANCE_CLAUDE names no Claude Code program');
be_alone_on_loopback();

// Its tools and system text are some 30,000 tokens.
const model = far_sighted_model();
const cache = make_folder();
const home = make_folder();
const work = join(home, 'work');
mkdirSync(work);
const start = () => Server.start({ cache, args: ['--model', model, '--save-wait-ms', '30000'] });

/** One process of Claude Code, asked line by line. */
class Session {
  constructor(server, more = []) {
    const env = {
      PATH: process.env.PATH,
      HOME: home,
      ANTHROPIC_BASE_URL: server.url,
      ANTHROPIC_AUTH_TOKEN: 'none',
      ANTHROPIC_MODEL: 'semantic-tiny', // its own default changes its tools when it resumes
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
    };
    const form = ['--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose'];
    this.child = spawn(program, ['-p', ...form, ...more], { env, cwd: work });
    this.errors = '';
    this.child.stderr.on('data', (bytes) => (this.errors += bytes));
    this.ended = new Promise((resolve) => this.child.on('close', resolve));
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  /** Resolves with the result message of a turn. */
  async say(content) {
    const line = { type: 'user', message: { role: 'user', content } };
    this.child.stdin.write(`${JSON.stringify(line)}\n`);
    for (;;) {
      const { value, done } = await this.lines.next();
      if (done) throw new Error(`it ended without a result: ${this.errors}`);
      const message = JSON.parse(value);
      if (message.type === 'result') return message;
    }
  }

  end() {
    this.child.stdin.end();
    return this.ended;
  }
}

const read_again = ({ usage }) => usage.cache_creation_input_tokens + usage.input_tokens;
const share = (turn) =>
  turn.usage.cache_read_input_tokens / (turn.usage.cache_read_input_tokens + read_again(turn));
const shares = [];

let server = await start();
let session_id;

await main(
  {
    'Claude Code talks, and a turn reads its new text alone': async () => {
      const session = new Session(server);
      const first = await session.say('My dog is called Biscuit.');
      assert.equal(first.subtype, 'success');
      session_id = first.session_id;
      assert(read_again(first) > 5000, 'its tools were read');
      for (const line of ['My cat is called Pickle.', 'What is my dog called?']) {
        const turn = await session.say(line);
        assert.equal(turn.subtype, 'success');
        assert(turn.usage.cache_read_input_tokens >= read_again(first), JSON.stringify(turn.usage));
        assert(read_again(turn) < 100, JSON.stringify(turn.usage));
        shares.push(share(turn));
        if (line.endsWith('?')) assert.match(turn.result, /Biscuit/);
      }
      assert.equal(await session.end(), 0, session.errors);
    },

    'its stream comes in pieces, and a turn that is broken off costs nothing': async () => {
      const pieces = ['--include-partial-messages'];
      const session = new Session(server, ['--resume', session_id, ...pieces]);
      session.child.stdin.write(
        `${JSON.stringify({ type: 'user', message: { role: 'user', content: 'Go on.' } })}\n`,
      );
      for (;;) {
        const { value, done } = await session.lines.next();
        assert(!done, session.errors);
        const { type, event } = JSON.parse(value);
        if (type === 'stream_event' && event.type === 'content_block_delta') break;
      }
      session.child.kill('SIGKILL');
      await session.ended;
    },

    'another process goes on with the session behind a kill -9 of the server': async () => {
      await server.kill();
      server = await start();
      const session = new Session(server, ['--resume', session_id]);
      const turn = await session.say('What is my dog called?');
      assert.equal(turn.subtype, 'success');
      assert(read_again(turn) < 100, JSON.stringify(turn.usage));
      shares.push(share(turn));
      console.log(`        at least ${(100 * Math.min(...shares)).toFixed(1)} % from memory`);
      assert.match(turn.result, /Biscuit/);
      assert.equal(await session.end(), 0, session.errors);
    },
  },
  200_000,
);
