// SPDX-License-Identifier: Apache-2.0
// Several nodes with one object store: an agent goes on at any of them, whichever has just been
// killed, and is what one node alone would have made of it.
//
// CLUSTER_STORE: the object store's URL, a directory of this test without it. CLUSTER_FAILURES:
// how many random failures (15). An S3 store is reached through a proxy of this test, which is
// silent, busy or slow on order.

import assert from 'node:assert/strict';
import { createServer, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  assistant,
  converse,
  free_port,
  main,
  make_folder,
  Server,
  stored_tokens,
  text_of,
  user,
} from './harness.mjs';
import { has_redis, Redis } from './redis.mjs';

const FAILURES = Number(process.env.CLUSTER_FAILURES ?? 15);
const STORE = process.env.CLUSTER_STORE;
const lines = [
  'My dog is called Biscuit and my cat is called Pepper.',
  'What is my dog called?',
  'And what is my cat called?',
  'Tell me a story of the two.',
  'Who is the hero of the story?',
];

/** A proxy in front of an S3 store whose connections can be made to fail. */
async function make_store_proxy(url) {
  const { hostname, port } = new URL(url.replace('s3+http', 'http'));
  const state = { trouble: 'none', delay: 0 };
  const open = new Set();
  const front = createServer((client) => {
    open.add(client);
    client.on('close', () => open.delete(client)).on('error', () => {});
    if (state.trouble === 'refuse') return client.destroy();
    if (state.trouble === 'silent') return;
    if (state.trouble === 'busy') {
      const body = '<Error><Code>SlowDown</Code></Error>';
      const head = `HTTP/1.1 503 Slow Down\r\nContent-Length: ${body.length}\r\nConnection: close`;
      client.once('data', () => client.end(`${head}\r\n\r\n${body}`));
      return;
    }
    const server = connect(port, hostname);
    open.add(server);
    const end = () => [client, server].forEach((each) => each.destroy());
    server.on('close', () => open.delete(server)).on('error', end).on('end', end);
    client.on('end', end).on('error', end);
    let left = state.trouble === 'cut' ? 2000 : Infinity;
    client.on('data', async (bytes) => {
      if (state.delay) await sleep(state.delay);
      if (!server.destroyed) server.write(bytes.subarray(0, left));
      if ((left -= bytes.length) <= 0) end();
    });
    server.on('data', (bytes) => client.destroyed || client.write(bytes));
  });
  front.on('error', () => {});
  await new Promise((resolve) => front.listen(0, '127.0.0.1', resolve));
  return {
    url: url.replace(`:${port}/`, `:${front.address().port}/`),
    /** Takes effect on what is open, too. */
    set(trouble, delay = 0) {
      Object.assign(state, { trouble, delay });
      if (trouble !== 'none') for (const each of open) each.destroy();
    },
    close() {
      front.close();
      for (const each of open) each.destroy();
    },
  };
}

let clusters = 0;

/** An object store for one case: a directory, or a prefix in the bucket behind a proxy. */
async function make_store() {
  if (!STORE) return { url: `dir:${make_folder()}`, set() {}, close() {} };
  return make_store_proxy(`${STORE}/case-${process.pid}-${(clusters += 1)}`);
}

class Node {
  cache = make_folder();
  constructor(store, more = []) {
    this.store = store;
    this.more = more;
  }
  async start() {
    this.port ??= await free_port();
    const { url } = this.store;
    const args = ['--object-store', url, '--object-store-wait-ms', '20000', ...this.more];
    this.server = await Server.start({ cache: this.cache, port: this.port, args });
    this.is_up = true;
    return this;
  }
  async restart() {
    if (this.is_up) await this.kill();
    return this.start();
  }
  async kill() {
    this.is_up = false;
    await this.server.kill();
  }
  async stop() {
    if (this.is_up) assert.equal((await this.server.stop()).code, 0);
    this.is_up = false;
  }
  ask(...args) {
    return this.server.ask(...args);
  }
}

async function with_nodes(count, run, more = []) {
  const store = await make_store();
  const nodes = await Promise.all(
    Array.from({ length: count }, () => new Node(store, more).start()),
  );
  await run(nodes, store);
  await Promise.all(nodes.map((node) => node.stop()));
  store.close();
}

/** What one server without an object store says. */
async function texts_of_one(...conversations) {
  const server = await Server.start({ cache: make_folder() });
  const all = [];
  for (const each of conversations)
    all.push((await converse(server, `one-${all.length}`, each)).texts);
  await server.stop();
  return all;
}

const shared = (samples, name) => samples[`semantic_shared_${name}`];

/** A cheap source of numbers that is the same in every run. */
function make_random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const beings = ['dog', 'cat', 'hen', 'fox'];
const stories = beings.map((_, i) =>
  beings.map((_, k) => `Story ${i}, part ${k}: what does the ${beings[(i + k) % 4]} do?`),
);
// A node asks a store that did not answer again after 2 s, and goes on from what it has until then.
const NOTICE_MS = 4000;
const store_troubles = STORE ? ['refuse', 'silent', 'busy', 'cut', 'slow'] : [];
// The nodes of the case of failures have leases, where there is a Redis to keep them.
const redis = has_redis ? await Redis.start() : undefined;
const LEASE_MS = 1500;
const leases = redis ? ['--redis', redis.url, '--lease-ms', String(LEASE_MS)] : [];

/** Begins a failure; resolves with whether the store is well, and with what ends the failure. */
async function fail(random, node, others, store, figures) {
  const what = random(3 + store_troubles.length + (redis ? 2 : 0));
  if (what < 2) {
    figures.kills += 1;
    const victim = what === 0 ? node : others[random(others.length)];
    const delay = what === 0 ? random(400) : 0;
    const over = sleep(delay).then(() => victim.is_up && victim.kill());
    if (what === 1) await over;
    return { store_is_good: true, over };
  }
  if (what === 2) {
    figures.pauses += 1;
    const { pid } = node.server.child;
    process.kill(pid, 'SIGSTOP');
    const over = sleep(100 + random(300)).then(() => process.kill(pid, 'SIGCONT'));
    return { store_is_good: true, over };
  }
  if (what >= 3 + store_troubles.length) {
    figures.redis_troubles += 1;
    const is_kill = what === 3 + store_troubles.length;
    await (is_kill ? redis.kill() : redis.pause());
    const over = sleep(random(1500)).then(() => (is_kill ? redis.restart() : redis.go_on()));
    return { store_is_good: true, over };
  }
  figures.store_troubles += 1;
  const trouble = store_troubles[what - 3];
  store.set(trouble === 'slow' ? 'none' : trouble, trouble === 'slow' ? 200 : 0);
  return { store_is_good: false, over: sleep(random(1500)).then(() => store.set('none')) };
}

async function fail_at_random(nodes, store) {
  const random = make_random(20261126);
  const expected = await texts_of_one(...stories);
  const figures = {
    failures: FAILURES,
    turns: 0,
    told_again: 0,
    kept: 0,
    read_again: 0,
    kills: 0,
    pauses: 0,
    redis_troubles: 0,
    store_troubles: 0,
  };
  const told = stories.map(() => undefined);
  let trouble_ended = 0;
  /** Asks for a story's next turn; of what was acknowledged nothing is read again. */
  const go_on = async (node, story) => {
    const prompt = [...story.messages, user(stories[story.number][story.turn])];
    const answer = await node.ask(story.name, prompt);
    const place = `story ${story.number}, turn ${story.turn}`;
    assert.equal(text_of(answer), expected[story.number][story.turn], place);
    const read = answer.usage.cache_read_input_tokens;
    figures[read >= story.acked ? 'kept' : 'read_again'] += 1;
    if (Date.now() > trouble_ended + NOTICE_MS)
      assert.ok(read >= story.acked, `${place}: ${read} of ${story.acked}`);
    if (answer.semantic.saved) story.acked = stored_tokens(answer) - 1;
    story.messages = [...prompt, assistant(text_of(answer))];
    story.turn += 1;
    figures.turns += 1;
  };
  for (let made = 0; made < FAILURES; ++made) {
    const i = random(stories.length);
    const story = (told[i] ??= {
      number: i,
      name: `story-${made}`,
      turn: 0,
      messages: [],
      acked: 0,
    });
    const node = nodes[random(nodes.length)];
    if (!node.is_up) await node.start();
    const others = nodes.filter((each) => each !== node);
    const { store_is_good, over } = await fail(random, node, others, store, figures);
    if (!store_is_good) trouble_ended = Infinity;
    for (let tries = 0; ; ++tries) {
      try {
        await go_on(node, story);
        break;
      } catch (error) {
        if (error.code === 'ERR_ASSERTION') throw error;
        // Broken off with its node, or told to come back.
        const status = error.message.match(/^status (\d+)/)?.[1];
        assert.ok(!status || ['503', '529', '429'].includes(status), error.message);
        figures.told_again += 1;
        // A lease of a node that was killed runs out.
        if (!/another server is at work/.test(error.message)) break;
        assert.ok(tries < 10, 'a lease has not run out');
        await sleep(LEASE_MS / 3);
      }
    }
    await over;
    if (!store_is_good) trouble_ended = Date.now();
    if (story.turn === stories[i].length) told[i] = undefined;
  }
  await sleep(NOTICE_MS + 100);
  for (const story of told)
    if (story) await go_on(await nodes[random(nodes.length)].restart(), story);
  for (const node of nodes) if (!node.is_up) await node.start();
  console.log(`        ${JSON.stringify(figures)}`);
  assert.ok(figures.turns > FAILURES / 3);
}

await main(
  {
    async 'an agent goes on at another node when its owner is killed, and nothing is read again'() {
      const [expected] = await texts_of_one(lines);
      await with_nodes(3, async (nodes) => {
        const messages = [];
        let before;
        for (const [turn, line] of lines.entries()) {
          const node = nodes[turn % 3];
          if (!node.is_up) await node.start();
          messages.push(user(line));
          const answer = await node.ask('dog', messages);
          assert.equal(text_of(answer), expected[turn], `turn ${turn}`);
          if (before)
            assert.ok(answer.usage.cache_read_input_tokens >= stored_tokens(before) - 1,
              `turn ${turn}: ${JSON.stringify(answer.usage)}`);
          before = answer;
          messages.push(assistant(text_of(answer)));
          await node.kill();
        }
      });
    },

    async 'a node that is behind takes up what another has added'() {
      await with_nodes(2, async ([a, b]) => {
        const messages = [];
        let before;
        for (const [turn, line] of lines.entries()) {
          messages.push(user(line));
          const answer = await (turn % 2 ? b : a).ask('dog', messages);
          if (before)
            assert.ok(answer.usage.cache_read_input_tokens >= stored_tokens(before) - 1);
          before = answer;
          messages.push(assistant(text_of(answer)));
        }
        for (const node of [a, b]) {
          const samples = await node.server.metrics();
          assert.equal(shared(samples, 'conflicts_total'), 0);
          assert.ok(shared(samples, 'agents_fetched_total') >= 2);
          assert.ok(shared(samples, 'agents_uploaded_total') >= 2);
        }
      });
    },

    async 'of two nodes that answer for one agent at once one wins, and no text is mixed'() {
      const story = [lines[0], lines[3]];
      const dog = [lines[0], lines[1]];
      const [of_story, of_dog] = await texts_of_one(story, dog);
      await with_nodes(2, async ([a, b]) => {
        const start = [user(lines[0])];
        for (let round = 0; round < 5; ++round) {
          const name = `dog-${round}`;
          const first = await a.ask(name, start);
          const go_on = (line) => [...start, assistant(text_of(first)), user(line)];
          const [x, y] = await Promise.all([
            a.ask(name, go_on(story[1])),
            b.ask(name, go_on(dog[1])),
          ]);
          assert.equal(text_of(x), of_story[1]);
          assert.equal(text_of(y), of_dog[1]);
          // Both go on, wherever they are asked.
          const after = (line, answer) => [
            ...go_on(line),
            assistant(text_of(answer)),
            user('Why?'),
          ];
          const [x2, y2] = [
            await b.ask(name, after(story[1], x)),
            await a.ask(name, after(dog[1], y)),
          ];
          for (const each of [x2, y2]) assert.ok(each.usage.cache_read_input_tokens > 0);
        }
        const sums = [0, 0];
        for (const node of [a, b]) {
          const samples = await node.server.metrics();
          sums[0] += shared(samples, 'conflicts_total');
          sums[1] += shared(samples, 'forks_total');
        }
        console.log(`        ${sums[0]} conflicts, ${sums[1]} forks in 5 rounds`);
      });
    },

    async 'an agent that is erased at one node is gone at the others'() {
      await with_nodes(2, async ([a, b]) => {
        const first = await a.ask('dog', [user(lines[0])]);
        const more = [user(lines[0]), assistant(text_of(first)), user(lines[1])];
        assert.ok((await b.ask('dog', more)).usage.cache_read_input_tokens > 0);
        const gone = await fetch(`${a.server.url}/v1/agents/sess_dog`, { method: 'DELETE' });
        assert.equal(gone.status, 204, await gone.text());
        assert.equal((await b.ask('dog', more)).usage.cache_read_input_tokens, 0);
        assert.equal(shared(await b.server.metrics(), 'erased_total'), 1);
      });
    },

    async "what a node has saved is uploaded after its next start, without its answers' waiting"() {
      if (!STORE) return console.log('        skipped: a directory is never silent');
      await with_nodes(2, async ([a, b], store) => {
        store.set('refuse');
        const first = await a.ask('dog', [user(lines[0])]);
        const more = [user(lines[0]), assistant(text_of(first)), user(lines[1])];
        await a.kill();
        await a.start(); // a directory that has agreed needs no answer
        const again = await a.ask('dog', more);
        assert.ok(again.usage.cache_read_input_tokens >= stored_tokens(first) - 1);
        store.set('none');
        for (let i = 0; i < 100; ++i, await sleep(100))
          if (shared(await a.server.metrics(), 'pending') === 0) break;
        more.push(assistant(text_of(again)), user(lines[2]));
        const there = await b.ask('dog', more);
        assert.ok(there.usage.cache_read_input_tokens >= stored_tokens(again) - 1);
      });
    },

    async 'a node ends in time while the store is silent, and uploads after its next start'() {
      if (!STORE) return console.log('        skipped: a directory is never silent');
      const grace = ['--shutdown-grace-s', '3'];
      const run = async ([a, b], store) => {
        const first = await a.ask('dog', [user(lines[0])]);
        const more = [user(lines[0]), assistant(text_of(first)), user(lines[1])];
        store.set('silent');
        // Its end waits for the upload when the server ends; it may be cut then.
        const asked = a.ask('dog', more).catch(() => undefined);
        await sleep(5000);
        const began = Date.now();
        await a.stop();
        const took = Date.now() - began;
        await asked;
        console.log(`        ${took} ms to the end`);
        assert.ok(took < 15_000, `${took} ms`);
        store.set('none');
        await a.start();
        for (let i = 0; i < 100; ++i, await sleep(100))
          if (shared(await a.server.metrics(), 'pending') === 0) break;
        const there = await b.ask('dog', more);
        assert.ok(there.usage.cache_read_input_tokens > stored_tokens(first) + 2);
      };
      await with_nodes(2, run, grace);
    },

    async 'failures cost no memory that was acknowledged, and no text is wrong'() {
      await with_nodes(3, fail_at_random, ['--request-timeout-s', '30', ...leases]);
    },
  },
  60_000 + FAILURES * 4_000,
);
