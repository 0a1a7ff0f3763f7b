// SPDX-License-Identifier: Apache-2.0
// The vendor's JavaScript SDK on responses that are kept: a turn says what is new and names the
// response before it, across kill -9, from older ones too; each is read, listed and deleted.

import assert from 'node:assert/strict';

import { main, make_folder, require_sdk, Server } from './harness.mjs';

const { default: OpenAI, NotFoundError, BadRequestError } = require_sdk('openai');
const lines = [
  'My dog is called Biscuit.',
  'I was born in Perth, by the way.',
  'What is my dog called?',
];
const drawn = { model: 'any', temperature: 0, max_output_tokens: 60 };

const client_of = (server) =>
  new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const start = (cache) => Server.start({ cache });

async function plain(client, body) {
  return client.responses.create({ ...drawn, ...body });
}

async function streamed(client, body) {
  const stream = client.responses.stream({ ...drawn, ...body });
  const kinds = [];
  for await (const event of stream) {
    assert.equal(event.sequence_number, kinds.length);
    kinds.push(event.type);
  }
  assert.equal(kinds[0], 'response.created');
  assert.equal(kinds.at(-1), 'response.completed');
  return stream.finalResponse();
}

/** The token that ended an answer was not run. */
const stored = ({ usage }) => usage.total_tokens - 1;
const cached = ({ usage }) => usage.input_tokens_details.cached_tokens;

/** Says the lines, each behind the response before it, on a server that is killed in between. */
async function converse(ask, between = async (server) => server) {
  const cache = make_folder();
  let server = await start(cache);
  const said = [];
  for (const input of lines) {
    const previous_response_id = said.at(-1)?.id;
    const answer = await ask(client_of(server), { input, previous_response_id });
    assert.equal(answer.previous_response_id, previous_response_id ?? null);
    assert.equal(answer.store, true);
    if (previous_response_id) {
      const [read, known] = [cached(answer), stored(said.at(-1))];
      assert.ok(read >= known, `${read} of ${known} tokens were reused`);
    }
    said.push(answer);
    server = await between(server, cache);
  }
  return { said, server, cache };
}

const restart = async (server, cache) => {
  await server.kill();
  return start(cache);
};

await main(
  {
    async 'a turn says only what is new, and knows what was said'() {
      for (const ask of [plain, streamed]) {
        const { said, server } = await converse(ask);
        assert.match(said.at(-1).output_text, /Biscuit/);
        await server.stop();
      }
    },

    async 'it goes on behind kill -9 with what was on disk'() {
      const whole = await converse(plain);
      await whole.server.stop();
      for (const ask of [plain, streamed]) {
        const { said, server } = await converse(ask, restart);
        assert.deepEqual(
          said.map((each) => each.output_text),
          whole.said.map((each) => each.output_text),
        );
        await server.stop();
      }
    },

    async 'a response that is not the newest is gone on from on a fork'() {
      const { said, server } = await converse(plain);
      const client = client_of(server);
      const ask = (input, previous_response_id) => plain(client, { input, previous_response_id });
      const fork = await ask('What is my dog called?', said[0].id);
      assert.match(fork.output_text, /Biscuit/);
      assert.ok(cached(fork) >= stored(said[0]), 'the fork shares what was said');
      const main_one = await ask('And where was I born?', said[2].id);
      assert.ok(cached(main_one) >= stored(said[2]), 'the newest is as it was');
      const on_the_fork = await ask('And my dog?', fork.id);
      assert.ok(cached(on_the_fork) >= stored(fork), 'the fork goes on');
      await server.stop();
    },

    async 'a reference stands for the item that was said'() {
      const server = await start(make_folder());
      const client = client_of(server);
      const said = await plain(client, { input: lines[0] });
      const input = [
        { role: 'user', content: lines[0] },
        { type: 'item_reference', id: said.output[0].id },
        { role: 'user', content: lines[2] },
      ];
      const answer = await plain(client, { input });
      assert.match(answer.output_text, /Biscuit/);
      assert.ok(cached(answer) >= stored(said), 'word for word what was said');
      const lost = plain(client, { input: [{ type: 'item_reference', id: 'msg_none' }] });
      await assert.rejects(lost, (error) => error.code === 'item_not_found');
      await server.stop();
    },

    async 'a tool loop goes on from the call'() {
      const server = await start(make_folder());
      const client = client_of(server);
      const tools = [
        {
          type: 'function',
          name: 'get_weather',
          description: 'Weather of a city',
          strict: false,
          parameters: { type: 'object', properties: { city: { type: 'string' } } },
        },
      ];
      const asked = await plain(client, {
        input: 'What is the weather in Oslo?',
        tools,
        tool_choice: 'required',
      });
      const call = asked.output.find((item) => item.type === 'function_call');
      JSON.parse(call.arguments);
      const answer = await plain(client, {
        previous_response_id: asked.id,
        tools,
        input: [{ type: 'function_call_output', call_id: call.call_id, output: 'Sunny, 20 C' }],
      });
      assert.ok(cached(answer) >= stored(asked) - 1, `${cached(answer)} of ${stored(asked)}`);
      const items = await client.responses.inputItems.list(answer.id);
      assert.equal(items.data[0].type, 'function_call_output');
      await server.stop();
    },

    async 'one is read, its input listed, and deleted, across a restart'() {
      const cache = make_folder();
      let server = await start(cache);
      let client = client_of(server);
      const input = [
        { role: 'user', content: 'One' },
        { role: 'assistant', content: 'Two' },
        { role: 'user', content: 'Three' },
      ];
      const made = await plain(client, { input, metadata: { of: 'mine' } });
      server = await restart(server, cache);
      client = client_of(server);
      const read = await client.responses.retrieve(made.id);
      assert.equal(read.output_text, made.output_text);
      assert.deepEqual(read.output, made.output);
      assert.deepEqual(read.metadata, { of: 'mine' });
      const texts = [];
      const pages = { order: 'asc', limit: 2 };
      for await (const item of client.responses.inputItems.list(made.id, pages))
        texts.push(item.content[0].text);
      assert.deepEqual(texts, ['One', 'Two', 'Three']);
      await assert.rejects(client.responses.cancel(made.id), BadRequestError);
      await client.responses.delete(made.id);
      await assert.rejects(client.responses.retrieve(made.id), NotFoundError);
      const lost = plain(client, { input: 'x', previous_response_id: made.id });
      await assert.rejects(lost, (error) => {
        assert.ok(error instanceof NotFoundError);
        return error.code === 'previous_response_not_found';
      });
      server = await restart(server, cache);
      client = client_of(server);
      await assert.rejects(client.responses.retrieve(made.id), NotFoundError);
      const unkept = await plain(client, { input: 'x', store: false });
      assert.equal(unkept.store, false);
      await assert.rejects(client.responses.retrieve(unkept.id), NotFoundError);
      await server.stop();
    },
  },
  240_000,
);
