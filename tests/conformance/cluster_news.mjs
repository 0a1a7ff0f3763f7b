// SPDX-License-Identifier: Apache-2.0
// What nodes on one object store tell each other through Redis: who is there and how each is, which
// agents have moved on and which are erased, before anybody asks for them.

import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { assistant, free_port, main, make_folder, Server, text_of, user } from './harness.mjs';
import { has_redis, Redis } from './redis.mjs';

if (!has_redis) {
  console.log('skipped: redis-server is not installed');
  process.exit(77);
}

const redis = await Redis.start();

/** Between a node and Redis: connections that hear what is published can be made to lead nowhere,
 *  as when the other end has lost its power. */
async function make_link() {
  const deaf = new Set();
  const link = { subscribed: 0, cut: () => deaf.forEach((server) => server.pause()) };
  const front = createServer((client) => {
    const server = connect(redis.port, '127.0.0.1');
    client.on('data', (bytes) => {
      if (bytes.includes('SUBSCRIBE')) link.subscribed += 1;
      if (bytes.includes('SUBSCRIBE')) deaf.add(server);
      server.write(bytes);
    });
    server.on('data', (bytes) => client.write(bytes));
    const end = () => [client, server].forEach((each) => each.destroy());
    for (const each of [client, server]) each.on('close', end).on('error', end);
  });
  await new Promise((resolve) => front.listen(0, '127.0.0.1', resolve));
  link.url = `redis://127.0.0.1:${front.address().port}`;
  link.close = () => front.close();
  return link;
}

async function with_nodes(count, run, links = []) {
  const store = make_folder();
  const nodes = [];
  for (let i = 0; i < count; ++i) {
    const port = await free_port();
    const args = [
      ...['--object-store', `dir:${store}`, '--redis', links[i]?.url ?? redis.url],
      ...['--object-store-wait-ms', '5000', '--node-url', `http://127.0.0.1:${port}`],
    ];
    nodes.push(await Server.start({ cache: make_folder(), port, args }));
  }
  try {
    await run(nodes);
  } catch (error) {
    for (const node of nodes) await node.kill(); // the next case would hear them
    throw error;
  }
  for (const node of nodes) if (!node.is_killed) assert.equal((await node.stop()).code, 0);
}

async function soon(what, is_so, patience = 15_000) {
  for (const end = Date.now() + patience; !(await is_so()); await sleep(50))
    assert.ok(Date.now() < end, what);
}

const nodes_of = async (server) => (await (await fetch(`${server.url}/admin/nodes`)).json()).nodes;
const urls_of = async (server) => (await nodes_of(server)).map((node) => node.url);
const agents_of = async (server) => (await (await fetch(`${server.url}/v1/agents`)).json());

await main(
  {
    async 'each node knows the others, and which of them is gone'() {
      await with_nodes(3, async ([a, b, c]) => {
        await soon('all are heard', async () => (await urls_of(a)).length === 3);
        await a.ask('hen', [user('I am the hen.')]);
        await soon('b hears how a is', async () => {
          const of_a = (await nodes_of(b)).find((node) => node.url === a.url);
          return of_a?.agents_hot === 1 && of_a.phase === 'ready' && of_a.models.length === 1;
        });
        await soon('c hears both', async () => (await urls_of(c)).length === 3);
        assert.deepEqual(await urls_of(c), [c.url, ...[a.url, b.url].sort()]);
        assert.equal((await nodes_of(c))[0].self, true);
        assert.equal((await a.metrics()).semantic_other_nodes, 2);
        const before = Date.now();
        await b.stop();
        b.is_killed = true;
        await soon('who ends says so', async () => (await urls_of(a)).length === 2, 3_000);
        await c.kill();
        c.is_killed = true;
        await soon('who is killed is missed', async () => (await urls_of(a)).length === 1);
        console.log(`        ${Date.now() - before} ms until both are gone`);
        const { url, self } = (await nodes_of(a))[0];
        assert.deepEqual({ url, self }, { url: a.url, self: true });
      });
    },

    async 'an agent that has moved on leaves the pool of the node where it was, and comes back'() {
      await with_nodes(2, async ([a, b]) => {
        await soon('both are heard', async () => (await urls_of(b)).length === 2);
        const messages = [user('I am the hen.')];
        const first = await a.ask('hen', messages);
        assert.ok((await a.metrics()).semantic_pool_held_bytes > 0);
        messages.push(assistant(text_of(first)), user('Who am I?'));
        const second = await b.ask('hen', messages);
        assert.ok(second.usage.cache_read_input_tokens > 0);
        await soon('a lets go', async () => {
          const samples = await a.metrics();
          return samples.semantic_shared_evicted_total === 1;
        });
        assert.equal((await b.metrics()).semantic_shared_evicted_total, 0);
        messages.push(assistant(text_of(second)), user('And who were you?'));
        const third = await a.ask('hen', messages);
        assert.ok(third.usage.cache_read_input_tokens > second.usage.cache_read_input_tokens);
      });
    },

    async 'an agent that is erased at one node is gone at the others before they are asked'() {
      await with_nodes(2, async ([a, b]) => {
        await soon('both are heard', async () => (await urls_of(a)).length === 2);
        const first = await a.ask('hen', [user('I am the hen.')]);
        const more = [user('I am the hen.'), assistant(text_of(first)), user('Who am I?')];
        await b.ask('hen', more);
        const gone = await fetch(`${a.url}/v1/agents/sess_hen`, { method: 'DELETE' });
        assert.equal(gone.status, 204);
        await soon('b has erased it', async () =>
          !JSON.stringify(await agents_of(b)).includes('sess_hen'));
        await soon('it is counted', async () =>
          (await b.metrics()).semantic_shared_erased_total === 1);
      });
    },

    async 'a connection that leads nowhere any more is given up, and nodes hear again'() {
      const link = await make_link();
      const run = async ([a]) => {
        await soon('both are heard', async () => (await urls_of(a)).length === 2);
        assert.equal(link.subscribed, 1);
        const before = Date.now();
        link.cut();
        await soon('nobody is heard', async () => (await urls_of(a)).length === 1);
        await soon('both are heard again', async () => (await urls_of(a)).length === 2);
        assert.equal(link.subscribed, 2);
        console.log(`        ${Date.now() - before} ms until both are heard again`);
      };
      await with_nodes(2, run, [link]);
      link.close();
    },

    async 'without Redis nodes hear nothing, and go on; when it is back they hear again'() {
      await with_nodes(2, async ([a, b]) => {
        await soon('both are heard', async () => (await urls_of(a)).length === 2);
        await redis.kill();
        const first = await a.ask('hen', [user('I am the hen.')]);
        const more = [user('I am the hen.'), assistant(text_of(first)), user('Who am I?')];
        assert.ok((await b.ask('hen', more)).usage.cache_read_input_tokens > 0);
        await soon('nobody is heard', async () => (await urls_of(a)).length === 1);
        await redis.restart();
        await soon('both are heard again', async () => (await urls_of(a)).length === 2);
        await soon('and by the other', async () => (await urls_of(b)).length === 2);
      });
    },
  },
  120_000,
);
