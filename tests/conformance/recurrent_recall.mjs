// SPDX-License-Identifier: Apache-2.0
// What trained models with recurrent layers know of a conversation is the same, word for word,
// however their memory came about: hot, restored after kill -9, forked, parted between kept places,
// exported and imported, batched, swapped out and back, fetched by another node. The whole memory
// of semantic-tiny-recurrent is in its recurrent states; with wrong ones it knows nothing.
//
// RECALL_PER_LENGTH: cases of each context length (60: all); without it one of each kind of the
// shortest length. RECALL_MODELS: FOLDER-OR-FILE,... beside the model of the tree; a card's figures
// are known of those named semantic-tiny-{recurrent,hybrid}{-4bit,-Q4_K_M.gguf}. Greedy answers of
// the unquantised weights lie in the golden folder, or in RECALL_ANSWERS. RECALL_WAYS: WORDS,...
// asks in those ways alone that have one of the words in their name, and as the card says.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { call as call_path } from './coordination_calls.mjs';
import { converse, main, make_folder, Server, text_of, user } from './harness.mjs';
import { registry_of, swapped } from './swapping.mjs';

const tests = dirname(dirname(fileURLToPath(import.meta.url)));
const golden = join(tests, 'golden');
const per_length = Number(process.env.RECALL_PER_LENGTH ?? 0);
const embedded = 'semantic-tiny-recurrent';
const models = process.env.RECALL_MODELS?.split(',') ?? [embedded];
const ways = process.env.RECALL_WAYS?.split(',');
// Percent of 60 cases at 512 to 8,192 tokens, from the cards of the models; GGUF files are Q4_K_M.
const lengths = [512, 1024, 2048, 4096, 8192];
const cards = {
  'semantic-tiny-recurrent': [93.3, 95.0, 93.3, 88.3, 88.3],
  'semantic-tiny-hybrid': [100.0, 100.0, 96.7, 98.3, 100.0],
};
const points_off = 2;
const patience = 4 * 3600_000;

const read_lines = (path) =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

/** The cases that are asked, each with its prompt, what has to be in the answer, and its number. */
function choose_cases() {
  const all = read_lines(join(golden, 'recall_eval.jsonl')).map((one, number) => {
    const { context_tokens: length, kind, expect } = one;
    const system = one.messages.find(({ role }) => role === 'system')?.content;
    const messages = one.messages.filter(({ role }) => role !== 'system');
    return { number, length, kind, expect, messages, system };
  });
  if (per_length)
    return lengths.flatMap((length) =>
      all.filter((one) => one.length === length).slice(0, per_length),
    );
  return ['chat', 'paste', 'needle'].map((kind) => all.find((one) => one.kind === kind));
}

/** What the unquantised weights said to each case (`out`), and whether it is right (`ok`); nothing
 *  where it is not known. */
function answers_of(name) {
  const file = `${name}-answers.jsonl`;
  const place = [process.env.RECALL_ANSWERS, golden].find(
    (folder) => folder && existsSync(join(folder, file)),
  );
  return place && read_lines(join(place, file));
}

/** How many of the cases have to be right: as many as the unquantised weights or the card know but
 *  one in 15, which quantisation may cost; four in five of a model of which nothing is known. */
function least_right(name, known) {
  const off = Math.floor(cases.length / 15);
  if (known) return cases.filter(({ number }) => known[number].ok).length - off;
  const card = cards[name];
  if (!card) return cases.length * 0.8;
  const sum = cases.reduce((all, { length }) => all + card[lengths.indexOf(length)] / 100, 0);
  return Math.floor(sum) - off;
}

const cases = choose_cases();
const knows = (one, text) => text.toLowerCase().includes(one.expect.toLowerCase());
const reused_of = ({ usage }) => usage.cache_read_input_tokens;

/** Asks every case as `agent(case)`, `at_once` side by side. Resolves with the answers. */
async function ask_all(server, agent, at_once = 1) {
  const answers = [];
  const waiting = cases.map((one, i) => [one, i]);
  const worker = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [one, i] = next;
      answers[i] = await server.ask(agent(one), one.messages, {
        system: one.system,
        max_tokens: 48,
      });
    }
  };
  server.ask_ms = 600_000;
  await Promise.all(Array.from({ length: at_once }, worker));
  return answers;
}

const agent_of = (one) => `case-${one.number}`;
const id_of = (one) => `sess_${agent_of(one)}`;

/** The message that is longest, cut in the middle: prompts that begin so part inside it. */
function first_half(one) {
  const sizes = one.messages.map(({ role, content }) => (role === 'user' ? content.length : 0));
  const at = sizes.indexOf(Math.max(...sizes));
  const content = one.messages[at].content;
  return [...one.messages.slice(0, at), user(content.slice(0, content.length / 2))];
}

function cases_of(model) {
  const name = basename(model).replace(/-4bit$|-Q4_K_M\.gguf$/, '');
  const known = answers_of(name);
  const args = ['--model', model, '--kv-recipe', 'k16v16'];
  const start = (cache, more = []) => Server.start({ cache, args: [...args, ...more] });
  const cache = make_folder();
  let server;
  let expected;
  const end = async () => {
    await server?.stop();
    server = undefined;
  };
  const expect_same = (answers, least = 0.5) => {
    answers.forEach((answer, i) => {
      const { number, length } = cases[i];
      assert.equal(text_of(answer), expected[i], `case ${number} of ${length} tokens`);
      const { usage } = answer;
      const all = usage.input_tokens + usage.cache_creation_input_tokens + reused_of(answer);
      assert.ok(reused_of(answer) >= all * least, `${number}: ${JSON.stringify(usage)}`);
    });
  };
  const held = {
    async 'the answers are right, as often as the card says'() {
      server = await start(cache);
      const answers = await ask_all(server, agent_of);
      expected = answers.map(text_of);
      const right = cases.map((one, i) => knows(one, expected[i]));
      const count = right.filter(Boolean).length;
      const same = known && cases.filter((one, i) => known[one.number].out === expected[i]).length;
      console.log(
        `figures ${basename(model)}: ${count} of ${cases.length} right` +
          (known ? `, ${same} word for word as the unquantised weights'` : ''),
      );
      lengths.forEach((length, i) => {
        const asked = cases.map((one, k) => [one, k]).filter(([one]) => one.length === length);
        const hits = asked.filter(([, k]) => right[k]).length;
        if (asked.length === 0) return;
        const percent = (100 * hits) / asked.length;
        console.log(`figures   ${length} tokens: ${percent.toFixed(1)} % of ${asked.length}`);
        if (asked.length === 60 && cards[name])
          assert.ok(Math.abs(percent - cards[name][i]) <= points_off, `card: ${cards[name][i]}`);
      });
      const least = least_right(name, known);
      assert.ok(count >= least, `${count} of ${cases.length}, not ${least}`);
      if (known) assert.ok(same >= cases.length * 0.6, `${same} of ${cases.length}`);
    },

    async 'the same hot'() {
      expect_same(await ask_all(server, agent_of));
    },

    async 'the same after kill -9'() {
      await server.kill();
      server = await start(cache);
      expect_same(await ask_all(server, agent_of));
      assert.ok((await server.metrics()).semantic_store_states_read_total > 0);
    },

    async 'the same forked, eight at once'() {
      for (const one of cases) {
        const fork = { agent_id: `sess_fork-${one.number}` };
        const { status, body } = await call_path(
          server,
          'POST',
          `/v1/agents/${id_of(one)}/fork`,
          fork,
        );
        assert.equal(status, 201, JSON.stringify(body));
      }
      expect_same(await ask_all(server, (one) => `fork-${one.number}`, 8));
    },

    async 'the same behind a parting between kept places'() {
      const other = await start(make_folder());
      other.ask_ms = 600_000;
      for (const one of cases)
        await other.ask(agent_of(one), first_half(one), { system: one.system, max_tokens: 1 });
      expect_same(await ask_all(other, (one) => `parted-${one.number}`), 0);
      await other.stop();
    },

    async 'the same exported and imported'() {
      const other = await start(make_folder());
      for (const one of cases) {
        const path = `/v1/agents/${id_of(one)}/cache`;
        const bytes = await (await fetch(server.url + path)).arrayBuffer();
        const imported = await fetch(other.url + path, { method: 'PUT', body: bytes });
        assert.equal(imported.status, 200, await imported.text());
      }
      expect_same(await ask_all(other, agent_of));
      await other.stop();
    },

    async 'the same swapped out and back'() {
      const registry = registry_of([
        { name: 'first', path: join(tests, '..', 'etc/models/semantic-tiny'), recipe: 'k8v8' },
        { name: 'second', path: path_of(model), recipe: 'k16v16' },
      ]);
      const all = ['--models-file', registry, '--model', 'second', '--admin-key', 'k'];
      await end();
      server = await Server.start({ cache, args: all });
      expect_same(await ask_all(server, agent_of));
      await swapped(server, 'first');
      await server.ask('somebody', [user('Who are you?')]);
      await swapped(server, 'second');
      expect_same(await ask_all(server, agent_of));
      await end();
    },

    async 'the same fetched by another node'() {
      const store = ['--object-store', `dir:${make_folder()}`, '--object-store-wait-ms', '20000'];
      await end();
      // The first has the memories already, and uploads what the store has not got.
      const nodes = [await start(cache, store), await start(make_folder(), store)];
      expect_same(await ask_all(nodes[0], agent_of));
      expect_same(await ask_all(nodes[1], agent_of));
      const samples = await nodes[1].metrics();
      assert.ok(samples.semantic_shared_agents_fetched_total >= cases.length);
      for (const node of nodes) await node.stop();
    },

    async 'ten turns with two kills say what ten turns say'() {
      await end();
      const turns = cases[0].messages.filter(({ role }) => role === 'user').slice(-2);
      const lines = [
        'My dog is called Biscuit and my cat is called Pepper.',
        'What is my dog called?',
        ...turns.map(({ content }) => content),
        'My sister lives in Lisbon.',
        'Where does my sister live?',
        'What is my cat called?',
        'I work for a bakery in Graz.',
        'Where do I work?',
        'What is my dog called?',
      ];
      assert.equal(lines.length, 10);
      const talk = async (kills) => {
        const folder = make_folder();
        const between = async (old, turn) => {
          if (!kills.includes(turn)) return old;
          await old.kill();
          return start(folder);
        };
        const { texts, server: last } = await converse(await start(folder), 'talk', lines, {
          between,
        });
        await last.stop();
        return texts;
      };
      assert.deepEqual(await talk([4, 8]), await talk([]));
    },
  };
  const chosen = Object.entries(held).filter(
    ([promise], i) => i === 0 || !ways || ways.some((word) => promise.includes(word)),
  );
  return Object.fromEntries(
    chosen.map(([promise, hold]) => [`${basename(model)}: ${promise}`, hold]),
  );
}

/** A registry's paths are no names. */
function path_of(model) {
  return model === embedded ? join(tests, '..', 'etc/models', embedded) : model;
}

const all = {};
for (const model of models) Object.assign(all, cases_of(model));
await main(all, per_length ? patience : 120_000);
