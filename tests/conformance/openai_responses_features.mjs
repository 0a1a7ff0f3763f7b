// SPDX-License-Identifier: Apache-2.0
// The vendor's JavaScript SDK on what Responses have beside a turn: the background with resumed
// streams, conversations, compaction, WebSockets; and what of it is there behind kill -9.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { main, make_folder, require_sdk, Server } from './harness.mjs';

const { default: OpenAI, NotFoundError, BadRequestError } = require_sdk('openai');
const { ResponsesWS } = require_sdk('openai/resources/responses/ws');

const drawn = { model: 'any', temperature: 0, max_output_tokens: 60 };
const client_of = (server) =>
  new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const start = (cache) => Server.start({ cache });
const cached = ({ usage }) => usage.input_tokens_details.cached_tokens;
/** The token that ended an answer was not run. */
const stored = ({ usage }) => usage.total_tokens - 1;
const dog = 'My dog is called Biscuit.';
const question = 'What is my dog called?';
/** An answer that does not end before it is stopped. */
const endless = {
  max_output_tokens: 100_000,
  text: {
    format: {
      type: 'json_schema',
      name: 'texts',
      strict: false,
      schema: { type: 'array', minItems: 9, items: { type: 'string', minLength: 10_000 } },
    },
  },
};

/** Polls as the vendor's pages say. */
async function ended(client, id) {
  for (;;) {
    const one = await client.responses.retrieve(id);
    if (one.status !== 'queued' && one.status !== 'in_progress') return one;
    await sleep(20);
  }
}

/** A socket whose events are read one response at a time. */
class Socket {
  constructor(client) {
    this.ws = new ResponsesWS(client);
    this.events = [];
    this.waiting = () => {};
    this.ws.on('event', (event) => {
      this.events.push(event);
      this.waiting();
    });
    this.ws.on('error', () => {}); // it is an event, too
    this.opened = new Promise((resolve, reject) => {
      this.ws.socket.once('open', resolve);
      this.ws.socket.once('error', reject);
    });
  }
  /** Resolves with the response, or the error. */
  async ask(body) {
    await this.opened;
    this.events = [];
    this.ws.send({ type: 'response.create', ...drawn, store: false, ...body });
    const is_last = ({ type }) => /^(error|response\.(completed|incomplete|failed))$/.test(type);
    while (!this.events.some(is_last)) await new Promise((resolve) => (this.waiting = resolve));
    const last = this.events.find(is_last);
    return last.response ?? last;
  }
  close() {
    this.ws.close();
  }
}

await main(
  {
    async 'a response in the background is polled until it is complete'() {
      const server = await start(make_folder());
      const client = client_of(server);
      const queued = await client.responses.create({ ...drawn, input: dog, background: true });
      assert.equal(queued.status, 'queued');
      assert.equal(queued.background, true);
      const done = await ended(client, queued.id);
      assert.equal(done.status, 'completed');
      const plain = await client.responses.create({ ...drawn, input: dog });
      assert.equal(done.output_text, plain.output_text);
      const next = await client.responses.create({
        ...drawn,
        input: question,
        previous_response_id: done.id,
      });
      assert.ok(cached(next) >= stored(done));
      await server.stop();
    },

    async 'its stream is left and resumed without a gap'() {
      const server = await start(make_folder());
      const client = client_of(server);
      const stream = await client.responses.create({
        ...drawn,
        input: dog,
        background: true,
        stream: true,
      });
      let [id, last] = [undefined, -1];
      for await (const event of stream) {
        assert.equal(event.sequence_number, last + 1);
        last = event.sequence_number;
        id ??= event.response?.id;
        if (last === 2) break; // the connection is closed with it
      }
      const rest = await client.responses.retrieve(id, { stream: true, starting_after: last });
      let final;
      for await (const event of rest) {
        assert.equal(event.sequence_number, last + 1);
        last = event.sequence_number;
        final = event;
      }
      assert.equal(final.type, 'response.completed');
      assert.deepEqual(await client.responses.retrieve(id), {
        ...(await ended(client, id)),
      });
      await server.stop();
    },

    async 'it is stopped, and a kill -9 leaves a failure'() {
      const cache = make_folder();
      let server = await start(cache);
      let client = client_of(server);
      const ask = () =>
        client.responses.create({ ...drawn, ...endless, input: 'Talk.', background: true });
      const stopped = await client.responses.cancel((await ask()).id);
      assert.equal(stopped.status, 'cancelled');
      const broken = await ask();
      await server.kill();
      server = await start(cache);
      client = client_of(server);
      const left = await client.responses.retrieve(broken.id);
      assert.equal(left.status, 'failed');
      assert.equal(left.error.code, 'server_error');
      assert.equal((await client.responses.retrieve(stopped.id)).status, 'cancelled');
      // What it was asked stands, so that the conversation goes on.
      const followed = await client.responses.create({
        ...drawn,
        input: 'What did I ask?',
        previous_response_id: broken.id,
      });
      assert.equal(followed.status, 'completed');
      await server.stop();
    },

    async 'a conversation is made, used, read and deleted, across kill -9'() {
      const cache = make_folder();
      let server = await start(cache);
      let client = client_of(server);
      const made = await client.conversations.create({ metadata: { of: 'mine' } });
      const say = (input, more) =>
        client.responses.create({ ...drawn, input, conversation: made.id, ...more });
      const first = await say(dog);
      assert.deepEqual(first.conversation, { id: made.id });
      await server.kill();
      server = await start(cache);
      client = client_of(server);
      const second = await say(question, { conversation: { id: made.id } });
      assert.match(second.output_text, /Biscuit/);
      assert.ok(cached(second) >= stored(first), `${cached(second)} of ${stored(first)}`);
      const texts = [];
      const pages = { order: 'asc', limit: 2 };
      for await (const item of client.conversations.items.list(made.id, pages))
        texts.push(item.content[0].text);
      assert.deepEqual(texts, [dog, first.output_text, question, second.output_text]);
      const added = await client.conversations.items.create(made.id, {
        items: [{ role: 'user', content: 'One more.' }],
      });
      const one = { conversation_id: made.id };
      const item = await client.conversations.items.retrieve(added.first_id, one);
      assert.equal(item.content[0].text, 'One more.');
      await client.conversations.items.delete(item.id, one);
      await assert.rejects(client.conversations.items.retrieve(item.id, one), NotFoundError);
      const changed = await client.conversations.update(made.id, { metadata: { of: 'yours' } });
      assert.deepEqual(changed.metadata, { of: 'yours' });
      assert.equal((await client.conversations.delete(made.id)).deleted, true);
      await assert.rejects(client.conversations.retrieve(made.id), NotFoundError);
      await assert.rejects(say('x'), (error) => error.code === 'conversation_not_found');
      await server.stop();
    },

    async 'a conversation that is summed up goes on from the summary'() {
      const server = await start(make_folder());
      const client = client_of(server);
      const first = await client.responses.create({ ...drawn, input: dog });
      const input = [{ role: 'user', content: dog }, ...first.output];
      const compacted = await client.responses.compact({ model: 'any', input });
      assert.equal(compacted.object, 'response.compaction');
      assert.deepEqual(
        compacted.output.map((item) => item.type),
        ['message', 'compaction'],
      );
      const on = await client.responses.create({
        ...drawn,
        input: [...compacted.output, { role: 'user', content: question }],
      });
      assert.equal(on.status === 'completed' || on.status === 'incomplete', true);
      const untouched = await client.responses.create({
        ...drawn,
        input: question,
        previous_response_id: first.id,
      });
      assert.ok(cached(untouched) >= stored(first), 'the summary was asked for on a branch');
      await server.stop();
    },

    async 'a socket warms up and then says what is new alone'() {
      const server = await start(make_folder());
      const client = client_of(server);
      const socket = new Socket(client);
      const system = { role: 'developer', content: 'You help people with their dogs. '.repeat(20) };
      const warm = await socket.ask({ generate: false, input: [system] });
      assert.equal(warm.status, 'completed');
      assert.deepEqual(warm.output, []);
      let before = warm;
      for (const content of [dog, 'I was born in Perth, by the way.', question]) {
        const answer = await socket.ask({
          previous_response_id: before.id,
          input: [{ role: 'user', content }],
        });
        assert.equal(answer.status, 'completed', JSON.stringify(answer));
        const known = before === warm ? 0.9 * warm.usage.input_tokens : stored(before);
        assert.ok(cached(answer) >= known, `${cached(answer)} of ${known}`);
        before = answer;
      }
      const lost = await socket.ask({ previous_response_id: 'resp_none', input: 'x' });
      assert.equal(lost.error.code, 'previous_response_not_found');
      socket.close();
      await server.stop();
    },

    async 'a socket goes on behind kill -9 from a response that is stored'() {
      const cache = make_folder();
      let server = await start(cache);
      const told = await new Socket(client_of(server)).ask({ input: dog, store: true });
      await server.kill();
      server = await start(cache);
      const socket = new Socket(client_of(server));
      const answer = await socket.ask({ previous_response_id: told.id, input: question });
      assert.match(answer.output[0].content[0].text, /Biscuit/);
      assert.ok(cached(answer) >= stored(told), `${cached(answer)} of ${stored(told)}`);
      socket.close();
      await server.stop();
    },

    async 'embeddings are refused in words'() {
      const server = await start(make_folder());
      const asked = client_of(server).embeddings.create({ model: 'any', input: 'x' });
      await assert.rejects(asked, (error) => {
        assert.ok(error instanceof BadRequestError);
        return /no embedding model/.test(error.message);
      });
      await server.stop();
    },
  },
  280_000,
);
