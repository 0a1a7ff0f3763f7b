// SPDX-License-Identifier: Apache-2.0
// The Vercel AI SDK over its three wires, where AGENT_SDK names the folder of npm packages that
// has it: turns, streamed turns, calls, structured output and an abort; a conversation goes on
// behind kill -9, and from the second turn on the server's own count says how much was in memory.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { main, make_folder, Server } from './harness.mjs';

const folder = process.env.AGENT_SDK;
if (!folder) {
  console.log('skipped: AGENT_SDK names no folder with the SDK');
  process.exit(77);
}
const load = createRequire(join(folder, 'package.json'));
const { generateText, streamText, tool, Output, stepCountIs, jsonSchema } = load('ai');
const { createOpenAI } = load('@ai-sdk/openai');
const { createOpenAICompatible } = load('@ai-sdk/openai-compatible');
const { createAnthropic } = load('@ai-sdk/anthropic');

const name = 'semantic-tiny';
const reused_least = 0.95;
// As much as a small agent's own instructions: what a turn adds is little beside it.
const rule = 'be kind, be brief and say what is true of the harbour, the boats and the weather.';
const system = Array.from({ length: 60 }, (_, i) => `Rule ${i + 1}: ${rule}`).join(' ');
const lines = [
  'My dog is called Biscuit.',
  'I was born in Perth, by the way.',
  'What is my dog called?',
];
const drawn = { temperature: 0, maxOutputTokens: 60, maxRetries: 2 };

const wires = {
  responses: (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' })(name),
  chat: (url) =>
    createOpenAICompatible({
      name: 'semantic',
      baseURL: `${url}/v1`,
      apiKey: 'none',
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(name),
  messages: (url) => createAnthropic({ baseURL: `${url}/v1`, apiKey: 'none' })(name),
};

const start = (cache) =>
  Server.start({ cache, args: ['--save-wait-ms', '30000', '--cache-budget-mb', '512'] });

async function counts(server) {
  const metrics = await server.metrics();
  const sum = (metric) =>
    Object.entries(metrics).reduce(
      (all, [key, value]) => all + (key.startsWith(metric) ? value : 0),
      0,
    );
  const computed = sum('semantic_tokens_prefilled_total');
  return { computed, reused: sum('semantic_tokens_reused_total') };
}

/** Talks by `ask`, which adds to the messages, and kills the server before the last turn. */
async function converse(wire, ask) {
  const cache = make_folder();
  let server = await start(cache);
  const messages = [];
  let before = { computed: 0, reused: 0 };
  let said;
  for (const [number, content] of lines.entries()) {
    if (number === 2) {
      await server.kill();
      server = await start(cache);
      before = { computed: 0, reused: 0 };
    }
    messages.push({ role: 'user', content });
    said = await ask(wires[wire](server.url), messages);
    const now = await counts(server);
    const [computed, reused] = [now.computed - before.computed, now.reused - before.reused];
    const share = reused / (reused + computed);
    if (number > 0) assert.ok(share >= reused_least, `${share} of turn ${number + 1}`);
    before = now;
  }
  assert.match(said, /Biscuit/);
  await server.stop();
}

async function plain(model, messages) {
  const { text, response } = await generateText({ model, system, messages, ...drawn });
  messages.push(...response.messages);
  return text;
}

async function streamed(model, messages) {
  const result = streamText({ model, system, messages, ...drawn });
  const pieces = [];
  for await (const piece of result.textStream) pieces.push(piece);
  assert.ok(pieces.length > 1, `${pieces.length} pieces`);
  messages.push(...(await result.response).messages);
  return pieces.join('');
}

const object = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
};

const cases = {};
for (const wire of Object.keys(wires)) {
  cases[`${wire}: turns and streamed turns go on from memory, behind kill -9 too`] = async () => {
    await converse(wire, plain);
    await converse(wire, streamed);
  };
  cases[`${wire}: five required calls are made and answered`] = async () => {
    const server = await start(make_folder());
    const cities = [];
    const get_weather = tool({
      description: 'The weather of a city.',
      inputSchema: jsonSchema({
        type: 'object',
        properties: { city: { type: 'string', enum: ['Oslo', 'Perth'] } },
        required: ['city'],
      }),
      execute: async ({ city }) => {
        cities.push(city);
        return `${10 + cities.length} degrees`;
      },
    });
    const { steps } = await generateText({
      model: wires[wire](server.url),
      prompt: 'What is the weather in Oslo?',
      tools: { get_weather },
      toolChoice: 'required',
      stopWhen: stepCountIs(5),
      ...drawn,
    });
    assert.equal(steps.length, 5);
    assert.ok(cities.length >= 5, `${cities}`);
    await server.stop();
  };
  cases[`${wire}: an answer is an object of the schema`] = async () => {
    const server = await start(make_folder());
    const { output } = await generateText({
      model: wires[wire](server.url),
      prompt: 'Tell me of a dog.',
      output: Output.object({ schema: jsonSchema(object) }),
      ...drawn,
    });
    assert.equal(typeof output.name, 'string');
    assert.ok(Number.isInteger(output.age));
    await server.stop();
  };
  cases[`${wire}: an aborted stream ends the answer`] = async () => {
    const server = await start(make_folder());
    const controller = new AbortController();
    const { textStream } = streamText({
      model: wires[wire](server.url),
      prompt: 'Tell me a long story.',
      abortSignal: controller.signal,
      ...drawn,
      temperature: 1,
      maxOutputTokens: 4000,
    });
    for await (const piece of textStream) if (piece) controller.abort();
    for (let i = 0; (await server.metrics()).semantic_sequences_running !== 0; i += 1) {
      assert.ok(i < 200, 'the answer goes on');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await server.stop();
  };
}

await main(cases);
