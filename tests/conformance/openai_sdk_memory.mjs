// SPDX-License-Identifier: Apache-2.0
// The vendor's JavaScript SDK against chat completions: streams, memory across kill -9, tools,
// errors, aborts.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { assistant, main, make_folder, require_sdk, Server, user } from './harness.mjs';

const sdk = require_sdk('openai');

const lines = [
  'My dog is called Biscuit.',
  'I was born in Perth, by the way.',
  'What is my dog called?',
];
const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'The weather of a city.',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' } },
        required: ['city'],
      },
    },
  },
];

const client_of = (server) =>
  new sdk.OpenAI({ apiKey: 'none', baseURL: `${server.url}/v1`, maxRetries: 0 });

/** The loaded model, as a client finds it. */
async function model_of(client) {
  for await (const model of client.models.list()) return model.id;
  throw new Error('there is no model');
}

async function body(client, messages, more = {}) {
  const model = await model_of(client);
  return { model, max_completion_tokens: 60, temperature: 0, messages, ...more };
}

const text_of = (completion) => completion.choices[0].message.content;

/** One streamed turn: the final completion and the pieces its text came in. */
async function stream_turn(client, messages, more) {
  const asked = await body(client, messages, more);
  const stream = client.chat.completions.stream({
    ...asked,
    stream_options: { include_usage: true },
  });
  const pieces = [];
  stream.on('content', (piece) => pieces.push(piece));
  const completion = await stream.finalChatCompletion();
  assert.equal(pieces.join(''), text_of(completion) ?? '');
  return { completion, pieces };
}

/** The whole conversation; `restart` may replace the server before the last turn. */
async function talk(server, session_id, restart = async (same) => same) {
  const messages = [];
  const turns = [];
  for (const line of lines) {
    if (turns.length === lines.length - 1) server = await restart(server);
    messages.push(user(line));
    const turn = await stream_turn(client_of(server), messages, { session_id });
    turns.push(turn);
    messages.push(assistant(text_of(turn.completion)));
  }
  return { turns, server };
}

async function with_server(use) {
  const server = await Server.start({ cache: make_folder() });
  await use(server, client_of(server));
  const { code } = await server.stop();
  assert.equal(code, 0);
}

await main({
  async 'memory of a session_id survives kill -9 and is not read again'() {
    const cache = make_folder();
    const killed = await talk(await Server.start({ cache }), 'biscuit', async (server) => {
      await server.kill();
      return Server.start({ cache });
    });
    const [, second, third] = killed.turns;
    assert.match(text_of(third.completion), /Biscuit/);
    assert.ok(third.pieces.length > 1, 'the answer came in one piece');

    // All that the second turn left is reused; the token that ended it was not run.
    const { usage } = third.completion;
    const stored = second.completion.usage.total_tokens - 1;
    const read = usage.prompt_tokens_details.cached_tokens;
    assert.equal(second.completion.choices[0].finish_reason, 'stop');
    assert.ok(read === stored || read === stored + 1, `${read} read, ${stored} or one more stored`);
    assert.equal(third.completion.semantic.agent, 'oai_biscuit');
    assert.ok(third.completion.semantic.restored_tokens > 0, 'nothing came from disk');
    await killed.server.stop();

    const whole = await talk(await Server.start({ cache: make_folder() }), 'biscuit');
    const texts = ({ turns }) => turns.map((turn) => text_of(turn.completion));
    assert.deepEqual(texts(killed), texts(whole));
    await whole.server.stop();
  },

  async 'a plain answer equals the streamed one and that of the other API'() {
    await with_server(async (server, client) => {
      const messages = [user('My dog is called Biscuit. What is my dog called?')];
      const plain = await client.chat.completions.create(
        await body(client, messages, { session_id: 'plain' }),
      );
      const { completion } = await stream_turn(client, messages, { session_id: 'streamed' });
      assert.equal(plain.object, 'chat.completion');
      assert.match(plain.id, /^chatcmpl-/);
      assert.equal(text_of(plain), text_of(completion));
      assert.equal(plain.system_fingerprint, completion.system_fingerprint);
      assert.equal(plain.usage.prompt_tokens, await server.count_tokens(messages));
      assert.equal(plain.usage.completion_tokens, completion.usage.completion_tokens);
      const message = await server.ask('other', messages);
      assert.equal(message.content[0].text, text_of(plain));
      const system = { role: 'developer', content: 'Be brief.' };
      const briefed = await client.chat.completions.create(
        await body(client, [system, ...messages], { session_id: 'briefed' }),
      );
      assert.equal(
        briefed.usage.prompt_tokens,
        await server.count_tokens(messages, { system: 'Be brief.' }),
      );
    });
  },

  async 'a stop string and a token limit end the answer as asked'() {
    await with_server(async (server, client) => {
      const messages = [user('My dog is called Biscuit. What is my dog called?')];
      const short = await client.chat.completions.create(
        await body(client, messages, { max_completion_tokens: 2 }),
      );
      assert.equal(short.choices[0].finish_reason, 'length');
      assert.equal(short.usage.completion_tokens, 2);
      const cut = await client.chat.completions.create(
        await body(client, messages, { stop: ['Bisc'] }),
      );
      assert.equal(cut.choices[0].finish_reason, 'stop');
      assert.ok(!text_of(cut).includes('Bisc'), text_of(cut));
    });
  },

  async 'several choices come out alike, streamed and plain, and the first as if alone'() {
    await with_server(async (server, client) => {
      const messages = [user('Tell me a short story.')];
      const more = { temperature: 1.5, seed: 7, max_completion_tokens: 12 };
      const alone = await client.chat.completions.create(await body(client, messages, more));
      const plain = await client.chat.completions.create(
        await body(client, messages, { ...more, n: 3 }),
      );
      const stream = client.chat.completions.stream(
        await body(client, messages, { ...more, n: 3, stream_options: { include_usage: true } }),
      );
      const streamed = await stream.finalChatCompletion();
      const texts = ({ choices }) => choices.map(({ message }) => message.content);
      assert.equal(plain.choices.length, 3);
      assert.deepEqual(texts(streamed), texts(plain));
      assert.deepEqual(
        streamed.choices.map(({ index, finish_reason }) => [index, finish_reason]),
        plain.choices.map(({ index, finish_reason }) => [index, finish_reason]),
      );
      assert.equal(text_of(alone), texts(plain)[0]);
      assert.ok(new Set(texts(plain)).size > 1, 'every choice is the same');
      assert.equal(plain.usage.prompt_tokens, alone.usage.prompt_tokens);
      assert.equal(streamed.usage.completion_tokens, plain.usage.completion_tokens);
    });
  },

  async 'log probabilities spell the answer, streamed and plain alike'() {
    await with_server(async (server, client) => {
      const messages = [user('My dog is called Biscuit. What is my dog called?')];
      const more = { logprobs: true, top_logprobs: 3 };
      const plain = await client.chat.completions.create(await body(client, messages, more));
      const { completion } = await stream_turn(client, messages, more);
      const { content } = plain.choices[0].logprobs;
      const bytes = content.flatMap((token) => token.bytes);
      assert.equal(Buffer.from(bytes).toString('utf8'), text_of(plain));
      for (const token of content) {
        assert.equal(token.top_logprobs.length, 3);
        assert.equal(token.top_logprobs[0].token, token.token, 'greedy takes the likeliest');
        assert.ok(token.logprob <= 0);
      }
      assert.deepEqual(completion.choices[0].logprobs.content, content);
    });
  },

  async 'a biased token is all that is said'() {
    await with_server(async (server, client) => {
      const messages = [user('Hello.')];
      const plain = await client.chat.completions.create(
        await body(client, messages, { logit_bias: { 70: 100 }, max_completion_tokens: 4 }),
      );
      const said = text_of(plain);
      assert.equal(said, said.slice(0, said.length / 4).repeat(4));
      assert.equal(plain.choices[0].finish_reason, 'length');
    });
  },

  async 'tools are called and their results taken, streamed and plain alike'() {
    await with_server(async (server, client) => {
      const messages = [user('What is the weather in Perth?')];
      const plain = await client.chat.completions.create(
        await body(client, messages, { tools, session_id: 'plain' }),
      );
      const { completion } = await stream_turn(client, messages, { tools, session_id: 'streamed' });
      const calls = (from) =>
        (from.choices[0].message.tool_calls ?? []).map(({ type, function: called }) => {
          assert.equal(type, 'function');
          return [called.name, JSON.parse(called.arguments)];
        });
      assert.deepEqual(calls(completion), calls(plain));
      assert.equal(text_of(completion) ?? '', text_of(plain) ?? '');
      const reason = plain.choices[0].finish_reason;
      assert.equal(reason === 'tool_calls', calls(plain).length > 0);
      assert.equal(completion.choices[0].finish_reason, reason);
      console.log(`        the model called ${JSON.stringify(calls(plain))}`);

      // What came back from a model goes in again as it is, with its results.
      const results = (plain.choices[0].message.tool_calls ?? []).map(({ id }) => ({
        role: 'tool',
        tool_call_id: id,
        content: 'sunny',
      }));
      const next = await client.chat.completions.create(
        await body(client, [...messages, plain.choices[0].message, ...results, user('Thanks.')], {
          tools,
          session_id: 'plain',
        }),
      );
      const before = plain.usage.total_tokens - 1;
      const read = next.usage.prompt_tokens_details.cached_tokens;
      assert.ok(read >= before, `${read} of ${before} stored tokens were reused`);
    });
  },

  async 'mistakes come as the error classes of the SDK'() {
    await with_server(async (server, client) => {
      const refused = (promise, type, fields) =>
        assert.rejects(promise, (error) => {
          assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
          assert.ok(error.requestID, 'no request id');
          assert.deepEqual({ param: error.param, code: error.code }, fields, error.message);
          return true;
        });
      const create = async (more) => {
        const asked = await body(client, [user('hello')], more);
        return client.chat.completions.create(asked);
      };
      const bad = sdk.BadRequestError;
      await refused(create({ messages: [] }), bad, { param: 'messages', code: null });
      await refused(create({ n: 129 }), bad, { param: 'n', code: null });
      await refused(create({ top_logprobs: 2 }), bad, { param: 'top_logprobs', code: null });
      await refused(create({ logit_bias: { dog: 1 } }), bad, { param: 'logit_bias', code: null });
      await refused(create({ stream: true, tool_choice: 'required' }), bad, {
        param: 'tool_choice',
        code: null,
      });
      await refused(create({ stream: true, web_search_options: {} }), bad, {
        param: 'web_search_options',
        code: 'unsupported_value',
      });
      await refused(create({ session_id: '../up' }), bad, { param: 'session_id', code: null });
    });
  },

  async 'a plain text goes on, whole and streamed, from memory the second time'() {
    await with_server(async (server, client) => {
      const asked = {
        model: 'semantic-tiny',
        prompt: 'User: My dog is called Biscuit.',
        max_tokens: 12,
        temperature: 0,
      };
      const whole = await client.completions.create({ ...asked, logprobs: 2, n: 2 });
      assert.equal(whole.object, 'text_completion');
      assert.equal(whole.choices[0].text, whole.choices[1].text);
      const { tokens, text_offset, top_logprobs } = whole.choices[0].logprobs;
      const begun = text_offset[3];
      assert.equal(tokens.join('').slice(0, begun), whole.choices[0].text.slice(0, begun));
      assert.equal(Object.keys(top_logprobs[0]).length, 2);
      let text = '';
      let last;
      const options = { stream: true, stream_options: { include_usage: true } };
      for await (const chunk of await client.completions.create({ ...asked, ...options })) {
        text += chunk.choices[0]?.text ?? '';
        last = chunk;
      }
      assert.equal(text, whole.choices[0].text);
      // Before its end a memory is taken up in whole groups of 16 tokens, at its end as it is.
      const { prompt_tokens: asked_again, prompt_tokens_details: of } = last.usage;
      assert.equal(of.cached_tokens, asked_again - 1 - ((asked_again - 1) % 16));
      const longer = await client.completions.create({ ...asked, prompt: asked.prompt + text });
      const { prompt_tokens: prompt, prompt_tokens_details: known } = longer.usage;
      assert.ok(prompt > asked_again);
      assert.equal(known.cached_tokens, prompt - 1);
      await assert.rejects(
        client.completions.create({ ...asked, suffix: 'x' }),
        (error) => error instanceof sdk.BadRequestError && error.param === 'suffix',
      );
    });
  },

  async 'an aborted stream stops the work and leaves the server healthy'() {
    await with_server(async (server, client) => {
      const more = { max_completion_tokens: 4000, temperature: 1, session_id: 'aborted' };
      const stream = client.chat.completions.stream(
        await body(client, [user('Tell me a long story.')], more),
      );
      stream.on('content', () => stream.abort());
      await assert.rejects(stream.finalChatCompletion(), sdk.APIUserAbortError);
      for (let tries = 0; (await server.metrics()).semantic_sequences_running !== 0; ++tries) {
        assert.ok(tries < 100, 'the aborted request is still running');
        await sleep(20);
      }
      assert.ok(await server.is_ready());
    });
  },
});
