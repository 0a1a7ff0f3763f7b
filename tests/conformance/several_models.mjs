// SPDX-License-Identifier: Apache-2.0
// Two models loaded at once in one process: both answer at the same time, have one pool and one
// cache directory, and come and go on their own.

import assert from 'node:assert/strict';

import { main, make_folder, text_of, user } from './harness.mjs';
import { process_of, registry_of, start, tiny } from './swapping.mjs';

const SECONDS = Number(process.env.SEVERAL_SECONDS ?? 8);
const CLIENTS = Number(process.env.SEVERAL_CLIENTS ?? 4); // of each model
// Two models' files, other than the embedded one in two forms.
const MODELS = process.env.SEVERAL_MODELS?.split(',');
const two = MODELS
  ? MODELS.map((path, i) => ({ name: 'ab'[i], path, recipe: 'k8v8' }))
  : [
      { name: 'a', path: tiny, recipe: 'k16v16' },
      { name: 'b', path: tiny, recipe: 'k8v8' },
    ];

const with_both = (cache, more = [], models = two) =>
  start(cache, ['--max-loaded', '2', ...more], registry_of(models));

async function change(server, what, model_id) {
  const answer = await fetch(`${server.url}/admin/models/${what}`, {
    method: 'POST',
    headers: { 'x-admin-key': 'k', 'content-type': 'application/json' },
    body: JSON.stringify({ model_id, timeout_seconds: 5 }),
    signal: AbortSignal.timeout(120_000),
  });
  return { status: answer.status, text: await answer.text() };
}

async function loaded(server, model) {
  const { status, text } = await change(server, 'load', model);
  assert.equal(status, 200, text);
}

const metric = (samples, name, model) => samples[`${name}{model="${model}"}`];
const words = (count, what) =>
  Array.from({ length: count }, (_, i) => `${what}${(i * 7919) % 977}`).join(' ');
const middle = (sorted) => sorted[sorted.length >> 1] ?? 0;
const at_part = (sorted, part) => sorted[Math.floor((sorted.length - 1) * part)] ?? 0;

const side_by_side = {
  async 'two models that are both loaded answer side by side without a swap'() {
    const server = await with_both(make_folder(), ['--auto-swap', 'on', '--model-turn-s', '2']);
    if (MODELS) server.ask_ms = 600_000;
    await loaded(server, 'b');
    const before = (await server.metrics())['semantic_model_changes_total{outcome="done"}'];
    const end = Date.now() + SECONDS * 1000;
    const took = { a: [], b: [] };
    const client = async (model, number) => {
      for (let turn = 0; turn === 0 || Date.now() < end; ++turn) {
        const asked_at = Date.now();
        const content = `Tell me of ${number} and ${turn % 5}.`;
        await server.ask(`${model}${number}`, [user(content)], { model, max_tokens: 60 });
        took[model].push(Date.now() - asked_at);
      }
    };
    const clients = [];
    for (let i = 0; i < CLIENTS; ++i) clients.push(client('a', i), client('b', i));
    await Promise.all(clients);
    const samples = await server.metrics();
    const figures = {
      seconds: SECONDS,
      clients: CLIENTS,
      swaps: samples['semantic_model_changes_total{outcome="done"}'] - before,
    };
    for (const [model, list] of Object.entries(took)) {
      list.sort((x, y) => x - y);
      figures[model] = {
        answers: list.length,
        median_ms: middle(list),
        p95_ms: at_part(list, 0.95),
        longest_ms: list.at(-1),
      };
    }
    console.log(`        ${JSON.stringify({ ...figures, ...process_of(server) })}`);
    assert.equal(figures.swaps, 0);
    for (const model of ['a', 'b']) {
      assert.ok(figures[model].answers >= CLIENTS, model);
      assert.ok(metric(samples, 'semantic_tokens_decoded_total', model) > 0, model);
    }
    assert.equal((await server.stop()).code, 0);
  },

};

const of_the_embedded_model = {
  async "one agent's memories are found under each model, after a kill too"() {
    const cache = make_folder();
    let server = await with_both(cache);
    await loaded(server, 'b');
    const told = (model) => [user(`I am the dog of model ${model}. Who am I?`)];
    const first = {};
    for (const model of ['a', 'b'])
      first[model] = await server.ask('dog', told(model), { model, max_tokens: 16 });
    const see = async (when) => {
      for (const model of ['a', 'b']) {
        const again = await server.ask('dog', told(model), { model, max_tokens: 16 });
        assert.equal(text_of(again), text_of(first[model]), `${model} ${when}`);
        assert.ok(again.usage.cache_read_input_tokens > 0, `${model} ${when}`);
      }
      const headers = { 'x-admin-key': 'k' };
      const { agents } = await (await fetch(`${server.url}/v1/agents`, { headers })).json();
      const dog = agents.filter((each) => each.agent_id === 'sess_dog');
      assert.equal(dog.length, 1);
      assert.deepEqual(dog[0].memories.map((each) => each.model_id).sort(), ['a', 'b']);
    };
    await see('while both are loaded');
    await server.kill();
    server = await with_both(cache);
    await loaded(server, 'b');
    await see('after a kill');
    const gone = await change(server, 'unload', 'b');
    assert.equal(gone.status, 200, gone.text);
    await assert.rejects(server.ask('dog', told('b'), { model: 'b' }), /status 404/);
    await loaded(server, 'b');
    await see('after b was unloaded and loaded');
    assert.equal((await server.stop()).code, 0);
  },

  async "an agent's memories are shown hot under each model, and evicted under each"() {
    const server = await with_both(make_folder());
    await loaded(server, 'b');
    for (const model of ['a', 'b'])
      await server.ask('cat', [user('I am the cat.')], { model, max_tokens: 8 });
    const headers = { 'x-admin-key': 'k' };
    const cat = `${server.url}/v1/agents/sess_cat`;
    const tiers = async () => {
      const { memories } = await (await fetch(cat, { headers })).json();
      return memories.map(({ model_id, loaded, tier, ram_bytes }) => [
        model_id,
        loaded,
        tier,
        ram_bytes > 0,
      ]);
    };
    assert.deepEqual((await tiers()).sort(), [
      ['a', true, 'hot', true],
      ['b', true, 'hot', true],
    ]);
    const evicted = await fetch(`${cat}/evict`, { method: 'POST', headers });
    assert.equal(evicted.status, 200, await evicted.text());
    assert.deepEqual((await tiers()).sort(), [
      ['a', true, 'warm', false],
      ['b', true, 'warm', false],
    ]);
    // What a model that is unloaded remembers is on disk.
    assert.equal((await change(server, 'unload', 'b')).status, 200);
    assert.deepEqual((await tiers()).sort()[1], ['b', false, 'warm', false]);
    assert.equal((await server.stop()).code, 0);
  },

  async 'idle memory of one model gives way to the other, and comes back from disk as it was'() {
    const server = await with_both(make_folder(), ['--cache-budget-mb', '8']);
    await loaded(server, 'b');
    const prompt = (what) => [user(words(120, what))];
    const ask = (model, id) =>
      server.ask(`${model}${id}`, prompt(`${model}${id}x`), { model, max_tokens: 12 });
    const first = await Promise.all(Array.from({ length: 6 }, (_, i) => ask('a', i)));
    const held = metric(await server.metrics(), 'semantic_pool_held_bytes', 'a');
    assert.ok(held > 0);
    // As many of b as fill the pool whatever a has there.
    const pool = metric(await server.metrics(), 'semantic_pool_bytes', 'b');
    let samples;
    for (let i = 0; i < 200; ++i) {
      await ask('b', i);
      samples = await server.metrics();
      const both = ['a', 'b'].map((m) => metric(samples, 'semantic_pool_held_bytes', m));
      assert.ok(both[0] + both[1] <= pool, `${both} of ${pool}`);
      if (both[0] < held / 2) break;
    }
    assert.ok(metric(samples, 'semantic_pool_held_bytes', 'a') < held / 2, 'a has given way');
    for (let i = 0; i < first.length; ++i) {
      const again = await ask('a', i);
      assert.equal(text_of(again), text_of(first[i]), `a${i}`);
      assert.ok(again.usage.cache_read_input_tokens > 0, `a${i}`);
    }
    assert.equal((await server.stop()).code, 0);
  },

  async 'both models come to their end when together they want more than the pool has'() {
    const server = await with_both(make_folder(), ['--cache-budget-mb', '4']);
    await loaded(server, 'b');
    const { data } = await (await fetch(`${server.url}/v1/models`)).json();
    const context = Object.fromEntries(data.map((each) => [each.id, each.context_length]));
    const per_word = (await server.count_tokens([user(words(200, 'n'))])) / 200;
    const one = async (model, i) => {
      const most = Math.floor((context[model] * 0.6) / per_word);
      const answer = await server.ask(`${model}${i}`, [user(words(most, `${model}${i}`))], {
        model,
        max_tokens: 200,
      });
      assert.ok(answer.usage.output_tokens > 0);
    };
    // Who is short of memory at which moment differs from round to round.
    for (let round = 0; round < 8; ++round)
      await Promise.all(
        [0, 1, 2].flatMap((i) => [one('a', 3 * round + i), one('b', 3 * round + i)]),
      );
    assert.equal((await server.stop()).code, 0);
  },

  async 'a model for which the memory does not suffice is refused with the sum'() {
    const headers = { 'x-admin-key': 'k' };
    const plan_of = async (server) =>
      (await (await fetch(`${server.url}/debug/memory`, { headers })).json()).plan;
    const size_of = (plan) => Number(plan.match(/= (\d+) MiB/)[1]);
    const large = await with_both(make_folder(), ['--memory-limit-mb', '2000']);
    const one = size_of(await plan_of(large));
    await loaded(large, 'b');
    const both = size_of(await plan_of(large));
    assert.ok(both > one + 2, `${both} and ${one} MiB`);
    assert.equal((await large.stop()).code, 0);
    // Enough for one of them. What clients may keep falls with the limit, and the sum with it.
    let limit = both - 2;
    let small;
    for (let i = 0; i < 20; ++i) {
      small = await with_both(make_folder(), ['--memory-limit-mb', String(limit)]);
      const needed = size_of(await plan_of(small)) + both - one;
      if (needed > limit) break;
      assert.equal((await small.stop()).code, 0);
      limit = needed - 2;
    }
    const refused = await change(small, 'load', 'b');
    assert.equal(refused.status, 409, refused.text);
    assert.match(refused.text, /the memory does not suffice: weights .* = \d+ MiB of/);
    const answer = await small.ask('x', [user('Are you there?')], { model: 'a', max_tokens: 4 });
    assert.ok(answer.usage.output_tokens > 0);
    assert.equal((await small.stop()).code, 0);
  },

  async 'the quota holds over both models'() {
    const cache = make_folder();
    const server = await with_both(cache, ['--disk-budget-mb', '3']);
    await loaded(server, 'b');
    for (let i = 0; i < 30; ++i) {
      await Promise.all(
        ['a', 'b'].map((model) =>
          server.ask(`${model}${i}`, [user(words(80, `${model}${i}`))], { model, max_tokens: 8 }),
        ),
      );
      const samples = await server.metrics();
      const held = samples.semantic_disk_bytes;
      assert.ok(held <= 3 * 2 ** 20, `${held} bytes`);
    }
    const removed = (await server.metrics()).semantic_store_disk_removals_total;
    assert.ok(removed > 0, 'the budget was reached');
    assert.equal((await server.stop()).code, 0);
  },
};

await main(
  { ...side_by_side, ...(MODELS ? {} : of_the_embedded_model) },
  (SECONDS + 200) * 1000,
);
