// SPDX-License-Identifier: Apache-2.0
// Requests that have their models loaded: two models asked in turn by clients that never pause, and
// two hundred agents under three models in one directory.

import assert from 'node:assert/strict';
import { openSync, readSync, writeSync, closeSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { main, make_folder, stored_tokens, text_of, user } from './harness.mjs';
import { changed_model, process_of, registry_of, start, tiny } from './swapping.mjs';

const SECONDS = Number(process.env.AUTO_SWAP_SECONDS ?? 12);
const CLIENTS = Number(process.env.AUTO_SWAP_CLIENTS ?? 4); // of each model
const TURN = Number(process.env.AUTO_SWAP_TURN ?? 2);
// Two models' files, other than the embedded one in two forms.
const MODELS = process.env.AUTO_SWAP_MODELS?.split(',');
// A change of these takes so many seconds at most.
const CHANGE = Number(process.env.AUTO_SWAP_CHANGE ?? (MODELS ? 5 : 1));
const AGENTS = Number(process.env.AUTO_SWAP_AGENTS ?? 200);

/** The same geometry, and one weight of the last tensor another. */
function fine_tuned(folder) {
  return changed_model(folder, 'tuned', (file) => {
    const fd = openSync(file, 'r+');
    const at = statSync(file).size - 2;
    const byte = Buffer.alloc(1);
    readSync(fd, byte, 0, 1, at);
    writeSync(fd, Buffer.from([byte[0] ^ 1]), 0, 1, at);
    closeSync(fd);
  });
}

const with_swaps = (models, more = []) =>
  start(make_folder(), ['--auto-swap', 'on', ...more], registry_of(models));

const middle = (sorted) => sorted[sorted.length >> 1] ?? 0;

await main({
  async 'two models that are asked without a pause each have their turn, and nobody starves'() {
    const two = MODELS
      ? MODELS.map((path, i) => ({ name: 'ab'[i], path, recipe: 'k8v8' }))
      : [
          { name: 'a', path: tiny, recipe: 'k16v16' },
          { name: 'b', path: tiny, recipe: 'k8v8' },
        ];
    const server = await with_swaps(two, ['--model-turn-s', String(TURN)]);
    if (MODELS) server.ask_ms = 600_000;
    const end = Date.now() + SECONDS * 1000;
    const took = { a: [], b: [] };
    const client = async (model, number) => {
      for (let turn = 0; Date.now() < end; ++turn) {
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
    const swaps = samples['semantic_model_changes_total{outcome="done"}'];
    assert.equal(samples['semantic_model_changes_total{outcome="failed"}'], 0);
    const figures = { seconds: SECONDS, clients: CLIENTS, turn: TURN, swaps };
    for (const [model, list] of Object.entries(took)) {
      list.sort((x, y) => x - y);
      figures[model] = { answers: list.length, median_ms: middle(list), longest_ms: list.at(-1) };
    }
    console.log(`        ${JSON.stringify({ ...figures, ...process_of(server) })}`);
    // The other's turn, twice the time for answers to end, and two changes.
    const bound = (3 * TURN + 2 * CHANGE) * 1000;
    for (const model of ['a', 'b']) {
      assert.ok(figures[model].answers >= CLIENTS, model);
      assert.ok(figures[model].longest_ms < bound, `${model}: ${figures[model].longest_ms} ms`);
    }
    assert.ok(swaps >= 2 && swaps <= (2 * SECONDS) / TURN + 2, `${swaps} swaps`);
    assert.equal((await server.stop()).code, 0);
  },

  async 'two hundred agents under three models in one directory are each found, and none mixed'() {
    const folder = make_folder();
    const models = [
      { name: 'one', path: tiny, recipe: 'k8v8' },
      { name: 'tuned', path: fine_tuned(folder), recipe: 'k8v8' },
      { name: 'wide', path: tiny, recipe: 'k16v16' },
    ];
    const server = await with_swaps(models);
    const first = {};
    const what = (number) => [user(`My number is ${number}. What is my number?`)];
    const ask_all = async (model, see) => {
      for (let number = 0; number < AGENTS; number += 8)
        await Promise.all(
          Array.from({ length: Math.min(8, AGENTS - number) }, async (_, i) => {
            const id = number + i;
            see(id, await server.ask(`agent${id}`, what(id), { model, max_tokens: 12 }));
          }),
        );
    };
    for (const { name } of models) await ask_all(name, (id, got) => (first[`${name} ${id}`] = got));
    for (const { name } of models)
      await ask_all(name, (id, got) => {
        const before = first[`${name} ${id}`];
        assert.equal(text_of(got), text_of(before), `${name} ${id}`);
        // The same prompt again: all of it but the token that is run anew.
        const { input_tokens, cache_read_input_tokens } = got.usage;
        assert.ok(input_tokens <= 1 && cache_read_input_tokens > 10, JSON.stringify(got.usage));
        assert.ok(cache_read_input_tokens <= stored_tokens(before));
      });
    const headers = { 'x-admin-key': 'k' };
    const { agents } = await (await fetch(`${server.url}/v1/agents`, { headers })).json();
    const named = agents.filter((each) => each.agent_id.startsWith('sess_agent'));
    assert.equal(named.length, AGENTS);
    for (const agent of named) {
      const remembered = agent.memories.map((each) => each.model_id).sort();
      assert.deepEqual(remembered, ['one', 'tuned', 'wide']);
      assert.equal(new Set(agent.memories.map((each) => each.fingerprint)).size, 3);
    }
    assert.equal((await server.stop()).code, 0);
  },

  async 'a model without requests is unloaded, gives its memory back, and comes again'() {
    const server = await with_swaps(
      [{ name: 'a', path: tiny, recipe: 'k16v16' }],
      ['--model-ttl', '1'],
    );
    const told = [user('My dog is called Biscuit.')];
    const first = await server.ask('dog', told);
    const loaded = process_of(server);
    let ready;
    for (let i = 0; i < 100; ++i) {
      ready = await (await fetch(`${server.url}/health/ready`)).json();
      if (ready.model === null) break;
      await sleep(100);
    }
    assert.deepEqual(ready, { status: 'ready', model: null });
    assert.ok(process_of(server).rss < loaded.rss - 4096, 'its weights are gone');
    const again = await server.ask('dog', told);
    assert.equal(text_of(again), text_of(first));
    assert.ok(again.usage.cache_read_input_tokens > 0);
    assert.equal((await server.stop()).code, 0);
  },
}, (SECONDS + 100) * 1000);
