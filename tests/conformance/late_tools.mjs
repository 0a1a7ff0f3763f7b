// SPDX-License-Identifier: Apache-2.0
// A tool that appears in turn 5 of 10 costs the tokens of its definition and nothing that was read
// before, over both vendors' wires and three families of templates, whether the server is the same
// or was ended by kill -9 in between. LATE_TOOLS=all: every way to bring it, with the kill before
// and behind that turn, instead of one of each.

import assert from 'node:assert/strict';

import { main, make_folder, Server } from './harness.mjs';

const FAMILIES = ['chatml', 'llama3', 'harmony'];
const TURNS = 10;
const LATE = 5; // the turn that brings the tool
// An answer of one token is made in each turn and is no part of the next prompt.
const SCAFFOLD_TOKENS = 4;

const words = 'You are an agent that finds out things about cities, one step after another. ';
const system = words.repeat(4);
const question = 'Find out which of the cities of the list has the best weather today.';
const searched = (turn) =>
  `Step ${turn}: three pages were found and read, and nothing was decided.`;
const parameters = {
  type: 'object',
  properties: {
    city: { type: 'string', description: 'The name of the city, in English.' },
    days: { type: 'integer', description: 'How many days to look ahead.' },
  },
  required: ['city'],
};
const description = 'The weather of a city today and in the days to come.';
const none = { type: 'object', properties: {} };

/** How a wire tells a conversation of `turns` turns whose tool comes in turn 5, or, where `late` is
 *  null, never. */
const wires = {
  'Messages, tool_reference': {
    path: '/v1/messages',
    count: '/v1/messages/count_tokens',
    late: { type: 'tool_reference', tool_name: 'weather' },
    body(turns, late, at_head = false) {
      const messages = [{ role: 'user', content: question }];
      for (let turn = 1; turn <= turns; ++turn) {
        const id = `toolu_${turn}`;
        const text = { type: 'text', text: searched(turn) };
        messages.push(
          { role: 'assistant', content: [{ type: 'tool_use', id, name: 'search', input: {} }] },
          {
            role: 'user',
            content: [
              {
                type: 'tool_result',
                tool_use_id: id,
                content: turn === LATE && late ? [text, late] : [text],
              },
            ],
          },
        );
      }
      const weather = { name: 'weather', description, input_schema: parameters };
      const tools = [{ name: 'search', description: 'Searches.', input_schema: none }];
      if (at_head) tools.push(weather);
      else if (late) tools.unshift({ ...weather, defer_loading: true });
      return { model: 'any', max_tokens: 1, temperature: 0, system, messages, tools };
    },
  },
  'Messages, tool_addition': {
    path: '/v1/messages',
    count: '/v1/messages/count_tokens',
    late: {
      role: 'system',
      content: [
        {
          type: 'tool_addition',
          tool: {
            type: 'tool_definition',
            definition: { name: 'weather', description, input_schema: parameters },
          },
        },
      ],
    },
    body(turns, late, at_head = false) {
      const plain = wires['Messages, tool_reference'].body(turns, null, at_head);
      // Behind the result of turn 5.
      if (late && turns >= LATE) plain.messages.splice(1 + 2 * LATE, 0, late);
      return plain;
    },
  },
  'Responses, tool_search_output': {
    path: '/v1/responses',
    count: '/v1/responses/input_tokens',
    late: 'tool_search_output',
    body(turns, late, at_head = false) {
      const input = [{ role: 'user', content: question }];
      const weather = { type: 'function', name: 'weather', description, parameters };
      for (let turn = 1; turn <= turns; ++turn) {
        const call_id = `call_${turn}`;
        input.push(
          { type: 'function_call', call_id, name: 'search', arguments: '{}' },
          { type: 'function_call_output', call_id, output: searched(turn) },
        );
        if (turn !== LATE || !late) continue;
        if (late === 'additional_tools') {
          input.push({ type: late, role: 'developer', tools: [weather] });
          continue;
        }
        const found = { call_id: 'call_late', execution: 'client', status: 'completed' };
        input.push(
          { type: 'tool_search_call', call_id: 'call_late', execution: 'client', arguments: {} },
          { type: 'tool_search_output', ...found, tools: [weather] },
        );
      }
      const tools = [
        { type: 'function', name: 'search', description: 'Searches.', parameters: none },
        { type: 'tool_search', execution: 'client', description: 'Finds.', parameters: none },
      ];
      if (at_head) tools.push(weather);
      return {
        model: 'any', max_output_tokens: 1, temperature: 0, store: false,
        instructions: system, input, tools,
      }; // prettier-ignore
    },
  },
  'Responses, additional_tools': {
    path: '/v1/responses',
    count: '/v1/responses/input_tokens',
    late: 'additional_tools',
    body: (...given) => wires['Responses, tool_search_output'].body(...given),
  },
};

/** Each session has a head of its own, so that none finds what another one was told. */
async function post(server, path, session, body) {
  const key = body.system ? 'system' : 'instructions';
  body[key] = `This is session ${session}. ${body[key]}`;
  const answer = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': session },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return JSON.parse(text);
}

const count = async (server, wire, ...of) =>
  (await post(server, wire.count, 'none', wire.body(...of))).input_tokens;

/** Asks for one turn. Resolves with what is new in it: tokens that were computed. */
async function ask(server, wire, session, turn) {
  const { semantic } = await post(server, wire.path, session, wire.body(turn, wire.late));
  assert.equal(semantic.saved, true);
  return semantic;
}

const runs_all = process.env.LATE_TOOLS === 'all';
const chosen = { 'Messages, tool_reference': 'before', 'Responses, additional_tools': 'behind' };

/** Has the conversation with kill -9 before the turn that brings the tool, or behind it. */
async function holds(family) {
  const cache = make_folder();
  const args = ['--chat-template', family];
  let server = await Server.start({ cache, args });
  const talks = [];
  for (const [name, wire] of Object.entries(wires)) {
    const plain = await count(server, wire, LATE, null);
    const told = (await count(server, wire, LATE, wire.late)) - plain;
    const at_head = (await count(server, wire, LATE, null, true)) - plain;
    for (const when of ['before', 'behind'])
      if (runs_all || chosen[name] === when)
        talks.push({ name, wire, told, at_head, when, turns: [] });
  }
  const run = async (from, to, when) => {
    for (let turn = from; turn <= to; ++turn)
      for (const [i, talk] of talks.entries())
        if (talk.when === when)
          talk.turns[turn] = await ask(server, talk.wire, `session-${i}`, turn);
  };
  await run(1, LATE - 1, 'before');
  await run(1, LATE, 'behind');
  await server.kill();
  server = await Server.start({ cache, args });
  await run(LATE, TURNS, 'before');
  await run(LATE + 1, TURNS, 'behind');
  await server.stop();

  for (const { name, told, at_head, when, turns } of talks) {
    const computed = turns.map(({ computed_tokens }) => computed_tokens);
    const news = computed.slice(1).join(' ');
    const figures = `${family}, ${name}, kill -9 ${when}: new tokens ${news}`;
    console.log(`        ${figures}; definition ${told}, at the head ${at_head}`);
    const usual = computed[LATE - 1] + SCAFFOLD_TOKENS;
    assert.ok(computed[LATE] <= usual + told, `turn ${LATE}: ${figures}`);
    for (let turn = LATE + 1; turn <= TURNS; ++turn)
      assert.ok(computed[turn] <= usual, `turn ${turn}: ${figures}`);
    const first = turns[when === 'before' ? LATE : LATE + 1];
    assert.ok(first.restored_tokens > 0, `nothing came from disk: ${figures}`);
  }
}

await main(
  Object.fromEntries(
    FAMILIES.map((family) => [
      `${family}: a tool of turn 5 of 10 costs its definition, also across kill -9`,
      () => holds(family),
    ]),
  ),
);
