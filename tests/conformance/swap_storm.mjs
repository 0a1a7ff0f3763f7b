// SPDX-License-Identifier: Apache-2.0
// One model takes the other's place again and again while sixteen clients stream, and something
// goes wrong in each phase: a file that is missing, a tensor that is cut, memory that is refused, a
// disk that is full. Each request ends, each agent goes on where it was, and nothing piles up.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

import { assistant, endless, main, make_folder, Server, text_of, user } from './harness.mjs';
import { models_file, process_of, start, stream, swap, swapped, tiny } from './swapping.mjs';

// A model's file or folder; its answers are waited for longer where it is larger.
const MODEL = process.env.STORM_MODEL ?? tiny;
const SLOWER = Number(process.env.STORM_SLOWER ?? 1);
const SWAPS = Number(process.env.STORM_SWAPS ?? 100);
const ROUNDS = 3; // of swaps, at most
const STREAMS = 16;
const lines = ['My dog is called Biscuit.', 'I live in Perth.', 'What is my dog called?'];
const forms = { wide: 'k16v16', tight: 'k8v8' };

function limit(server, what) {
  const { status, stderr } = spawnSync('prlimit', ['--pid', `${server.child.pid}`, what]);
  assert.equal(status, 0, `prlimit ${what}: ${stderr}`);
}

/** What goes wrong, and what the swap says of it. Each leaves the model that runs. */
const faults = {
  async 'missing file'(server) {
    return [await swap(server, 'missing'), 409, /nowhere/];
  },
  async 'truncated tensor'(server) {
    return [await swap(server, 'torn'), 500, /torn is not loaded: /];
  },
  async 'no memory'(server) {
    const { size } = process_of(server);
    limit(server, `--as=${(size + 2 ** 20) * 1024}:unlimited`);
    const refused = await swap(server, 'huge');
    limit(server, '--as=unlimited:unlimited');
    return [refused, [409, 500], /memory|pool/];
  },
  async 'full disk'(server, other) {
    // Something to save is needed for it to fail.
    limit(server, '--fsize=1:unlimited');
    const one = stream(server, 'fault', `Remember ${Math.random()}.`, { max_tokens: 200 });
    await sleep(40);
    const refused = await swap(server, other);
    await one;
    limit(server, '--fsize=unlimited:unlimited');
    return [refused, [200, 500], /could not be saved|success/];
  },
};

/** Three turns of a keeper's conversation, as one server with one model has them. */
async function reference(form, session, turns) {
  const server = await Server.start({
    cache: make_folder(),
    args: ['--model', MODEL, '--kv-recipe', form],
  });
  const answers = await say(server, session, turns);
  await server.stop();
  return answers;
}

async function say(server, session, turns, messages = []) {
  const answers = [];
  for (const line of turns) {
    messages.push(user(line));
    const answer = await server.ask(session, messages);
    answers.push({ text: text_of(answer), read: answer.usage.cache_read_input_tokens });
    messages.push(assistant(answers.at(-1).text));
  }
  return answers;
}

/** Begins a swap; resolves as soon as it is told of `phase`, with what follows. */
async function swap_seen_in(server, model_id, phase) {
  const answer = await fetch(`${server.url}/admin/models/swap`, {
    method: 'POST',
    headers: { 'x-admin-key': 'k' },
    body: JSON.stringify({ model_id, timeout_seconds: 1, stream: true }),
    signal: AbortSignal.timeout(60_000),
  });
  const reader = answer.body.getReader();
  let text = '';
  while (!text.includes(`"phase":"${phase}"`)) {
    const { done, value } = await reader.read();
    if (done) break;
    text += Buffer.from(value).toString();
  }
  return { was_seen: text.includes(`"phase":"${phase}"`), rest: reader.cancel() };
}

class Storm {
  ends = { answered: 0, refused: 0, cut: 0 };
  going = true;
  longest = 0;

  constructor(server) {
    this.server = server;
    this.clients = Array.from({ length: STREAMS }, (_, number) => this.client(number));
  }
  async client(number) {
    for (let turn = 0; this.going; ++turn) {
      const asked_at = Date.now();
      // One does not end by itself: it is cut when its model goes.
      const more = number === 0 ? { ...endless, max_tokens: 2000 } : {};
      const what = `Tell me of ${number} and ${turn % 7}.`;
      const end = await stream(this.server, `s${number}`, what, more);
      this.longest = Math.max(this.longest, Date.now() - asked_at);
      this.ends[end] += 1;
      await sleep(end === 'answered' ? Math.random() * 100 : number === 0 ? 1000 : 50);
    }
  }
  async end() {
    this.going = false;
    await Promise.all(this.clients);
  }
}

/** What the process takes when wide was just loaded, and all its clients have left: the least of
 *  some looks, since what a swap leaves free and held in the heaps differs by a few hundred KiB. */
async function at_rest(server) {
  for (let i = 0; i < 200; ++i) {
    if ((await server.metrics()).semantic_open_connections <= 1) break;
    await sleep(100);
  }
  const looks = [];
  for (let i = 0; i < 5; ++i) {
    await swapped(server, 'tight');
    await swapped(server, 'wide');
    await sleep(100); // the thread that has swapped ends
    looks.push(process_of(server));
  }
  return looks.reduce((least, each) => (each.rss < least.rss ? each : least));
}

/** Swaps there and back under a storm of streams, every fifth after a fault. Adds what happened to
 *  `seen`. */
async function swap_under_streams(server, seen) {
  const storm = new Storm(server);
  for (let i = 0; i < SWAPS; ++i) {
    await sleep(Math.random() * 200);
    const other = i % 2 === 0 ? 'tight' : 'wide';
    if (i % 5 === 4) {
      const name = Object.keys(faults)[Math.floor(i / 5) % 4];
      const [{ status, text }, wanted, why] = await faults[name](server, other);
      assert.ok([wanted].flat().includes(status), `${name}: ${status} ${text}`);
      assert.match(text, why, name);
      seen.injected[name] = (seen.injected[name] ?? 0) + (status === 200 ? 0 : 1);
    }
    const asked_at = Date.now();
    await swapped(server, other);
    seen.took.push(Date.now() - asked_at);
  }
  await storm.end();
  seen.longest = Math.max(seen.longest, storm.longest);
  for (const [end, count] of Object.entries(storm.ends))
    seen.ends[end] = (seen.ends[end] ?? 0) + count;
}

await main({
  async 'swaps under sixteen streams, with faults in each phase, lose and leave nothing'() {
    const server = await start(make_folder(), [], models_file(MODEL));
    const told = { wide: [], tight: [] };
    const expected = {};
    for (const [model, form] of Object.entries(forms)) {
      expected[model] = await reference(form, 'keeper', lines);
      await swapped(server, model);
      const first = await say(server, 'keeper', lines.slice(0, 2), told[model]);
      assert.deepEqual(first, expected[model].slice(0, 2), model);
    }
    const warm_up = new Storm(server);
    for (let i = 0; i < 40; ++i) {
      await sleep(Math.random() * 200);
      await swapped(server, i % 2 === 0 ? 'tight' : 'wide');
    }
    // What is used for the first time takes its part of the memory once.
    for (const fault of Object.values(faults)) await fault(server, 'tight');
    await warm_up.end();
    const before = await at_rest(server);

    // What swaps leave behind grows with every round. What the heaps hold at one time and not at
    // another differs by some per cent, and does not: one round that adds nothing is enough.
    const seen = { ends: {}, injected: {}, took: [], longest: 0 };
    let most = before.rss;
    let after;
    for (let round = 0; round < ROUNDS; ++round) {
      most = Math.max(most, after?.rss ?? 0);
      await swap_under_streams(server, seen);
      after = await at_rest(server);
      if (after.rss <= most * 1.02) break;
    }
    seen.took.sort((a, b) => a - b);
    const { ends, injected, took, longest } = seen;
    const swap_ms = { median: took[took.length >> 1], longest: took.at(-1) };
    console.log(`        ${JSON.stringify({ ends, longest, injected, swap_ms, before, after })}`);

    assert.ok(ends.answered > SWAPS / SLOWER, JSON.stringify(ends));
    assert.ok(longest < 10_000 * SLOWER, `a request took ${longest} ms`);
    for (const name of Object.keys(faults)) assert.ok(injected[name] > 0 || SWAPS < 40, name);
    assert.equal(after.files, before.files);
    assert.equal(after.threads, before.threads);
    const memory = `${before.rss} KiB, then at most ${most}, now ${after.rss}`;
    assert.ok(after.rss <= most * 1.02, memory);

    for (const model of Object.keys(forms)) {
      await swapped(server, model);
      const [third] = await say(server, 'keeper', lines.slice(2), told[model]);
      assert.deepEqual(third, expected[model][2], model);
    }
    const { code, err } = await server.stop();
    assert.equal(code, 0, err);
  },

  async 'kill -9 at any moment of a storm loses nothing that was told'() {
    const cache = make_folder();
    const told = [user(lines[0])];
    for (let i = 0; i < 8; ++i) {
      const server = await start(cache);
      const answer = await server.ask('keeper', told);
      assert.ok(i === 0 || answer.usage.cache_read_input_tokens > 0, `start ${i}`);
      const clients = Array.from({ length: STREAMS }, (_, number) =>
        stream(server, `s${number}`, `Tell me of ${number}.`).catch(() => 'gone'),
      );
      const other = swap(server, 'tight').catch(() => 'gone');
      await sleep(Math.random() * 1200);
      await server.kill();
      await Promise.all([...clients, other]);
    }
  },

  async 'SIGTERM at any moment of a storm ends the server in time'() {
    const cache = make_folder();
    const late = {};
    for (const wait of [0, 100, 300, 600, 1000, 1050, 1100, 1200]) {
      const server = await start(cache, ['--shutdown-grace-s', '1']);
      const clients = Array.from({ length: STREAMS }, (_, number) =>
        stream(server, `s${number}`, `Tell me of ${number}.`, endless).catch(() => 'gone'),
      );
      const other = swap(server, 'tight').catch(() => 'gone');
      await sleep(wait);
      const phase = await (await fetch(`${server.url}/health/ready`)).text();
      const asked_at = Date.now();
      const { code, signal, err } = await server.stop();
      assert.deepEqual({ code, signal }, { code: 0, signal: null }, err);
      const took = Date.now() - asked_at;
      const name = JSON.parse(phase).phase ?? 'ready';
      late[name] = Math.max(late[name] ?? 0, took);
      assert.ok(took < 6000, `after ${wait} ms in ${phase}: ${took} ms`);
      await Promise.all([...clients, other]);
    }
    console.log(`        ms to the end, by phase: ${JSON.stringify(late)}`);
  },

  async 'SIGTERM in each phase that a swap tells of ends the server in time'() {
    const cache = make_folder();
    const took = {};
    for (const phase of ['draining', 'saving', 'releasing', 'loading', 'verifying', 'ready']) {
      const server = await start(cache, ['--shutdown-grace-s', '1']);
      const clients = Array.from({ length: STREAMS }, (_, number) =>
        stream(server, `s${number}`, `Tell me of ${number}.`, endless).catch(() => 'gone'),
      );
      await sleep(200);
      const { was_seen, rest } = await swap_seen_in(server, 'tight', phase);
      assert.ok(was_seen, phase);
      const asked_at = Date.now();
      const { code, signal, err } = await server.stop();
      assert.deepEqual({ code, signal }, { code: 0, signal: null }, err);
      took[phase] = Date.now() - asked_at;
      assert.ok(took[phase] < 6000, `${phase}: ${took[phase]} ms`);
      await Promise.all([...clients, rest.catch(() => {})]);
    }
    console.log(`        ms to the end, by phase: ${JSON.stringify(took)}`);
  },
}, 320_000 * SLOWER);
