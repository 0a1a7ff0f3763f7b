// SPDX-License-Identifier: Apache-2.0
// Several models on one server and one cache directory: one takes the other's place while clients
// ask, each agent is remembered under each model, and what cannot be loaded leaves the server as it
// was.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { assistant, main, make_folder, Server, text_of, user } from './harness.mjs';
import { process_of, start, stream, swap, swapped } from './swapping.mjs';

const SWAPS = Number(process.env.MODELS_SWAPS ?? 12);
const STREAMS = 8;

const lines = ['My dog is called Biscuit.', 'I live in Perth.', 'What is my dog called?'];

await main({
  async 'an agent goes on under each model where it was, also after the other had its turn'() {
    const alone = await Server.start({ cache: make_folder(), args: ['--kv-recipe', 'k16v16'] });
    const server = await start(make_folder());
    const messages = [];
    for (const line of lines) {
      messages.push(user(line));
      const expected = await alone.ask('dog', messages);
      const answer = await server.ask('dog', messages);
      assert.equal(text_of(answer), text_of(expected));
      assert.equal(answer.usage.cache_read_input_tokens, expected.usage.cache_read_input_tokens);
      await swapped(server, 'tight');
      const other = await server.ask('dog', messages);
      assert.equal(other.usage.cache_read_input_tokens > 0, messages.length > 1);
      await swapped(server, 'haiku');
      messages.push(assistant(text_of(answer)));
    }
    assert.match(messages.at(-1).content, /Biscuit/);
    const headers = { 'x-admin-key': 'k' };
    const agents = await (await fetch(`${server.url}/v1/agents`, { headers })).json();
    assert.equal(agents.agents.length, 1, JSON.stringify(agents));
    assert.deepEqual(agents.agents[0].memories.map((each) => each.model_id).sort(), [
      'tight',
      'wide',
    ]);
    await alone.stop();
    await server.stop();
  },

  async 'a session of several agents goes on under each model'() {
    const server = await start(make_folder());
    const post = async (path, body) => {
      const answer = await fetch(`${server.url}/v1/coordination/sessions${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(60_000),
      });
      const text = await answer.text();
      assert.ok(answer.status < 300, `${answer.status}: ${text}`);
      return JSON.parse(text);
    };
    const { session_id } = await post('', {
      agents: ['Ada', 'Bob'].map((name) => ({ agent_id: name.toLowerCase(), display_name: name })),
      initial_prompt: 'You meet at the harbour.',
      max_turns: 6,
    });
    for (const model of ['tight', 'wide', 'tight', 'wide', 'tight', 'wide']) {
      await post(`/${session_id}/turn`, { temperature: 0, max_tokens: 16 });
      await swapped(server, model);
    }
    await server.stop();
  },

  async 'what cannot be loaded leaves the model that runs, which answers and says why'() {
    const server = await start(make_folder());
    const missing = await swap(server, 'missing');
    assert.equal(missing.status, 409, missing.text);
    assert.match(missing.text, /nowhere/);
    const torn = await swap(server, 'torn');
    assert.equal(torn.status, 500, torn.text);
    assert.match(torn.text, /torn is not loaded: .*wide runs/);
    await server.ask('dog', [user('Hello')]);
    const list = await (await fetch(`${server.url}/v1/models`)).json();
    const states = Object.fromEntries(list.data.map((each) => [each.id, each.state]));
    assert.deepEqual(states, {
      wide: 'loaded',
      tight: 'available',
      torn: 'failed',
      missing: 'failed',
      huge: 'available',
    });
    for (const each of list.data.slice(0, 2)) {
      assert.ok(each.context_length > 0 && each.kv_bytes_per_token > 0, JSON.stringify(each));
      assert.ok(each.agents_4k > 0, JSON.stringify(each));
    }
    const other = await fetch(`${server.url}/v1/messages`, {
      method: 'POST',
      body: JSON.stringify({ model: 'tight', max_tokens: 5, messages: [user('x')] }),
    });
    assert.equal(other.status, 404);
    assert.match(await other.text(), /POST \/admin\/models\/swap/);
    await server.stop();
  },

  async 'under streams, each request is answered or told to come back, and nothing piles up'() {
    const server = await start(make_folder());
    const ends = { answered: 0, refused: 0, cut: 0 };
    let going = true;
    const client = async (number) => {
      for (let turn = 0; going; ++turn) {
        const end = await stream(server, `s${number}`, `Tell me of ${number} and ${turn}.`);
        ends[end] += 1;
        await sleep(end === 'refused' ? 50 : Math.random() * 50);
      }
    };
    const clients = Array.from({ length: STREAMS }, (_, number) => client(number));
    let before;
    for (let i = 0; i < SWAPS; ++i) {
      await sleep(Math.random() * 300);
      if (i % 4 === 3) assert.equal((await swap(server, 'torn')).status, 500);
      await swapped(server, i % 2 === 0 ? 'tight' : 'wide');
      if (i === 1) before = process_of(server);
    }
    going = false;
    await Promise.all(clients);
    await swapped(server, 'haiku');
    const after = process_of(server);
    console.log(`        ${JSON.stringify({ ends, before, after })}`);
    assert.ok(ends.answered > STREAMS, JSON.stringify(ends));
    assert.ok(after.threads <= before.threads, JSON.stringify({ before, after }));
    const { code, err } = await server.stop();
    assert.equal(code, 0, err);
  },

  async 'kill -9 during a swap loses nothing that was told, whenever it comes'() {
    const cache = make_folder();
    const told = [user(lines[0])];
    for (const wait of [0, 30, 90, 180]) {
      const server = await start(cache);
      const answer = await server.ask('dog', told);
      assert.ok(wait === 0 || answer.usage.cache_read_input_tokens > 0, `after ${wait} ms`);
      const other = swap(server, 'tight').catch(() => 'gone');
      await sleep(wait);
      await server.kill();
      await other;
    }
  },

  async 'SIGTERM ends the server in time whenever it comes during a swap'() {
    const cache = make_folder();
    for (const wait of [0, 20, 60, 120, 250, 500]) {
      const server = await start(cache, ['--shutdown-grace-s', '1']);
      const busy = stream(server, 'busy', 'Tell me a long story.').catch(() => 'gone');
      const other = swap(server, 'tight', { timeout_seconds: 300 }).catch(() => 'gone');
      await sleep(wait);
      const asked_at = Date.now();
      const { code, signal, err } = await server.stop();
      assert.deepEqual({ code, signal }, { code: 0, signal: null }, err);
      assert.ok(Date.now() - asked_at < 6000, `after ${wait} ms: ${Date.now() - asked_at} ms`);
      await Promise.all([busy, other]);
    }
  },
}, 120_000);
