// SPDX-License-Identifier: Apache-2.0
// Models with recurrent layers: the same answers, greedy, word for word, however the memory came
// about. The whole memory of semantic-tiny-recurrent is in its recurrent states, so that a wrong
// one shows in the words.

import assert from 'node:assert/strict';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import {
  converse,
  free_port,
  main,
  make_folder,
  run_to_end,
  Server,
  text_of,
  user,
} from './harness.mjs';
import { registry_of, tiny } from './swapping.mjs';
import { lines } from './text.mjs';

const source = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

function folder_of(name) {
  const places = [
    join(source, 'etc', 'models', name),
    join(source, '..', 'shared', 'models', `${name}-4bit`),
  ];
  return places.find((place) => existsSync(join(place, 'config.json')));
}

const folders = ['semantic-tiny-recurrent', 'semantic-tiny-hybrid'].map(folder_of).filter(Boolean);
if (folders.length === 0) {
  console.log('skipped: no model with recurrent layers is here');
  process.exit(77);
}

const system = 'You are a patient gardener who answers in one sentence.';
const start_with = (model, cache) =>
  Server.start({ cache, args: ['--model', model, '--states-per-agent', '16'] });
const reused_of = (answer) => answer.usage.cache_read_input_tokens;

async function agent_of(server, id) {
  const answer = await fetch(`${server.url}/v1/agents/${id}`);
  return answer.json();
}

function state_files(cache) {
  return readdirSync(join(cache, 'blocks'), { recursive: true })
    .filter((name) => name.endsWith('.state.safetensors'))
    .map((name) => join(cache, 'blocks', name));
}

async function cases_of(folder) {
  const start = (cache) => start_with(folder, cache);
  /** What the model says to `messages` on a server that has seen nothing. */
  const anew = async (messages) => {
    const server = await start(make_folder());
    const answer = await server.ask('x', messages, { system });
    await server.stop();
    return text_of(answer);
  };
  const name = folder.split('/').pop();
  const first = await start(make_folder());
  const reference = await converse(first, 'a', lines, { system });
  await first.stop();
  const cases = {
    async 'each turn as if nothing had been read before it'() {
      for (let turn = 0; turn < lines.length; ++turn) {
        const said = await anew(reference.messages.slice(0, 2 * turn + 1));
        assert.equal(said, reference.texts[turn], `turn ${turn + 1}`);
      }
      assert.ok(reused_of(reference.answers.at(-1)) > 2000);
    },

    async 'kill -9 before every turn'() {
      const cache = make_folder();
      const between = async (old) => {
        await old.kill();
        return start(cache);
      };
      const talk = await converse(await start(cache), 'a', lines, { system, between });
      assert.deepEqual(talk.texts, reference.texts);
      assert.ok(reused_of(talk.answers.at(-1)) > 2000, JSON.stringify(talk.answers.at(-1).usage));
      const metrics = await talk.server.metrics();
      assert.ok(metrics.semantic_store_states_read_total > 0);
      await talk.server.stop();
    },

    async 'forked, diverged at kept places and between them, by others too'() {
      const server = await start(make_folder());
      await converse(server, 'a', lines, { system });
      for (const cut of [1, 3, 5, 7]) {
        const messages = [...reference.messages.slice(0, cut - 1), user(`No. ${lines[0]}`)];
        const answer = await server.ask(`fork-${cut}`, messages, { system });
        assert.equal(text_of(answer), await anew(messages), `parted before message ${cut}`);
      }
      const card = await agent_of(server, 'sess_a');
      assert.ok(card.states.places.length > 1, JSON.stringify(card));
      assert.ok(card.states.file_size_bytes > 0);
      assert.ok(card.states.file_size_bytes < card.file_size_bytes);
      await server.stop();
    },

    async 'five agents in one batch, each some turns apart'() {
      const server = await start(make_folder());
      const talks = lines.map((_, i) =>
        converse(server, `agent-${i}`, lines.slice(0, lines.length - i), { system }),
      );
      for (const { texts } of await Promise.all(talks)) {
        assert.deepEqual(texts, reference.texts.slice(0, texts.length));
      }
      await server.stop();
    },

    async 'exported and imported'() {
      const server = await start(make_folder());
      await converse(server, 'a', lines.slice(0, -1), { system });
      const exported = await (await fetch(`${server.url}/v1/agents/sess_a/cache`)).arrayBuffer();
      await server.stop();
      const other = await start(make_folder());
      const imported = await fetch(`${other.url}/v1/agents/sess_b/cache`, {
        method: 'PUT',
        body: exported,
      });
      assert.equal(imported.status, 200, await imported.text());
      const answer = await other.ask('b', reference.messages.slice(0, -1), { system });
      assert.equal(text_of(answer), reference.texts.at(-1));
      assert.ok(reused_of(answer) > 2000, JSON.stringify(answer.usage));
      await other.stop();
    },

    async 'a damaged state is a miss down to the place before, and said so'() {
      const cache = make_folder();
      const server = await start(cache);
      await converse(server, 'a', lines.slice(0, -1), { system });
      await server.stop();
      const newest = state_files(cache).sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
      truncateSync(newest[0], statSync(newest[0]).size - 1);
      const again = await start(cache);
      const answer = await again.ask('a', reference.messages.slice(0, -1), { system });
      assert.equal(text_of(answer), reference.texts.at(-1));
      const metrics = await again.metrics();
      assert.ok(metrics.semantic_store_states_corrupt_total >= 1);
      assert.ok(metrics['semantic_cache_misses_total{reason="corrupt"}'] >= 1);
      await again.stop();
    },

    async 'ten agents on one system text have one state of it'() {
      const cache = make_folder();
      const server = await start(cache);
      const long = { system: `${system} ${lines[1]}` };
      const reused = [];
      for (let i = 0; i < 10; ++i) {
        const answer = await server.ask(`s${i}`, [user(`I am number ${i}.`)], long);
        reused.push(reused_of(answer));
      }
      assert.equal(reused[0], 0);
      assert.ok(reused[9] > 500, JSON.stringify(reused));
      const places = [];
      for (let i = 0; i < 10; ++i) {
        places.push((await agent_of(server, `sess_s${i}`)).states.places);
      }
      // With a wide tail other places may lie in what they share, too.
      const most = places.flat().length - 9;
      assert.ok(state_files(cache).length <= most, 'the root is on disk once');
      await server.stop();
    },
  };
  return Object.fromEntries(
    Object.entries(cases).map(([promise, hold]) => [`${name}: ${promise}`, hold]),
  );
}

/** A copy of the model whose config says of every layer that it is recurrent. */
function unattending(folder) {
  const copy = join(make_folder(), 'unattending');
  cpSync(folder, copy, { recursive: true });
  const path = join(copy, 'config.json');
  const config = JSON.parse(readFileSync(path));
  config.layer_types = config.layer_types.map(() => 'linear_attention');
  writeFileSync(path, JSON.stringify(config));
  return copy;
}

const all = {
  async 'a model without any layer that attends is refused by name, at the start and in lists'() {
    const path = unattending(folders[0]);
    const why = /none of the 8 layers of this qwen3_5_text attends/;
    const cache = make_folder();
    const port = String(await free_port());
    const args = ['--model', path, '--port', port, '--cache-dir', cache];
    const { code, err } = await run_to_end(args);
    assert.equal(code, 1, err);
    assert.match(err, why);
    const registry = registry_of([
      { name: 'first', path: tiny, recipe: 'k16v16' },
      { name: 'recurrences', path },
    ]);
    const server = await Server.start({ cache, args: ['--models-file', registry] });
    const { data } = await (await fetch(`${server.url}/v1/models`)).json();
    const card = data.find(({ id }) => id === 'recurrences');
    assert.equal(card.state, 'failed', JSON.stringify(card));
    assert.match(JSON.stringify(card), why);
    assert.ok(!JSON.stringify(card).includes(path), 'no path of this machine');
    await server.stop();
  },
};
for (const folder of folders) Object.assign(all, await cases_of(folder));
await main(all, 120_000);
