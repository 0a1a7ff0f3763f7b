// SPDX-License-Identifier: Apache-2.0
// Ollama's JavaScript client against the server's Ollama API: answers whole and streamed, tools,
// structured output, abort, what it asks of models, and memory that each turn finds, across kill -9
// too.

import assert from 'node:assert/strict';

import { main, make_folder, require_sdk, Server } from './harness.mjs';

const { Ollama } = require_sdk('ollama');
const model = 'semantic-tiny';
const options = { temperature: 0, num_predict: 60 };
const lines = [
  'My dog is called Biscuit.',
  'I was born in Perth, by the way.',
  'What is my dog called?',
];
const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a town',
    parameters: {
      type: 'object',
      properties: { town: { type: 'string', enum: ['Oslo', 'Perth'] } },
      required: ['town'],
    },
  },
};

const client_of = (server) => new Ollama({ host: server.url });
const start = (cache = make_folder()) => Server.start({ cache });

async function plain(client, body) {
  const answer = await client.chat({ model, options, ...body });
  assert.equal(answer.done, true);
  return answer;
}

/** The same from pieces: the last line has the counts. */
async function streamed(client, body) {
  let content = '';
  let last;
  let pieces = 0;
  for await (const part of await client.chat({ model, options, ...body, stream: true })) {
    assert.ok(!last?.done, 'nothing follows the last line');
    content += part.message.content;
    pieces += 1;
    last = part;
  }
  assert.equal(last.done, true);
  assert.ok(pieces > 2, `${pieces} pieces`);
  return { ...last, message: { ...last.message, content } };
}

async function converse(ask, between = async (server) => server) {
  const cache = make_folder();
  let server = await start(cache);
  const messages = [];
  const said = [];
  for (const content of lines) {
    messages.push({ role: 'user', content });
    const answer = await ask(client_of(server), { messages });
    const { reused_tokens: reused, prompt_tokens: prompt } = answer.semantic;
    assert.equal(answer.prompt_eval_count, prompt);
    if (said.length > 0) {
      const stored = said.at(-1).prompt_eval_count + said.at(-1).eval_count - 1;
      assert.ok(reused >= stored, `${reused} of ${stored} tokens were reused`);
    }
    said.push(answer);
    messages.push(answer.message);
    server = await between(server, cache);
  }
  return { said, server };
}

await main({
  async 'each turn finds what was said before, whole and streamed'() {
    for (const ask of [plain, streamed]) {
      const { said, server } = await converse(ask);
      assert.match(said.at(-1).message.content, /Biscuit/);
      assert.equal(said.at(-1).done_reason, 'stop');
      assert.ok(said.at(-1).total_duration >= said.at(-1).eval_duration);
      await server.stop();
    }
  },

  async 'a conversation goes on behind kill -9'() {
    const { said, server } = await converse(plain, async (running, cache) => {
      await running.kill();
      return start(cache);
    });
    assert.match(said.at(-1).message.content, /Biscuit/);
    assert.equal(said.at(-1).semantic.restored_tokens, said.at(-1).semantic.reused_tokens);
    await server.stop();
  },

  async 'five calls of a tool and their results make one conversation'() {
    const server = await start();
    const client = client_of(server);
    const messages = [{ role: 'user', content: 'What is the weather in Oslo?' }];
    let reused = 0;
    for (let turn = 0; turn < 5; turn += 1) {
      const call = { function: { name: 'get_weather', arguments: { town: 'Oslo' } } };
      messages.push({ role: 'assistant', content: '', tool_calls: [call] });
      messages.push({ role: 'tool', tool_name: 'get_weather', content: `${turn} degrees` });
      const answer = await plain(client, { messages, tools: [weather] });
      assert.ok(answer.semantic.reused_tokens >= reused, 'nothing is forgotten');
      reused = answer.semantic.reused_tokens;
      messages.push({ role: 'assistant', content: answer.message.content });
      messages.push({ role: 'user', content: 'And now?' });
    }
    assert.ok(reused > 100, `${reused}`);
    await server.stop();
  },

  async 'an answer has the form that was asked for'() {
    const server = await start();
    const client = client_of(server);
    const messages = [{ role: 'user', content: 'Tell me of a dog.' }];
    const format = {
      type: 'object',
      properties: { name: { type: 'string', maxLength: 12 }, age: { enum: [1, 2] } },
      required: ['name', 'age'],
      additionalProperties: false,
    };
    for (const ask of [plain, streamed]) {
      const answer = await ask(client, { messages, format });
      const said = JSON.parse(answer.message.content);
      assert.deepEqual(Object.keys(said), ['name', 'age']);
    }
    const { message } = await plain(client, { messages, format: 'json' });
    assert.equal(typeof JSON.parse(message.content), 'object');
    await server.stop();
  },

  async 'prompts are answered within the template, or as they stand'() {
    const server = await start();
    const client = client_of(server);
    const wrapped = await client.generate({ model, prompt: lines[0], options });
    assert.ok(wrapped.response.length > 0 && wrapped.done);
    const raw = await client.generate({ model, prompt: 'The dog', raw: true, options });
    assert.ok(raw.prompt_eval_count < wrapped.prompt_eval_count);
    let text = '';
    for await (const part of await client.generate({
      model,
      prompt: lines[0],
      options,
      stream: true,
    }))
      text += part.response;
    assert.equal(text, wrapped.response);
    await server.stop();
  },

  async 'an aborted stream ends the answer on the server'() {
    const server = await start();
    const client = client_of(server);
    const messages = [{ role: 'user', content: 'Tell me a long story.' }];
    const stream = await client.chat({
      model,
      messages,
      stream: true,
      options: { ...options, num_predict: 4000 },
    });
    await assert.rejects(async () => {
      for await (const part of stream) {
        assert.equal(part.done, false);
        stream.abort();
      }
    }, /abort/i);
    for (let i = 0; i < 100; i += 1) {
      const ready = await (await fetch(`${server.url}/health/ready`)).json();
      if (ready.requests_running === 0) break;
      assert.ok(i < 99, 'the answer goes on');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await server.stop();
  },

  async 'models are listed, shown and pulled by name'() {
    const server = await start();
    const client = client_of(server);
    const { models } = await client.list();
    assert.deepEqual(models.map((each) => each.name), [model]);
    assert.match(models[0].digest, /^[0-9a-f]{64}$/);
    const shown = await client.show({ model: `${model}:latest` });
    assert.equal(shown.model_info[`${shown.details.family}.context_length`], 16384);
    assert.deepEqual(shown.capabilities.slice(0, 1), ['completion']);
    const { models: running } = await client.ps();
    assert.equal(running[0].context_length, 16384);
    assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
    assert.equal((await client.pull({ model })).status, 'success');
    const load = await client.chat({ model, messages: [] });
    assert.equal(load.done_reason, 'load');
    await server.stop();
  },

  async 'what is not done here is refused in words'() {
    const server = await start();
    const client = client_of(server);
    const said = (status, text) => (error) =>
      error.status_code === status && text.test(error.message);
    await assert.rejects(client.show({ model: 'llama9' }), said(404, /'llama9' not found/));
    await assert.rejects(client.pull({ model: 'llama9' }), said(404, /fetches no models/));
    await assert.rejects(client.embed({ model, input: 'x' }), said(400, /no embedding model/));
    await assert.rejects(client.delete({ model }), said(400, /delete/));
    await assert.rejects(
      client.generate({ model, prompt: 'a', suffix: 'b' }),
      said(400, /suffix/),
    );
    await assert.rejects(
      client.chat({ model, messages: [{ role: 'user', content: '', images: ['AA=='] }] }),
      said(400, /text only/),
    );
    await server.stop();
  },
});
