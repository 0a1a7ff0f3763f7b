// SPDX-License-Identifier: Apache-2.0
// SIGTERM in the middle of an answer: the stream ends cleanly within the grace, the exit status is
// 0, and the memory is there after the restart.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { assistant, main, make_folder, Server, stored_tokens, text_of, user } from './harness.mjs';
import { paste } from './text.mjs';

/** Reads a stream to its end; calls `act` once, when `mark` has come. Returns its bytes. */
async function read_stream(server, messages, mark, act) {
  const answer = await fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': 'term' },
    body: JSON.stringify({
      model: 'any',
      max_tokens: 4000,
      temperature: 0,
      stream: true,
      messages,
    }),
  });
  assert.equal(answer.status, 200);
  const decoder = new TextDecoder();
  let text = '';
  let seen = false;
  for await (const bytes of answer.body) {
    text += decoder.decode(bytes, { stream: true });
    if (!seen && text.includes(mark)) {
      seen = true;
      act();
    }
  }
  assert.ok(seen, `the stream has no ${mark}`);
  return text;
}

/** Streams an answer, sends SIGTERM when `mark` comes; returns the stream's last event. */
async function terminate_at(mark, server, messages, grace_s) {
  let stopping;
  let asked_at;
  const stream = await read_stream(server, messages, mark, () => {
    asked_at = Date.now();
    stopping = server.stop();
  });
  const { code, signal, err } = await stopping;
  const took = Date.now() - asked_at;
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, err);
  assert.ok(took < (grace_s + 5) * 1000, `ended after ${took} ms`);
  return stream.trimEnd().split('\n\n').at(-1);
}

const grace = (seconds) => ['--shutdown-grace-s', String(seconds)];

await main({
  async 'an answer under SIGTERM is finished within the grace, and the memory stays'() {
    const cache = make_folder();
    const first = await Server.start({ cache, args: grace(5) });
    const told = [user('My dog is called Biscuit.')];
    const answer = await first.ask('term', told);
    told.push(assistant(text_of(answer)));
    const story = [...told, user('Tell me a long story.')];
    assert.match(await terminate_at('text_delta', first, story, 5), /^event: message_stop\n/);

    const second = await Server.start({ cache });
    const recall = await second.ask('term', [...told, user('What is my dog called?')]);
    assert.match(text_of(recall), /Biscuit/);
    const stored = stored_tokens(answer);
    const read = recall.usage.cache_read_input_tokens;
    assert.ok(read >= stored - 1, `${read} tokens read, ${stored} were stored`);
    await second.stop();
  },

  async 'an answer that outlasts the grace is cut with an error event, and its work is kept'() {
    const cache = make_folder();
    const args = ['--prefill-min-chunk', '128', '--prefill-max-chunk', '256', ...grace(0)];
    const first = await Server.start({ cache, args });
    const long = [user(`Here is a text for you:\n\n${paste(12_000)}`)];
    assert.match(await terminate_at('message_start', first, long, 0), /^event: error\n/);

    const second = await Server.start({ cache });
    const retry = await second.ask('term', long);
    assert.ok(retry.usage.cache_read_input_tokens > 0, JSON.stringify(retry.usage));
    await second.stop();
  },

  async 'SIGHUP reads the key file and the log level anew where there is no terminal'() {
    const folder = make_folder();
    const keys = join(folder, 'keys');
    const config = join(folder, 'server.conf');
    writeFileSync(keys, 'old team\n');
    writeFileSync(config, `api-key-file = ${keys}\nlog-level = warning\n`);
    const server = await Server.start({ cache: folder, args: ['--config', config] });
    const status = async (key) =>
      (await fetch(`${server.url}/v1/models`, { headers: { 'x-api-key': key } })).status;
    assert.equal(await status('old'), 200);
    assert.equal(await status('new'), 401);
    writeFileSync(keys, 'new team\n');
    writeFileSync(config, `api-key-file = ${keys}\nlog-level = info\n`);
    server.child.kill('SIGHUP');
    for (let i = 0; i < 100 && (await status('new')) !== 200; ++i) await sleep(50);
    assert.equal(await status('new'), 200);
    assert.equal(await status('old'), 401);
    // A fault changes nothing, and the log says which.
    writeFileSync(keys, '');
    server.child.kill('SIGHUP');
    for (let i = 0; i < 100 && !/not read again/.test(server.output.err); ++i) await sleep(50);
    assert.match(server.output.err, /not read again, all is as before: .*has no key in it/);
    assert.match(server.output.err, /read again: 1 keys of the key file, log level info/);
    assert.equal(await status('new'), 200);
    assert.equal((await server.stop()).code, 0);
  },

  async 'SIGHUP ends a server on a terminal as SIGTERM does, unless it was told to ignore it'() {
    if (spawnSync('script', ['--version']).error) return console.log('skipped: no script(1)');
    const cache = make_folder();
    // script gives the server a terminal of its own.
    const first = await Server.start({ cache, in_terminal: true });
    const told = [user('My dog is called Biscuit.')];
    const answer = await first.ask('term', told);
    const [pid] = spawnSync('pgrep', ['-P', String(first.child.pid)]).stdout.toString().split('\n');
    process.kill(Number(pid), 'SIGHUP');
    const { out } = await first.ended;
    assert.match(out, /SIGHUP: stopping/);

    const second = await Server.start({ cache, first: 'trap "" HUP' });
    second.child.kill('SIGHUP');
    told.push(assistant(text_of(answer)), user('What is my dog called?'));
    assert.match(text_of(await second.ask('term', told)), /Biscuit/);
    await second.stop();
  },

  async 'an idle server ends at once and leaves no process behind'() {
    const server = await Server.start({ cache: make_folder() });
    const start = Date.now();
    const { code, signal } = await server.stop();
    assert.deepEqual({ code, signal }, { code: 0, signal: null });
    assert.ok(Date.now() - start < 3000, `took ${Date.now() - start} ms`);
  },

  async 'two servers cannot share a cache directory'() {
    const cache = make_folder();
    const first = await Server.start({ cache });
    await assert.rejects(Server.start({ cache }), (error) => error.message.includes(cache));
    assert.ok(await first.is_ready());
    await first.stop();
  },
});
