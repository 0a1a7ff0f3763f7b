// SIGTERM in the middle of an answer: the stream ends cleanly within the grace, the exit status is
// 0, and the memory is there after the restart.

import assert from 'node:assert/strict';

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

  async 'SIGHUP ends a server as SIGTERM does, but for one that was started to ignore it'() {
    const cache = make_folder();
    const first = await Server.start({ cache });
    const told = [user('My dog is called Biscuit.')];
    const answer = await first.ask('term', told);
    const { code, signal, err } = await first.stop('SIGHUP');
    assert.deepEqual({ code, signal }, { code: 0, signal: null }, err);
    assert.match(err, /SIGHUP: stopping/);

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
