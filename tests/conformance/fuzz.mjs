// SPDX-License-Identifier: Apache-2.0
// Random and damaged requests to every endpoint: no 5xx, no crash, no hang, and every reply parses
// in its dialect. FUZZ_REQUESTS says how many for each endpoint, FUZZ_SEED where to begin.

import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';

import * as bodies from './fuzz_bodies.mjs';
import { refusals } from './fuzz_replies.mjs';
import { main, make_folder, Server } from './harness.mjs';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 200);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const AT_ONCE = 12;
const PATIENCE_MS = 200_000;

const server = await Server.start({
  cache: make_folder(),
  args: ['--log-level', 'warning', '--save-wait-ms', '0', '--disk-budget-mb', '512'],
});
const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });

/** Resolves with {status, headers, text}. */
function send({ method, path, headers, bytes }) {
  return new Promise((resolve, reject) => {
    const length = bytes ? { 'content-length': bytes.length } : {};
    const asked = request(
      {
        host: '127.0.0.1', port: server.port, method, path, agent,
        headers: { ...headers, ...length },
        timeout: PATIENCE_MS,
      },
      (answer) => {
        const parts = [];
        answer.on('data', (part) => parts.push(part));
        answer.on('error', reject);
        answer.on('end', () => {
          const is_text = /json|text/.test(answer.headers['content-type'] ?? 'text');
          const bytes = is_text ? Buffer.concat(parts) : Buffer.alloc(0);
          const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
          resolve({ status: answer.statusCode, headers: answer.headers, text });
        });
      },
    ); // prettier-ignore
    asked.on('timeout', () => asked.destroy(new Error(`no answer within ${PATIENCE_MS} ms`)));
    asked.on('error', reject);
    asked.end(bytes);
  });
}

const is_count = (n) => Number.isInteger(n) && n >= 0;

function check_anthropic_usage(usage) {
  for (const field of ['input_tokens', 'cache_read_input_tokens', 'output_tokens'])
    assert.ok(is_count(usage[field]), field);
}

const stop_reasons = [
  'end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'model_context_window_exceeded',
]; // prettier-ignore

function check_message(message) {
  assert.equal(message.type, 'message');
  assert.equal(message.role, 'assistant');
  assert.match(message.id, /^msg_/);
  assert.ok(stop_reasons.includes(message.stop_reason), message.stop_reason);
  check_anthropic_usage(message.usage);
  for (const block of message.content) {
    if (block.type === 'text') assert.equal(typeof block.text, 'string');
    else if (block.type === 'thinking') assert.equal(typeof block.signature, 'string');
    else assert.deepEqual([block.type, typeof block.input], ['tool_use', 'object']);
  }
}

/** Of a call in pieces; nothing for one that a limit cut. */
function parsed_call(json) {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Folds the events into a message as an SDK does. */
function check_message_stream(text) {
  let message;
  let open;
  let arguments_json;
  let cut = false;
  let ended = false;
  assert.ok(text.endsWith('\n\n'));
  for (const event of text.slice(0, -2).split('\n\n')) {
    const [, name, json] = /^event: (\w+)\ndata: (.*)$/.exec(event);
    const data = JSON.parse(json);
    assert.equal(data.type, name);
    assert.ok(!ended, `${name} behind the end`);
    if (name === 'ping') continue;
    assert.notEqual(name, 'error', json);
    if (name === 'message_start') {
      assert.ok(!message);
      message = data.message;
      check_anthropic_usage(message.usage);
    } else if (name === 'content_block_start') {
      assert.ok(!open);
      assert.equal(data.index, message.content.length);
      message.content.push((open = data.content_block));
      arguments_json = '';
    } else if (name === 'content_block_delta') {
      assert.equal(data.index, message.content.length - 1);
      if (data.delta.type === 'input_json_delta') arguments_json += data.delta.partial_json;
      else if (data.delta.type === 'text_delta') open.text += data.delta.text;
      else if (data.delta.type === 'thinking_delta') open.thinking += data.delta.thinking;
      else open.signature = data.delta.signature;
    } else if (name === 'content_block_stop') {
      assert.ok(!cut, 'a block follows one that was cut');
      if (open.type === 'tool_use') {
        open.input = parsed_call(arguments_json) ?? {};
        cut = !parsed_call(arguments_json);
      }
      open = undefined;
    } else if (name === 'message_delta') {
      assert.ok(!open);
      Object.assign(message, data.delta);
      Object.assign(message.usage, data.usage);
    } else {
      assert.equal(name, 'message_stop');
      ended = true;
    }
  }
  assert.ok(ended, 'no message_stop');
  if (cut) assert.equal(message.stop_reason, 'max_tokens', 'only a limit cuts a call');
  check_message(message);
}

function check_openai_usage(usage) {
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  assert.ok(usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens);
}

function check_choice({ message, finish_reason }) {
  assert.ok(['stop', 'length', 'tool_calls'].includes(finish_reason), finish_reason);
  assert.equal(message.role, 'assistant');
  const calls = message.tool_calls ?? [];
  calls.forEach((call, i) => {
    assert.match(call.id, /^call_/);
    assert.equal(call.type, 'function');
    const may_be_cut = finish_reason === 'length' && i === calls.length - 1;
    assert.ok(may_be_cut || parsed_call(call.function.arguments), call.function.arguments);
  });
}

function check_completion(completion) {
  assert.equal(completion.object, 'chat.completion');
  check_openai_usage(completion.usage);
  completion.choices.forEach((choice, i) => {
    assert.equal(choice.index, i);
    check_choice(choice);
  });
}

function check_completion_stream(text) {
  const choices = [];
  const events = text.split('\n\n').filter((event) => event && !event.startsWith(':'));
  assert.equal(events.pop(), 'data: [DONE]');
  for (const event of events) {
    assert.ok(event.startsWith('data: '), event);
    const chunk = JSON.parse(event.slice(6));
    assert.ok(!chunk.error, event);
    assert.equal(chunk.object, 'chat.completion.chunk');
    if (chunk.usage) check_openai_usage(chunk.usage);
    for (const { index, delta, finish_reason } of chunk.choices) {
      const choice = (choices[index] ??= { message: { content: '', tool_calls: [] } });
      const { message } = choice;
      if (delta.role) message.role = delta.role;
      if (finish_reason) choice.finish_reason = finish_reason;
      for (const { index: place, function: called, ...call } of delta.tool_calls ?? []) {
        assert.ok(place <= message.tool_calls.length);
        const made = (message.tool_calls[place] ??= { ...call, function: { arguments: '' } });
        made.function.name ??= called.name;
        made.function.arguments += called.arguments;
      }
    }
  }
  assert.ok(choices.length > 0);
  choices.forEach(check_choice);
}

function check_response(response) {
  assert.equal(response.object, 'response');
  assert.ok(['completed', 'incomplete'].includes(response.status), response.status);
  assert.ok(is_count(response.usage.input_tokens) && is_count(response.usage.output_tokens));
  for (const item of response.output) {
    assert.ok(['message', 'reasoning', 'function_call'].includes(item.type), item.type);
    // A call that the token limit cut is no JSON yet.
    if (item.type === 'function_call' && item.status === 'completed') JSON.parse(item.arguments);
  }
}

function check_response_stream(text) {
  const events = text.split('\n\n').filter((event) => event && !event.startsWith(':'));
  const said = events.map((event, i) => {
    const [, name, json] = /^event: ([\w.]+)\ndata: (.*)$/.exec(event);
    const data = JSON.parse(json);
    assert.equal(data.type, name);
    assert.equal(data.sequence_number, i);
    return data;
  });
  assert.equal(said[0].type, 'response.created');
  assert.match(said.at(-1).type, /^response\.(completed|incomplete)$/);
  check_response(said.at(-1).response);
}

function check_completed_text({ object, choices }) {
  assert.equal(object, 'text_completion');
  for (const { text, index } of choices) assert.ok(typeof text === 'string' && is_count(index));
}

function check_completed_text_stream(text) {
  const events = text.split('\n\n').filter((event) => event && !event.startsWith(':'));
  assert.equal(events.pop(), 'data: [DONE]');
  for (const event of events) check_completed_text(JSON.parse(event.slice(6)));
}

/** Lines of JSON, or one object: the last says that it is. */
function check_ollama({ text }) {
  const lines = text.trimEnd().split('\n').map((line) => JSON.parse(line));
  for (const { message, error } of lines) assert.ok(!error && message.role === 'assistant', text);
  assert.deepEqual(lines.map(({ done }) => done), lines.map((_, i) => i === lines.length - 1));
}

/** The agents API's own events. */
function check_generated(text) {
  const names = [];
  for (const event of text.slice(0, -2).split('\n\n')) {
    const [, name, json] = /^event: (\w+)\ndata: (.*)$/.exec(event);
    JSON.parse(json);
    names.push(name);
  }
  assert.equal(names.at(-1), 'done', text);
}

const is_stream = ({ headers }) => headers['content-type'].startsWith('text/event-stream');

/** Sends REQUESTS of them, some at once; `make(random)` gives what to send, and `check` a 200. */
async function fuzz(name, make, dialect_of, check) {
  const counts = {};
  let next = 0;
  async function worker() {
    while (next < REQUESTS) {
      const number = next++;
      const random = new bodies.Random(SEED * 1_000_003 + number);
      const sent = make(random);
      try {
        const answer = await send(sent);
        counts[answer.status] = (counts[answer.status] ?? 0) + 1;
        assert.ok(answer.status < 500, `status ${answer.status}: ${answer.text}`);
        assert.ok(answer.headers['request-id'], 'no request id');
        if (sent.is_valid) assert.equal(answer.status, 200, answer.text);
        if (sent.method === 'HEAD' || answer.status === 204) assert.equal(answer.text, '');
        else if (answer.status < 300) check(answer);
        else refusals[dialect_of(sent)](answer);
      } catch (error) {
        const { bytes, ...head } = sent;
        const what = `request ${number} of ${name}: ${JSON.stringify(head)}\n${bytes}\n`;
        throw new Error(what + error.message, { cause: error });
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  console.log(`        ${name}: ${JSON.stringify(counts)}`);
  assert.ok(counts[200] > REQUESTS / 10, 'too few requests were taken to say anything');
}

function post(path, make_body) {
  return (random) => {
    const { bytes, is_valid } = bodies.body_of(random, make_body);
    const odd = is_valid || random.chance(0.7) ? {} : bodies.odd_headers(random);
    const headers = { 'content-type': 'application/json', ...bodies.headers(random), ...odd };
    return { method: 'POST', path, headers, bytes, is_valid };
  };
}

const by_type = (plain, stream) => (answer) =>
  is_stream(answer) ? stream(answer.text) : plain(JSON.parse(answer.text));

await main(
  {
    async 'messages take or refuse whatever comes'() {
      await fuzz(
        'messages', post('/v1/messages', bodies.messages), () => 'anthropic',
        by_type(check_message, check_message_stream),
      ); // prettier-ignore
    },

    async 'count_tokens takes or refuses whatever comes'() {
      const path = '/v1/messages/count_tokens';
      await fuzz('count_tokens', post(path, bodies.count_tokens), () => 'anthropic', ({ text }) =>
        assert.ok(JSON.parse(text).input_tokens > 0),
      );
    },

    async 'chat completions take or refuse whatever comes'() {
      await fuzz(
        'chat completions', post('/v1/chat/completions', bodies.chat), () => 'openai',
        by_type(check_completion, check_completion_stream),
      ); // prettier-ignore
    },

    async 'responses take or refuse whatever comes'() {
      await fuzz(
        'responses', post('/v1/responses', bodies.responses), () => 'openai',
        by_type(check_response, check_response_stream),
      ); // prettier-ignore
    },

    async 'completions take or refuse whatever comes'() {
      await fuzz(
        'completions', post('/v1/completions', bodies.completions), () => 'openai',
        by_type(check_completed_text, check_completed_text_stream),
      ); // prettier-ignore
    },

    async 'chats of the Ollama API take or refuse whatever comes'() {
      await fuzz('ollama', post('/api/chat', bodies.ollama_chat), () => 'ollama', check_ollama);
    },

    async 'models answer or refuse whatever comes'() {
      const make = (random) => {
        const target = bodies.models_target(random);
        return { ...target, headers: bodies.headers(random) };
      };
      const dialect = ({ headers }) => (headers['anthropic-version'] ? 'anthropic' : 'openai');
      await fuzz('models', make, dialect, ({ text }) => {
        const { object, data, id } = JSON.parse(text);
        assert.ok(object === 'list' ? Array.isArray(data) : id);
      });
    },

    async 'agents answer or refuse whatever comes'() {
      const make = (random) => ({
        ...bodies.agents_request(random),
        headers: { 'content-type': 'application/json', ...bodies.odd_headers(random) },
      });
      await fuzz('agents', make, () => 'native', (answer) => {
        if (is_stream(answer)) check_generated(answer.text);
        else if (answer.text) JSON.parse(answer.text);
      }); // prettier-ignore
    },

    async 'nothing is left running, nothing went wrong inside, and the server ends cleanly'() {
      agent.destroy();
      assert.equal((await server.metrics()).semantic_sequences_running, 0);
      const { code, out, err } = await server.stop();
      assert.equal(code, 0);
      assert.doesNotMatch(out + err, /\[error\]|failed:/);
    },
  },
  3_600_000,
);
