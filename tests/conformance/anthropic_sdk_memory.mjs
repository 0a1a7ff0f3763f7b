// SPDX-License-Identifier: Apache-2.0
// The vendor's JavaScript SDK against the server: streams, memory across kill -9, errors, aborts.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  main,
  make_folder,
  prompt_tokens,
  require_sdk,
  Server,
  stored_tokens,
  text_of,
  user,
  assistant,
} from './harness.mjs';

const sdk = require_sdk('@anthropic-ai/sdk');

const lines = [
  'My dog is called Biscuit.',
  'I was born in Perth, by the way.',
  'What is my dog called?',
];

const client_of = (server) =>
  new sdk.Anthropic({ apiKey: 'none', baseURL: server.url, maxRetries: 0 });
const body = (messages) => ({ model: 'any', max_tokens: 60, temperature: 0, messages });
const session = (id) => ({ headers: { 'X-Session-ID': id } });

/** One streamed turn: the final message and the events that carried its text. */
async function stream_turn(client, messages, id) {
  const stream = client.messages.stream(body(messages), session(id));
  const deltas = [];
  stream.on('streamEvent', (event) => {
    if (event.type === 'content_block_delta') deltas.push(event.delta.text);
  });
  const message = await stream.finalMessage();
  assert.equal(deltas.join(''), text_of(message));
  return { message, deltas };
}

/** The whole conversation; `restart` may replace the server before the last turn. */
async function talk(server, id, restart = async (same) => same) {
  const messages = [];
  const turns = [];
  for (const line of lines) {
    if (turns.length === lines.length - 1) server = await restart(server);
    messages.push(user(line));
    const turn = await stream_turn(client_of(server), messages, id);
    turns.push(turn);
    messages.push(assistant(text_of(turn.message)));
  }
  return { turns, messages, server };
}

async function with_server(use) {
  const server = await Server.start({ cache: make_folder() });
  await use(server, client_of(server));
  const { code } = await server.stop();
  assert.equal(code, 0);
}

await main({
  async 'memory survives kill -9 and is not read again'() {
    const cache = make_folder();
    const killed = await talk(await Server.start({ cache }), 'biscuit', async (server) => {
      await server.kill();
      return Server.start({ cache });
    });
    const [, second, third] = killed.turns;
    assert.match(text_of(third.message), /Biscuit/);
    assert.ok(third.deltas.length > 1, 'the answer came in one piece');

    // Everything that was stored is reused: what is left to compute is the new turn alone.
    const read = third.message.usage.cache_read_input_tokens;
    const stored = stored_tokens(second.message);
    assert.equal(second.message.stop_reason, 'end_turn');
    assert.ok(read === stored || read === stored + 1, `${read} read, ${stored} or one more stored`);
    const now = await killed.server.count_tokens(killed.messages.slice(0, 5));
    const before = await killed.server.count_tokens(killed.messages.slice(0, 3));
    const new_text = now - before - second.message.usage.output_tokens;
    assert.ok(now - read <= new_text + 1, `${now - read} computed for ${new_text} new tokens`);
    await killed.server.stop();

    const whole = await talk(await Server.start({ cache: make_folder() }), 'biscuit');
    const texts = ({ turns }) => turns.map((turn) => text_of(turn.message));
    assert.deepEqual(texts(killed), texts(whole));
    assert.equal(prompt_tokens(third.message), prompt_tokens(whole.turns[2].message));
    await whole.server.stop();
  },

  async 'a plain answer equals the streamed one, and its usage adds up to count_tokens'() {
    await with_server(async (server, client) => {
      const messages = [user('My dog is called Biscuit. What is my dog called?')];
      const counted = await client.messages.countTokens({ model: 'any', messages });
      const plain = await client.messages.create(body(messages), session('plain'));
      const { message } = await stream_turn(client, messages, 'streamed');
      assert.equal(plain.type, 'message');
      assert.equal(plain.role, 'assistant');
      assert.equal(text_of(plain), text_of(message));
      assert.equal(prompt_tokens(plain), counted.input_tokens);
      assert.equal(prompt_tokens(message), counted.input_tokens);
      assert.equal(plain.usage.output_tokens, message.usage.output_tokens);
    });
  },

  async 'a stop sequence and a token limit end the answer as asked'() {
    await with_server(async (server, client) => {
      const messages = [user('My dog is called Biscuit. What is my dog called?')];
      const short = await client.messages.create({ ...body(messages), max_tokens: 2 });
      assert.equal(short.stop_reason, 'max_tokens');
      assert.equal(short.usage.output_tokens, 2);
      const cut = await client.messages.create({ ...body(messages), stop_sequences: ['Bisc'] });
      assert.equal(cut.stop_reason, 'stop_sequence');
      assert.equal(cut.stop_sequence, 'Bisc');
      assert.ok(!text_of(cut).includes('Bisc'), text_of(cut));
    });
  },

  async 'mistakes come as the error classes of the SDK'() {
    await with_server(async (server, client) => {
      const refused = (promise, type, pattern) =>
        assert.rejects(promise, (error) => {
          assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
          assert.match(error.message, pattern);
          assert.ok(error.requestID, 'no request id');
          return true;
        });
      const none = { model: 'any', max_tokens: 5 };
      const hello = [user('hello')];
      await refused(client.messages.create(none), sdk.BadRequestError, /messages/);
      await refused(
        client.messages.create({ ...none, messages: [{ role: 'cat', content: 'x' }] }),
        sdk.BadRequestError,
        /role/,
      );
      await refused(
        client.messages.create({ model: 'any', messages: hello }),
        sdk.BadRequestError,
        /max_tokens/,
      );
      await refused(
        client.messages.create({ ...none, messages: hello }, session('../up')),
        sdk.BadRequestError,
        /session/i,
      );
      await refused(client.post('/v1/nothing', { body: {} }), sdk.NotFoundError, /nothing/);
    });
  },

  async 'an aborted stream stops the work and leaves the server healthy'() {
    await with_server(async (server, client) => {
      const long = { ...body([user('Tell me a long story.')]), max_tokens: 4000, temperature: 1 };
      const stream = client.messages.stream(long, session('aborted'));
      stream.on('text', () => stream.abort());
      await assert.rejects(stream.finalMessage(), sdk.APIUserAbortError);
      for (let tries = 0; (await server.metrics()).semantic_sequences_running !== 0; ++tries) {
        assert.ok(tries < 100, 'the aborted request is still running');
        await sleep(20);
      }
      assert.ok(await server.is_ready());
      const next = await client.messages.create(
        body([user('My dog is called Biscuit.')]),
        session('next'),
      );
      assert.equal(next.stop_reason, 'end_turn');
    });
  },
});
