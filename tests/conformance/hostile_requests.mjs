// SPDX-License-Identifier: Apache-2.0
// Requests of a few hundred bytes to a few megabytes, each of which has cost a server everything at
// some time: made anew, with other sizes, whenever they are asked for.

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { RawSocket } from './raw_socket.mjs';

const user_says = (content) => [{ role: 'user', content }];
const chat = (more) => ({
  path: '/v1/chat/completions',
  body: { model: 'any', max_tokens: 16, messages: user_says('Hello!'), ...more },
});
const held_to = (schema, strict = true) =>
  chat({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict } } });
const many = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const agents = (count) =>
  many(count, (i) => ({ agent_id: `a${i}`, display_name: `A${i}` }));
const scenario = (yaml, more = {}) => ({
  path: '/v1/coordination/scenarios/x/runs',
  body: { yaml, max_tokens: 64, persistent: false, ...more },
});
const scenario_head = 'id: x\ntitle: t\nagents:\n  a: {display_name: A}\n';
const one_phase = 'phases:\n  - {name: p, label: l, agents: [a], initial_prompt: hi}\n';

/** Each makes a request from a size between 0 and 1. */
const SINGLE = {
  'a long name of a property': (size) => {
    const name = 'a'.repeat(1000 + 200_000 * size);
    const schema = { type: 'object', properties: { [name]: { type: 'string' } } };
    return held_to({ ...schema, required: [name], additionalProperties: true });
  },
  'one reference to required names, many times': (size) => {
    const count = Math.floor(500 + 10_000 * size);
    const a = { type: 'object', required: many(count, () => 'r') };
    return held_to({ $defs: { a }, allOf: many(count, () => ({ $ref: '#/$defs/a' })) });
  },
  'one reference to a long pattern, many times': (size) => {
    const a = { type: 'string', pattern: '^' + 'ab'.repeat(1000 + 20_000 * size) + '$' };
    return held_to({ $defs: { a }, allOf: many(3000, () => ({ $ref: '#/$defs/a' })) });
  },
  'merged properties': (size) => {
    const a = { properties: { x: { minLength: 1 } } };
    const first = { properties: { x: { type: 'string' } } };
    const count = Math.floor(100 + 8000 * size);
    return held_to({ $defs: { a }, allOf: [first, ...many(count, () => ({ $ref: '#/$defs/a' }))] });
  },
  'one of many alternatives': (size) =>
    held_to({
      oneOf: many(Math.floor(100 + 8000 * size), (i) => ({
        type: 'object',
        properties: { ['n' + i]: { type: 'integer' } },
      })),
    }),
  'unique items of a long list': (size) =>
    held_to({
      type: 'array',
      items: { enum: many(Math.floor(100 + 60_000 * size), (i) => i) },
      uniqueItems: true,
    }),
  'two long lists of values': (size) => {
    const count = Math.floor(100 + 60_000 * size);
    const up = { enum: many(count, (i) => i) };
    return held_to({ allOf: [up, { enum: many(count, (i) => count - i) }] }, false);
  },
  'schemas within schemas': (size) => {
    let schema = { type: 'string' };
    for (let i = 0; i < 3 + 7 * size; ++i) schema = { anyOf: [schema, schema, { items: schema }] };
    return held_to(schema);
  },
  'an ambiguous grammar': () =>
    chat({
      grammar: 'root ::= x x x x x x x x\nx ::= "a" x x | "a" | ""',
      max_tokens: 400,
      logit_bias: { 0: -100, 1: -100, 2: -100 },
    }),
  'a grammar of many empty repetitions': (size) =>
    chat({ grammar: `root ::= ${'("a"? "b"?)* '.repeat(10 + 2000 * size)}`, max_tokens: 200 }),
  'a regular expression of many ways': (size) =>
    chat({ guided_regex: `(${'(a|a?)+'.repeat(5 + 200 * size)})+b`, max_tokens: 100 }),
  'a count within a count': () => chat({ guided_regex: '((((a{1,99}){1,99}){1,99}){1,99}){1,99}' }),
  'a pattern of ever more ways': (size) =>
    chat({ guided_regex: '((.{0,40}){0,20}(.*)?){0,9}', max_tokens: Math.floor(4 + 60 * size) }),
  'a grammar that counts its text': (size) =>
    chat({ grammar: 'root ::= ([a-z]{1,9} " "?){9000}', max_tokens: Math.floor(20 + 400 * size) }),
  'scores of every token': (size) =>
    chat({ logprobs: true, top_logprobs: 20, max_tokens: Math.floor(20 + 400 * size) }),
  'a scenario of aliases': (size) => {
    const count = Math.floor(500 + 10_000 * size);
    const row = many(count, () => 'x').join(',');
    const rows = many(count, () => '*r').join(',');
    const payoff = `payoff:\n  labels: [a, b]\n  matrix: [&r [${row}],${rows}]\n`;
    return scenario(scenario_head + one_phase + payoff);
  },
  'a scenario of many names': (size) => {
    const count = Math.floor(100 + 60_000 * size);
    const names = many(count, (i) => `a${i}`).join(',');
    return scenario(
      scenario_head + `phases:\n  - {name: p, label: l, agents: [${names}], initial_prompt: hi}\n`,
    );
  },
  'a template that quotes a phase without end': (size) => {
    const names = many(20, (i) => `a${i}`);
    const quote = '${p.messages[a0]}'.repeat(100 + 2800 * size);
    return scenario(
      'id: x\ntitle: t\nagents:\n' +
        names.map((name) => `  ${name}: {display_name: N${name}}\n`).join('') +
        'phases:\n' +
        '  - {name: p, label: l, agents: [a0, a1], initial_prompt: Talk., auto_rounds: 1}\n' +
        `  - {name: q, label: l, agents: [${names}], auto_rounds: 1, ` +
        `initial_prompt_template: '${quote}'}\n`,
      { temperature: 1.5, logit_bias: { 0: -100, 1: -100, 2: -100 } },
    );
  },
  'a session of many short lines': (size) => ({
    path: '/v1/coordination/sessions',
    body: {
      agents: agents(20),
      prior_agent_messages: Object.fromEntries(
        many(20, (i) => [
          `a${i}`,
          many(Math.floor(100 + 5000 * size), () => ({
            ...{ sender_id: 's', sender_name: 'S', content: 'x' },
          })),
        ]),
      ),
    },
  }),
  'a session of long lines': (size) => ({
    path: '/v1/coordination/sessions',
    body: {
      agents: agents(2),
      prior_agent_messages: {
        a0: many(Math.floor(20 + 280 * size), () => ({
          ...{ sender_id: 's', sender_name: 'S', content: 'x'.repeat(49_000) },
        })),
      },
    },
  }),
  'a long text to count': (size) => ({
    path: '/v1/messages/count_tokens',
    body: { model: 'any', messages: user_says('ab '.repeat(10_000_000 * size)) },
  }),
  'a long prompt': (size) => chat({ messages: user_says('ab '.repeat(8_000_000 * size)) }),
  'many messages': (size) =>
    chat({ messages: many(Math.floor(90_000 * size), () => user_says('x')[0]) }),
  'tools without end': (size) =>
    chat({
      tools: many(Math.floor(10 + 5000 * size), (i) => ({
        type: 'function',
        function: { name: `f${i}`, parameters: { type: 'object', properties: {} } },
      })),
      tool_choice: 'required',
    }),
  'a text kept for later': (size) => ({
    path: '/v1/responses',
    body: {
      model: 'any',
      background: true,
      input: 'ab '.repeat(2_000_000 * size),
      max_output_tokens: 4,
    },
  }),
};

/** Each does several things with the server at `port`; `headers` say who asks. */
const SEVERAL = {
  async 'one item, referred to many times'(ask) {
    const kept = await ask('/v1/responses', {
      ...{ model: 'any', background: true, max_output_tokens: 1 },
      input: [{ type: 'message', role: 'user', content: 'y'.repeat(4_000_000), id: 'msg_planted' }],
    });
    const { id } = JSON.parse(kept.text || '{}');
    const items = await ask(`/v1/responses/${id}/input_items`);
    const item = (JSON.parse(items.text || '{}').data ?? [])[0]?.id ?? 'msg_planted';
    const input = many(2000, () => ({ type: 'item_reference', id: item }));
    await ask('/v1/responses', { model: 'any', input, max_output_tokens: 4 });
  },
  async 'a conversation of many items, read item by item'(ask) {
    const item = { type: 'message', role: 'user', content: 'a' };
    const made = await ask('/v1/conversations', { items: [item] });
    const { id } = JSON.parse(made.text || '{}');
    for (let i = 0; i < 3; ++i)
      await ask(`/v1/conversations/${id}/items`, { items: many(15_000, () => item) });
    const last = await ask(`/v1/conversations/${id}/items?limit=1&order=desc`);
    const { first_id } = JSON.parse(last.text || '{}');
    await Promise.all(many(8, () => ask(`/v1/conversations/${id}/items/${first_id}`)));
    await ask('/v1/responses', { model: 'any', conversation: id, input: 'Hi.' });
    await ask(`/v1/conversations/${id}`, undefined, 'DELETE');
  },
  async 'a streamed turn whose events say all of it again'(ask) {
    const opened = await ask('/v1/coordination/sessions', {
      ...{ agents: agents(2), initial_prompt: 'Talk.' },
    });
    const { session_id } = JSON.parse(opened.text || '{}');
    await ask(`/v1/coordination/sessions/${session_id}/turn/stream`, {
      max_tokens: 400,
      temperature: 1.5,
      logit_bias: { 0: -100, 1: -100, 2: -100 },
    });
    await ask('/v1/coordination/sessions');
  },
  async 'bodies that are half sent'(_, port, headers) {
    const head = Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    const sockets = many(8, () => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      socket.resume();
      socket.write(
        `POST /v1/responses HTTP/1.1\r\nhost: localhost\r\n${head}` +
          'content-length: 30000000\r\n\r\n' +
          '{"conversation": "' + 'x'.repeat(4_000_000),
      );
      return socket;
    });
    await sleep(2000);
    for (const socket of sockets) socket.destroy();
  },
  async 'messages of a WebSocket that are half sent'(_, port, headers) {
    const sockets = [];
    for (let i = 0; i < 24; ++i) {
      try {
        const socket = await RawSocket.open(port, '/v1/responses', headers);
        socket.socket.write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 1, 0xff, 0, 0, 0, 0, 0, 0]));
        for (let n = 0; n < 16; ++n) socket.socket.write(Buffer.alloc(1 << 20, 'x'));
        sockets.push(socket);
      } catch {
        break; // No more of them are taken.
      }
    }
    await sleep(2000);
    for (const socket of sockets) socket.close();
  },
  async 'sockets that only stay'(_, port, headers) {
    const sockets = await Promise.all(
      many(100, (i) =>
        RawSocket.open(port, i % 2 ? '/ws' : '/v1/responses', headers).catch(() => {}),
      ),
    );
    await sleep(1000);
    for (const socket of sockets) socket?.close();
  },
  async 'clients that leave while their request is worked on'(ask) {
    const leaving = [
      'one of many alternatives',
      'unique items of a long list',
      'a long text to count',
    ];
    await Promise.all(
      leaving.map((name) => {
        const { path, body } = SINGLE[name](1);
        return ask(path, body, 'POST', 50);
      }),
    );
  },
};

export const HOSTILE_NAMES = [...Object.keys(SINGLE), ...Object.keys(SEVERAL)];

/**
 * Does what `name` says. `ask(path, body, method, patience)` resolves with {status, text}, also
 * when the server does not answer: status 0.
 */
export async function attack(name, size, ask, port, headers) {
  if (SEVERAL[name]) return SEVERAL[name](ask, port, headers);
  const { path, body } = SINGLE[name](size);
  return ask(path, body);
}
