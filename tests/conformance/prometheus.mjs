// SPDX-License-Identifier: Apache-2.0
// What Prometheus and Grafana are given: promtool finds nothing wrong in the text, the alerts fire
// on what they are for, every name in them is one that the server has, and every counter moves.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { assistant, endless, main, make_folder, Server, user } from './harness.mjs';

const unpacked = process.env.CONFORMANCE_PROMTOOL ?? '';
const promtool = existsSync(unpacked) ? unpacked : 'promtool';
const has_promtool = !spawnSync(promtool, ['--version']).error;
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const alerts = here('../../etc/prometheus/alerts.yml');
const board = here('../../etc/grafana/semantic.json');

const admin = { 'x-admin-key': 'boss' };
const start = (cache, more = []) =>
  Server.start({ cache, args: ['--admin-key', 'boss', '--api-key', 'k1', ...more] });

function post(server, path, body, { signal, headers = {} } = {}) {
  return fetch(server.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'k1', ...headers },
    body: JSON.stringify(body),
    signal,
  });
}

async function say(server, session, texts, more = {}) {
  const messages = texts.map((text, i) => (i % 2 === 0 ? user(text) : assistant(text)));
  const answer = await post(
    server,
    '/v1/messages',
    { model: 'any', max_tokens: 8, temperature: 0, messages, ...more },
    { headers: { 'x-session-id': session } },
  );
  await answer.arrayBuffer();
  return answer.status;
}

const files_in = (folder) =>
  readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

const blocks_in = (cache) => files_in(cache).filter((path) => path.includes('/blocks/'));
const manifests_in = (cache) => files_in(cache).filter((path) => path.endsWith('.manifest'));

/** Where this manifest would be another agent's. */
const misnamed = (path) => path.replace(/[^/]{32}(?=[^/]*$)/, '0'.repeat(32));

/** How often the agent of a manifest was saved since the file is whole (storage/FORMAT.md, §6). */
function versions_in(manifest) {
  const bytes = readFileSync(manifest);
  let count = 0;
  for (let at = 24; at < bytes.length; at += 24 + Number(bytes.readBigUInt64LE(at))) ++count;
  return count;
}

const text_of_metrics = async (server) => (await fetch(`${server.url}/metrics`)).text();

/** Which counters there are, and which of them have been seen above 0, over several servers. */
class Seen {
  names = new Set();
  moved = new Set();

  async look(server) {
    const samples = await server.metrics();
    const types = (await text_of_metrics(server)).matchAll(/^# TYPE (\S+) (counter|histogram)$/gm);
    for (const [, name] of types) {
      this.names.add(name);
      const is_its = (sample) => [name, `${name}_count`].includes(sample.split('{')[0]);
      if (Object.entries(samples).some(([sample, value]) => value > 0 && is_its(sample)))
        this.moved.add(name);
    }
  }

  async end(server) {
    await this.look(server);
    assert.equal((await server.stop()).code, 0);
  }

  still() {
    return [...this.names].filter((name) => !this.moved.has(name));
  }
}

const dog = 'My dog is called Biscuit, and my cat is called Pickle. ';
const text = dog.repeat(30);
const other_text = 'The boats lay still in the harbour. '.repeat(40);

/** Requests of all kinds, on one server. */
async function work(cache, seen) {
  const server = await start(cache, ['--concurrent-requests', '2', '--max-hot-agents', '1']);
  for (const session of ['a', 'b', 'c']) await say(server, session, [text]);
  await say(server, 'a', [text, 'I see.', 'What is my dog called?']); // restored, extended
  await say(server, 'b', [`${text} Or not.`]); // parted
  await say(server, 'c', [text]); // the same again
  await say(server, 'c', [text], { system: 'Be brief.' });
  const tools = [{ name: 't', input_schema: { type: 'object' } }];
  await say(server, 'c', [text], { system: 'Be brief.', tools });
  assert.equal(await say(server, 'd', ['x'.repeat(2_000_000)]), 400);
  // Three at once, of which two may be; then they leave.
  const abort = new AbortController();
  const body = { model: 'any', ...endless, stream: true, messages: [user('Go on.')] };
  const all = await Promise.all(
    [1, 2, 3].map(() => post(server, '/v1/messages', body, { signal: abort.signal })),
  );
  assert.deepEqual(all.map(({ status }) => status).sort(), [200, 200, 429]);
  abort.abort();
  const ended = async () => (await server.metrics()).semantic_sequences_running === 0;
  while (!(await ended())) await sleep(50);
  await fetch(`${server.url}/nowhere`);
  await post(server, '/admin/models/swap', { model_id: 'nothing' }, { headers: admin });
  await seen.end(server);
}

/** A memory that is long, and read again and again until it was so slow that its prompt began. */
async function read_from_disk(cache, seen) {
  const server = await start(cache, ['--max-hot-agents', '1']);
  const early = async () => (await server.metrics()).semantic_early_starts_total > 0;
  for (let i = 0; i < 50 && !(await early()); ++i) {
    await say(server, 'long', [dog.repeat(200)]);
    await say(server, 'other', [other_text]);
  }
  await seen.end(server);
}

/** Files that are damaged, missing, cut off, or under a name that is not their own. */
async function damage(cache, seen) {
  const blocks = blocks_in(cache);
  const manifests = manifests_in(cache);
  const another_one = await start(cache);
  await say(another_one, 'gone', [other_text]);
  await seen.end(another_one);
  for (const path of blocks_in(cache)) {
    if (!blocks.includes(path)) {
      unlinkSync(path);
      continue;
    }
    const bytes = readFileSync(path);
    bytes[bytes.length - 1] ^= 0xff;
    writeFileSync(path, bytes);
  }
  const twice = manifests.find((path) => versions_in(path) > 1);
  truncateSync(twice, statSync(twice).size - 1);
  const [once, another] = manifests.filter((path) => path !== twice);
  truncateSync(once, 20);
  copyFileSync(another, misnamed(another));
  const server = await start(cache);
  await say(server, 'a', [text, 'I see.', 'What is my dog called?', 'Biscuit.', 'And my cat?']);
  for (const session of ['b', 'c']) await say(server, session, [text, 'I see.', 'And my dog?']);
  await say(server, 'gone', [other_text, 'I see.', 'And the harbour?']);
  await seen.end(server);
}

/** A disk that has no room for what an agent remembers, and a pool that has none for three. */
async function run_out_of_room(cache, seen) {
  const large = await start(cache);
  for (const session of ['a', 'b']) await say(large, session, [`${session} ${text}`]);
  await seen.end(large);
  copyFileSync(manifests_in(cache)[0], misnamed(manifests_in(cache)[0]));
  const room = ['--disk-budget-mb', '1', '--cache-budget-mb', '16', '--save-wait-ms', '100'];
  const server = await start(cache, room);
  for (const session of ['c', 'd', 'e', 'f'])
    await say(server, session, [`${session} ${dog.repeat(150)}`]);
  await seen.end(server);
}

/** Kept memories for which the pool, or the disk, has no room, and a turn over its bound. */
async function keep_more_than_fits(seen) {
  const kept = { memory_policy: { keep: '1h' } };
  const pool = await start(make_folder(), ['--cache-budget-mb', '4']);
  for (const session of ['a', 'b', 'c']) await say(pool, session, [dog.repeat(6)], kept);
  for (const count of [140, 150, 160, 170, 180]) await say(pool, 'long', [dog.repeat(count)]);
  await seen.end(pool);
  // All that is on the disk is kept: what does not fit any more takes the place of a kept memory.
  const disk = await start(make_folder(), ['--disk-budget-mb', '1', '--kept-share-percent', '100']);
  const removed = async () => (await disk.metrics()).semantic_store_kept_removals_total > 0;
  for (let i = 0; i < 40 && !(await removed()); ++i)
    await say(disk, `k${i}`, [`${i} ${dog.repeat(10)}`], kept);
  await seen.end(disk);
  const bounded = await start(make_folder(), ['--disk-writes-per-turn-mb', '1']);
  await say(bounded, 'a', [dog.repeat(200)]);
  await seen.end(bounded);
}

/** Two prompts that begin alike, at once. */
async function share_a_head(seen) {
  const server = await start(make_folder());
  const head = dog.repeat(250);
  await Promise.all(['a', 'b', 'c'].map((end) => say(server, `head-${end}`, [`${head} ${end}`])));
  await seen.end(server);
}

/** A request for another model than the one that is loaded. */
async function change_models(seen) {
  const file = join(make_folder(), 'models.yaml');
  const path = process.env.CONFORMANCE_MODEL;
  writeFileSync(
    file,
    `models:\n  - {name: wide, path: ${path}, kv-recipe: k16v16}\n` +
      `  - {name: tight, path: ${path}, kv-recipe: k8v8}\n`,
  );
  const server = await start(make_folder(), ['--models-file', file, '--auto-swap', 'on']);
  for (const model of ['wide', 'tight']) await say(server, 'a', ['Hello.'], { model });
  await seen.end(server);
}

/** Recurrent states that are read again, damaged or missing. */
async function lose_states(cache, seen) {
  const args = ['--model', here('../../etc/models/semantic-tiny-recurrent')];
  const states_in = () => files_in(cache).filter((path) => path.endsWith('.state.safetensors'));
  const first = await start(cache, args);
  await say(first, 'a', [text]);
  const damaged = states_in();
  await say(first, 'b', [other_text]);
  const missing = states_in().filter((path) => !damaged.includes(path));
  await say(first, 'c', [`${dog}${other_text}`]);
  await seen.end(first);
  for (const path of damaged) truncateSync(path, statSync(path).size - 1);
  for (const path of missing) unlinkSync(path);
  const again = await start(cache, args);
  await say(again, 'a', [text, 'I see.', 'What is my dog called?']);
  await say(again, 'b', [other_text, 'I see.', 'And the harbour?']);
  await say(again, 'c', [`${dog}${other_text}`, 'I see.', 'What is my cat called?']);
  await seen.end(again);
}

await main(
  {
    async 'promtool finds nothing wrong with the text of a server that has worked'() {
      if (!has_promtool) return console.log('        skipped: promtool is not installed');
      const server = await start(make_folder());
      await say(server, 'a', ['Hello.']);
      const checked = spawnSync(promtool, ['check', 'metrics'], {
        input: await text_of_metrics(server),
      });
      assert.equal(checked.status, 0, `${checked.stdout}${checked.stderr}`);
      assert.equal(String(checked.stderr).trim(), '');
      assert.equal((await server.stop()).code, 0);
    },

    async 'promtool takes the alerts, and each fires on what it is for'() {
      if (!has_promtool) return console.log('        skipped: promtool is not installed');
      for (const args of [
        ['check', 'rules', alerts],
        ['test', 'rules', here('alerts_test.yml')],
      ]) {
        const checked = spawnSync(promtool, args);
        assert.equal(checked.status, 0, `${checked.stdout}${checked.stderr}`);
      }
      const names = readFileSync(alerts, 'utf8').match(/(?<=- alert: )\w+/g);
      const tested = readFileSync(here('alerts_test.yml'), 'utf8');
      for (const name of names)
        assert.match(tested, new RegExp(`alertname: ${name}\\s+exp_alerts:\\s+- `), name);
    },

    async 'every name in the alerts and on the board is one of the server'() {
      const server = await start(make_folder());
      await say(server, 'a', ['Hello.']);
      const text = await text_of_metrics(server);
      const families = new Map(
        [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]),
      );
      for (const file of [alerts, board]) {
        const used = new Set(readFileSync(file, 'utf8').match(/semantic_[a-z_]+/g));
        assert.ok(used.size > 10);
        for (const name of used) {
          const family = name.replace(/_(bucket|sum|count)$/, '');
          const is_histogram = families.get(family) === 'histogram' && family !== name;
          assert.ok(families.has(name) || is_histogram, `${file}: ${name}`);
        }
      }
      const on_board = readFileSync(board, 'utf8');
      JSON.parse(on_board);
      assert.equal((await server.stop()).code, 0);
    },

    async 'every counter moves'() {
      const cache = make_folder();
      const seen = new Seen();
      await work(cache, seen);
      await read_from_disk(make_folder(), seen);
      await damage(cache, seen);
      await run_out_of_room(make_folder(), seen);
      await keep_more_than_fits(seen);
      await share_a_head(seen);
      await change_models(seen);
      await lose_states(make_folder(), seen);
      console.log(`        ${seen.moved.size} of ${seen.names.size} move`);
      assert.ok(seen.names.size > 40);
      assert.deepEqual(seen.still(), []);
    },
  },
  180_000,
);
