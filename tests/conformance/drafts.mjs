// SPDX-License-Identifier: Apache-2.0
// Drafts change when tokens come and never which: two servers, with --speculation on and off, give
// the same answers, and a server that is killed while drafts are run leaves nothing of them. Each
// dialect says what they came to, as the metrics do.

import assert from 'node:assert/strict';

import { main, make_folder, Server, user } from './harness.mjs';

const rounds = Number(process.env.DRAFT_ANSWERS ?? 16);
const kills = Number(process.env.DRAFT_KILLS ?? 1);

const list = (lines, name) => `- item ${name}: the cat sat on the mat and slept.\n`.repeat(lines);
const opening = { prompt: `${list(12, 7)}- item 7: the cat`, temperature: 0 };

const PEOPLE = {
  type: 'array',
  minItems: 2,
  maxItems: 4,
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['first_name', 'years', 'is_employed'],
    properties: {
      first_name: { type: 'string', maxLength: 12 },
      years: { type: 'integer' },
      is_employed: { type: 'boolean' },
    },
  },
};

/** Numbers that are the same in each run. */
function make_random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** One of many requests: path and body. */
function draw_request(random, number) {
  const sampling = { temperature: [0, 0, 0.3, 1][random(4)], seed: number };
  if (random(3) === 0) {
    const response_format = {
      type: 'json_schema',
      json_schema: { name: 'people', strict: true, schema: PEOPLE },
    };
    const messages = [user(`Make up people, number ${number}.`)];
    return ['/v1/chat/completions', { messages, max_tokens: 90, response_format, ...sampling }];
  }
  const body = {
    prompt: `${list(2 + random(8), number % 50)}- item ${number % 50}: the cat`,
    max_tokens: 1 + random(50),
    ...sampling,
  };
  if (random(3) === 0) body.stop = [['mat and', 't.', 'slept', 'on the m'][random(4)]];
  if (random(4) === 0) body.logprobs = 2;
  if (random(5) === 0) body.n = 2;
  if (random(4) === 0) body.frequency_penalty = 0.5;
  return ['/v1/completions', body];
}

function send(server, path, body, session) {
  return fetch(server.url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(session ? { 'x-session-id': session } : {}),
    },
    body: JSON.stringify({ model: 'any', ...body }),
    signal: AbortSignal.timeout(60_000),
  });
}

async function post(server, path, body, session) {
  const answer = await send(server, path, body, session);
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return text;
}

const ask = async (...request) => JSON.parse(await post(...request));

const sources = ['repeats', 'form'];

/** {drafted, taken}: tokens of all sources, as the metrics have them. */
async function drafts_of(server) {
  const metrics = await server.metrics();
  const counts = { drafted: 0, taken: 0 };
  for (const source of sources) {
    counts.drafted += metrics[`semantic_draft_tokens_total{source="${source}"}`];
    counts.taken += metrics[`semantic_draft_tokens_taken_total{source="${source}"}`];
  }
  return counts;
}

/** The same of the `semantic.drafts` of an answer. */
function sum_of(drafts = {}) {
  const counts = { drafted: 0, taken: 0 };
  for (const [source, count] of Object.entries(drafts)) {
    assert.ok(sources.includes(source), source);
    assert.ok(count.drafted > 0 && count.taken >= 0 && count.taken <= count.drafted);
    counts.drafted += count.drafted;
    counts.taken += count.taken;
  }
  return counts;
}

const args_of = (way) => ['--speculation', way];
const servers = {};
for (const way of ['on', 'off'])
  servers[way] = await Server.start({ cache: make_folder(), args: args_of(way) });

await main(
  {
    async 'answers are the same as without, and say what drafts came to as the metrics do'() {
      const random = make_random(7);
      const said = { drafted: 0, taken: 0 };
      const seen = new Set();
      // What a draft costs is measured: a busy machine may run none for a while.
      const are_enough = (count) =>
        count >= 10 * rounds || (count >= rounds && said.taken > 0 && seen.size === sources.length);
      for (let number = 0; !are_enough(number); ++number) {
        const [path, body] = draw_request(random, number);
        const [one, other] = await Promise.all([
          ask(servers.on, path, body),
          ask(servers.off, path, body),
        ]);
        assert.deepEqual(one.choices, other.choices, JSON.stringify(body));
        assert.equal(other.semantic.drafts, undefined);
        for (const source of Object.keys(one.semantic.drafts ?? {})) seen.add(source);
        const { drafted, taken } = sum_of(one.semantic.drafts);
        said.drafted += drafted;
        said.taken += taken;
        const { accepted_prediction_tokens: accepted, ...details } =
          one.usage.completion_tokens_details;
        assert.equal(accepted ?? 0, taken);
        assert.ok(taken < one.usage.completion_tokens);
        assert.deepEqual({ ...one.usage, completion_tokens_details: details }, other.usage);
      }
      const { taken, drafted } = said;
      console.log(`        ${rounds} answers, ${taken} of ${drafted} tokens of drafts taken`);
      assert.ok(taken > 0);
      assert.deepEqual([...seen].sort(), [...sources].sort());
      assert.deepEqual(said, await drafts_of(servers.on));
      assert.deepEqual(await drafts_of(servers.off), { drafted: 0, taken: 0 });
    },

    async 'each dialect says so, in a body and at the end of a stream'() {
      const messages = [user(`Go on with this list.\n${list(12, 7)}`)];
      const completion = { max_tokens: 60, min_tokens: 60, temperature: 0 };
      const with_usage = { stream_options: { include_usage: true } };
      const schema = { type: 'object', required: ['people'], properties: { people: PEOPLE } };
      const form = { type: 'json_schema', name: 'people', schema };
      const wires = [
        ['/v1/completions', { ...opening, ...completion }, with_usage],
        ['/v1/chat/completions', { messages, ...completion }, with_usage],
        [
          '/v1/messages',
          { messages, max_tokens: 90, output_config: { format: { type: form.type, schema } } },
        ],
        ['/v1/responses', { input: messages, max_output_tokens: 90, text: { format: form } }],
        ['/api/chat', { messages, format: schema, options: { num_predict: 90 } }],
      ];
      for (const [path, body, more] of wires)
        for (const stream of [false, true]) {
          let text, found;
          for (let i = 0; i < 50 && !found; ++i) {
            text = await post(servers.on, path, { ...body, ...(stream ? more : {}), stream });
            found = text.match(/"drafts":(\{(?:"\w+":\{[^}]*\},?)+\})/);
          }
          assert.ok(found, `${path} ${stream}: ${text.slice(-600)}`);
          const { taken } = sum_of(JSON.parse(found[1]));
          if (more && taken > 0)
            assert.match(text, new RegExp(`"accepted_prediction_tokens":${taken}\\b`), path);
        }
    },

    async 'times between tokens are counted for each token that a reader has'() {
      const name = 'semantic_inter_token_seconds';
      const body = { ...opening, max_tokens: 100, min_tokens: 100 };
      const first = await drafts_of(servers.on);
      for (let i = 0, taken = 0; taken === 0; ++i) {
        assert.ok(i < 50, 'no draft was taken');
        const before = await servers.on.metrics();
        const began = performance.now();
        const { usage } = await ask(servers.on, '/v1/completions', body);
        const took = (performance.now() - began) / 1000;
        const now = await servers.on.metrics();
        assert.equal(usage.completion_tokens, 100);
        assert.equal(now[`${name}_count`] - before[`${name}_count`], 99);
        assert.ok(now[`${name}_sum`] - before[`${name}_sum`] < took, 'more than the whole answer');
        taken = (await drafts_of(servers.on)).taken - first.taken;
      }
    },

    async 'a server that is killed while drafts are run leaves nothing of them'() {
      const cache = make_folder();
      const start = () => Server.start({ cache, args: args_of('on') });
      const path = '/v1/completions';
      let server = await start();
      for (let kill = 0; kill < kills; ++kill) {
        const agent = `killed-${kill}`;
        await ask(server, path, { ...opening, max_tokens: 8 }, agent);
        const before = (await drafts_of(server)).drafted;
        const length = { max_tokens: 2000, min_tokens: 2000 };
        const answer = await send(server, path, { ...opening, ...length, stream: true }, agent);
        const reader = answer.body.getReader();
        const are_run = async () => (await drafts_of(server)).drafted > before + 20 * (kill % 5);
        for (let i = 0; i < 2000 && !(await are_run()); ++i)
          assert.ok(!(await reader.read()).done, 'it ended before a draft was run');
        assert.ok(await are_run(), 'none was run');
        await Promise.all([server.kill(), reader.cancel().catch(() => {})]);
        server = await start();
        for (const max_tokens of [60, 90]) {
          const one = await ask(server, path, { ...opening, max_tokens }, agent);
          const other = await ask(servers.off, path, { ...opening, max_tokens }, `fresh-${kill}`);
          assert.deepEqual(one.choices, other.choices);
        }
      }
      assert.equal((await server.stop()).code, 0);
    },
  },
  300_000 + 20_000 * kills + 1000 * rounds,
);
