// SPDX-License-Identifier: Apache-2.0
// What the vendors' JavaScript SDKs do when they are refused: a full server gets the same request
// again at the time it says, and a mistake is not repeated.

import assert from 'node:assert/strict';

import { endless, main, make_folder, require_sdk, Server, user } from './harness.mjs';

const { Anthropic } = require_sdk('@anthropic-ai/sdk');
const { OpenAI } = require_sdk('openai');

const server = await Server.start({
  cache: make_folder(),
  args: ['--max-batch', '1', '--max-queued', '0', '--api-key', 'k1'],
});

/** Remembers each answer's status; `on_answer` is told of it. */
function spy(on_answer = () => {}) {
  const answers = [];
  const through = async (url, init) => {
    const answer = await fetch(url, init);
    answers.push(answer);
    on_answer(answer);
    return answer;
  };
  return { answers, fetch: through };
}

const messages = [user('Tell me a long story.')];
const limit = { model: 'any', temperature: 1, messages };
const sdks = {
  anthropic: {
    client: (more) => new Anthropic({ apiKey: 'k1', baseURL: server.url, maxRetries: 3, ...more }),
    ask: (client, more) => client.messages.create({ ...limit, max_tokens: 3, ...more }),
    full: 529,
    path: '/v1/messages',
  },
  openai: {
    client: (more) =>
      new OpenAI({ apiKey: 'k1', baseURL: `${server.url}/v1`, maxRetries: 3, ...more }),
    ask: (client, more) => client.chat.completions.create({ ...limit, max_tokens: 3, ...more }),
    full: 503,
    path: '/v1/chat/completions',
  },
};

/** An answer that takes the only place until it is aborted. */
async function take_the_place() {
  const abort = new AbortController();
  const answer = await fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'k1' },
    body: JSON.stringify({ ...limit, ...endless, stream: true }),
    signal: abort.signal,
  });
  assert.equal(answer.status, 200);
  return abort;
}

const cases = {};
for (const [name, { client, ask, full }] of Object.entries(sdks)) {
  cases[`${name}: a full server is asked again until there is a place`] = async () => {
    const running = await take_the_place();
    const seen = spy(({ status }) => status === full && running.abort());
    const answer = await ask(client({ fetch: seen.fetch }), {});
    assert.ok(answer.id);
    assert.ok(seen.answers.length > 1, 'it was never refused');
    const [refused] = seen.answers;
    assert.equal(refused.status, full);
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    assert.equal(refused.headers.get('x-should-retry'), 'true');
    assert.ok(refused.headers.get('request-id'));
    assert.equal(seen.answers.at(-1).status, 200);
  };

  cases[`${name}: what can never succeed is asked once`] = async () => {
    const wrong = [
      [{}, { messages: [] }, 400],
      [{}, { max_tokens: 'x' }, 400],
      [{ apiKey: 'k2' }, {}, 401],
    ];
    for (const [options, more, status] of wrong) {
      const seen = spy();
      await assert.rejects(ask(client({ ...options, fetch: seen.fetch }), more), { status });
      assert.equal(seen.answers.length, 1, JSON.stringify(more));
    }
  };
}
// One request a second comes back, within the SDKs' patience.
const limited = await Server.start({
  cache: make_folder(),
  args: ['--api-key', 'k1', '--requests-per-minute', '60'],
});
for (const [name, { client, ask }] of Object.entries(sdks)) {
  cases[`${name}: a key beyond its limit comes back by itself when it may`] = async () => {
    const baseURL = `${limited.url}${name === 'openai' ? '/v1' : ''}`;
    const tries = [];
    let refused;
    for (let asked = 0; !refused && asked < 80; ++asked) {
      const seen = spy();
      const answer = await ask(client({ fetch: seen.fetch, baseURL }), {});
      assert.ok(answer.id, 'each of them is answered in the end');
      refused = seen.answers.find(({ status }) => status === 429);
      tries.push(...seen.answers);
    }
    assert.ok(refused, 'the limit was never reached');
    assert.equal(refused.headers.get('retry-after'), '1');
    assert.equal(refused.headers.get('x-should-retry'), 'true');
    const limit =
      name === 'openai' ? 'x-ratelimit-limit-requests' : 'anthropic-ratelimit-requests-limit';
    for (const each of tries) assert.equal(each.headers.get(limit), '60');
    assert.equal(tries.at(-1).status, 200);
  };
}
// A client whose timeout is shorter than the prompt takes to be read gets there in the end.
const CHUNK = 64;
const slow = await Server.start({
  cache: make_folder(),
  args: [
    '--prefill-min-chunk', String(CHUNK), '--prefill-max-chunk', String(CHUNK),
    '--chunked-prefill-threshold', String(CHUNK),
  ],
}); // prettier-ignore
const prefilled = async () => (await slow.metrics()).semantic_tokens_prefilled_total;
for (const [name, { path }] of Object.entries(sdks)) {
  cases[`${name}: a retry right behind a timeout reuses what was read, within one chunk`] =
    async () => {
      const line = `This was written for ${name}: the gardener counted the lamps again. `;
      const body = { model: 'any', max_tokens: 1, messages: [user(line.repeat(120))] };
      const send = (signal) =>
        fetch(`${slow.url}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
          signal,
        });
      const before = await prefilled();
      const timeout = new AbortController();
      const first = send(timeout.signal).catch((error) => error);
      let read = 0;
      while (read < 8 * CHUNK) read = (await prefilled()) - before;
      timeout.abort();
      const retry = await send();
      const { semantic } = await retry.json();
      assert.equal((await first).name, 'AbortError', 'it was answered before it timed out');
      console.log(`        read ${read} tokens, reused ${semantic.reused_tokens}`);
      assert.ok(semantic.prompt_tokens > read + 10 * CHUNK, JSON.stringify(semantic));
      assert.ok(semantic.reused_tokens >= read - CHUNK, `${read} ${JSON.stringify(semantic)}`);
    };
}
cases['the server ends cleanly'] = async () => {
  assert.equal((await slow.stop()).code, 0);
  assert.equal((await limited.stop()).code, 0);
  assert.equal((await server.stop()).code, 0);
};

await main(cases);
