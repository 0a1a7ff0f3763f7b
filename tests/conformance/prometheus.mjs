// What Prometheus and Grafana are given: promtool finds nothing wrong in the text, the alerts fire
// on what they are for, every name in them is one that the server has, and every counter moves.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
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

/** Names of counters whose samples have all stayed 0. */
function still(samples, moved) {
  for (const [sample, value] of Object.entries(samples)) if (value > 0) moved.add(sample);
  return moved;
}

const text_of_metrics = async (server) => (await fetch(`${server.url}/metrics`)).text();

// What takes a full disk, a second model, or a damage that other tests make: where it moves.
const moved_elsewhere = {
  semantic_store_agents_lost_total: 'storage_tests',
  semantic_store_blocks_missing_total: 'storage_tests',
  semantic_store_incompatible_removals_total: 'storage_tests',
  semantic_store_manifests_incompatible_total: 'storage_tests',
  semantic_store_manifests_torn_total: 'storage_tests',
  semantic_store_disk_removals_total: 'storage_tests',
  semantic_store_save_failures_total: 'storage_tests',
  semantic_store_saves_out_of_space_total: 'storage_tests',
  semantic_saves_late_total: 'engine_tests',
  semantic_early_starts_total: 'engine_tests',
  semantic_model_changes_total: 'conformance.models',
  semantic_model_wait_seconds: 'conformance.auto_swap',
};

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
      const moved = new Set();
      let server = await start(cache, ['--concurrent-requests', '2', '--max-hot-agents', '1']);
      const text = 'My dog is called Biscuit, and my cat is called Pickle. '.repeat(30);
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
      await sleep(300);
      abort.abort();
      await sleep(500);
      await fetch(`${server.url}/nowhere`);
      await post(server, '/admin/models/swap', { model_id: 'nothing' }, { headers: admin });
      still(await server.metrics(), moved);
      const text_now = await text_of_metrics(server);
      assert.equal((await server.stop()).code, 0);

      // Damage: every block and one manifest.
      for (const path of files_in(cache)) {
        if (path.includes('/blocks/') || /\.safetensors$|\.block$/.test(path)) {
          const bytes = readFileSync(path);
          bytes[bytes.length - 1] ^= 0xff;
          writeFileSync(path, bytes);
        }
      }
      const manifests = files_in(cache).filter((path) => /\/agents\//.test(path));
      if (manifests.length > 0) truncateSync(manifests[0], 20);
      server = await start(cache);
      await say(server, 'a', [text, 'I see.', 'What is my dog called?', 'Biscuit.', 'And my cat?']);
      await say(server, 'b', [text, 'I see.', 'What is my dog called?']);
      await say(server, 'c', [text, 'I see.', 'What is my dog called?']);
      still(await server.metrics(), moved);
      assert.equal((await server.stop()).code, 0);

      const counters = [...text_now.matchAll(/^# TYPE (\S+) (counter|histogram)$/gm)].map(
        ([, name]) => name,
      );
      const has_moved = (name) =>
        [...moved].some(
          (sample) =>
            sample === name ||
            sample.startsWith(`${name}{`) ||
            sample.startsWith(`${name}_count`),
        );
      const stuck = counters.filter((name) => !has_moved(name));
      const count = counters.length - stuck.length;
      console.log(`        ${count} of ${counters.length} move; not: ${stuck}`);
      assert.deepEqual(
        stuck.filter((name) => !(name in moved_elsewhere)),
        [],
      );
    },
  },
  180_000,
);
