// SPDX-License-Identifier: Apache-2.0
// Nodes on one object store that tell each other through Redis which agents they are at work on: a
// second request is told to come back, or where to go, and nginx goes there by itself.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  assistant,
  endless,
  free_port,
  main,
  make_folder,
  Server,
  stored_tokens,
  text_of,
  user,
} from './harness.mjs';
import { proxy } from './nginx_front.mjs';
import { has_redis, Redis } from './redis.mjs';

if (!has_redis) {
  console.log('skipped: redis-server is not installed');
  process.exit(77);
}

const LEASE_MS = 15_000;
const redis = await Redis.start();

/** Nodes with one object store, and what becomes of a request for an agent of another's. */
async function with_nodes(count, held_elsewhere, run) {
  const store = make_folder();
  const nodes = [];
  for (let i = 0; i < count; ++i) {
    const port = await free_port();
    const args = [
      ...['--object-store', `dir:${store}`, '--redis', redis.url],
      ...['--lease-ms', String(LEASE_MS), '--node-url', `http://127.0.0.1:${port}`],
      ...['--held-elsewhere', held_elsewhere],
    ];
    nodes.push(await Server.start({ cache: make_folder(), port, args }));
  }
  await run(nodes);
  for (const node of nodes) if (!node.is_killed) assert.equal((await node.stop()).code, 0);
}

const headers = (agent) => ({ 'content-type': 'application/json', 'x-session-id': agent });

/** Begins a long answer at the node and stops the node in the middle of it. Resolves with how to go
 *  on, which resolves with the answer's text. */
async function stop_in_an_answer(node, agent, messages) {
  const body = { model: 'any', ...endless, max_tokens: 600, stream: true, messages };
  const answer = await fetch(`${node.url}/v1/messages`, {
    method: 'POST',
    headers: headers(agent),
    body: JSON.stringify(body),
  });
  assert.equal(answer.status, 200);
  const reader = answer.body.getReader();
  let text = new TextDecoder().decode((await reader.read()).value);
  node.child.kill('SIGSTOP');
  return async () => {
    node.child.kill('SIGCONT');
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(value);
    }
    const events = text.split('\n').filter((line) => line.startsWith('data: '));
    const parts = events.map((line) => JSON.parse(line.slice(6)));
    assert.ok(parts.some((part) => part.type === 'message_stop'), text.slice(-500));
    return parts.map((part) => part.delta?.text ?? '').join('');
  };
}

const dialects = {
  '/v1/messages?beta=true': { max_tokens: 8, messages: [user('Hello.')] },
  '/v1/chat/completions': { messages: [user('Hello.')] },
  '/v1/responses': { input: 'Hello.' },
};

function post(node, path, agent, body, more = {}) {
  return fetch(`${node.url}${path}`, {
    method: 'POST',
    headers: headers(agent),
    body: JSON.stringify({ model: 'any', ...body }),
    ...more,
  });
}

const lease = (samples, name) => samples[`semantic_leases_${name}`];

await main(
  {
    async 'while one node answers for an agent, clients of another are told to come back'() {
      await with_nodes(2, 'refuse', async ([a, b]) => {
        const start = [user('I am the hen.')];
        const go_on = await stop_in_an_answer(a, 'hen', start);
        for (const [path, body] of Object.entries(dialects)) {
          const refused = await post(b, path, 'hen', body);
          const text = await refused.text();
          assert.equal(refused.status, path.includes('messages') ? 529 : 503, text);
          assert.equal(refused.headers.get('retry-after'), '1');
          assert.equal(refused.headers.get('location'), null);
          assert.match(text, /another server is at work on agent sess_hen/);
        }
        await b.ask('cat', start); // another agent
        const said = await go_on();
        // As soon as the answer has ended: what is still on its way to the store is waited for.
        const more = [...start, assistant(said), user('Who am I?')];
        const answer = await b.ask('hen', more);
        assert.ok(answer.usage.cache_read_input_tokens > 100, JSON.stringify(answer.usage));
        const [of_a, of_b] = [await a.metrics(), await b.metrics()];
        assert.equal(lease(of_b, 'elsewhere_total'), 3);
        assert.ok(lease(of_a, 'taken_total') >= 1);
        assert.equal(of_a.semantic_shared_conflicts_total, 0);
        assert.equal(of_b.semantic_shared_conflicts_total, 0);
      });
    },

    async 'without waiting for uploads, too, turns at node after node lose nothing'() {
      await with_nodes(3, 'refuse', async (nodes) => {
        const messages = [];
        let before;
        for (let turn = 0; turn < 30; ++turn) {
          messages.push(user(`Turn ${turn}.`));
          const answer = await nodes[turn % 3].ask('fox', messages);
          if (before)
            assert.ok(
              answer.usage.cache_read_input_tokens >= stored_tokens(before) - 1,
              `turn ${turn}: ${JSON.stringify(answer.usage)}`,
            );
          before = answer;
          messages.push(assistant(text_of(answer)));
        }
        for (const node of nodes)
          assert.equal((await node.metrics()).semantic_shared_conflicts_total, 0);
      });
    },

    async 'with redirect, clients are told where to go, in each dialect'() {
      await with_nodes(2, 'redirect', async ([a, b]) => {
        const go_on = await stop_in_an_answer(a, 'dog', [user('I am the dog.')]);
        for (const [path, body] of Object.entries(dialects)) {
          const sent = await post(b, path, 'dog', body, { redirect: 'manual' });
          await sent.text();
          assert.equal(sent.status, 307, path);
          assert.equal(sent.headers.get('location'), a.url + path);
        }
        const followed = post(b, '/v1/chat/completions', 'dog', dialects['/v1/chat/completions']);
        await sleep(1000);
        await go_on();
        assert.equal((await followed).status, 200);
        assert.equal((await followed).url, `${a.url}/v1/chat/completions`);
      });
    },

    async 'who writes to Redis sends no client, and no key, to an address of his own'() {
      await with_nodes(2, 'redirect', async ([a, b]) => {
        const start = [user('I am the wolf.')];
        const go_on = await stop_in_an_answer(a, 'wolf', start);
        const names = await redis.command('KEYS', 'semantic:lease:*');
        const [, name] = /\r\n(semantic:lease:.*)\r\n/.exec(names);
        const own = /\$\d+\r\n(.*)\r\n\+OK/s.exec(await redis.command('GET', name))[1];
        assert.ok(own.endsWith(` ${a.url}`), own);
        const stranger = 'http://203.0.113.66:8001';
        for (const forged of [
          `${'c'.repeat(32)} ${stranger}`,
          own.replace(a.url, stranger),
          `${'c'.repeat(32)}${own.slice(32)}`,
        ]) {
          await redis.command('SET', name, forged);
          const body = { max_tokens: 4, messages: start };
          const answer = await post(b, '/v1/messages', 'wolf', body, { redirect: 'manual' });
          assert.equal(answer.status, 200, forged); // as where there is no Redis
          await answer.text();
        }
        await redis.command('SET', name, own, 'PX', '60000');
        const more = { max_tokens: 4, messages: start };
        const sent = await post(b, '/v1/messages', 'wolf', more, { redirect: 'manual' });
        assert.equal(sent.headers.get('location'), `${a.url}/v1/messages`);
        assert.match(b.output.err + b.output.out, /no server on this object store has signed/);
        await sent.text();
        await go_on();
      });
    },

    async 'nginx passes a request on to the node that is at work on its agent'() {
      await with_nodes(3, 'redirect', async (nodes) => {
        const front = await proxy(nodes, { cluster: true });
        const counts = async () =>
          Promise.all(
            nodes.map(async (node) => {
              const all = Object.entries(await node.metrics());
              const name = /^semantic_http_requests_total.*v1\/messages.*"200"/;
              return all.filter(([key]) => name.test(key)).reduce((sum, [, n]) => sum + n, 0);
            }),
          );
        const body = { max_tokens: 8, messages: [user(`Hello. ${'word '.repeat(100)}`)] };
        // The node that nginx would ask, and another one, which is at work.
        await post(front, '/v1/messages', 'hen', body);
        const home = (await counts()).findIndex((n) => n > 0);
        const other = nodes[(home + 1) % 3];
        const go_on = await stop_in_an_answer(other, 'hen', [user('I am the hen.')]);
        const large = { ...body, metadata: { note: 'x'.repeat(300_000) } };
        const passed = [body, large].map((each) => post(front, '/v1/messages', 'hen', each));
        await sleep(2000);
        await go_on();
        for (const answer of await Promise.all(passed))
          assert.equal(answer.status, 200, await answer.text());
        // A request is counted a moment after its client has the answer.
        let after = await counts();
        for (let i = 0; i < 100 && after.reduce((a, b) => a + b) < 4; ++i, await sleep(20))
          after = await counts();
        assert.equal(after[home], 1);
        assert.equal(after[(home + 1) % 3], 3);
        assert.equal(await front.stop(), 0);
      });
    },

    async 'an agent whose node was killed at work is taken over when its lease has run out'() {
      await with_nodes(2, 'refuse', async ([a, b]) => {
        const start = [user('I am the owl.')];
        const first = await a.ask('owl', start);
        const more = [...start, assistant(text_of(first)), user('Who am I?')];
        await stop_in_an_answer(a, 'owl', more);
        a.is_killed = true;
        await a.kill();
        const killed = Date.now();
        let answer;
        for (let tries = 0; !answer && tries < 60; ++tries) {
          const sent = await post(b, '/v1/messages', 'owl', { max_tokens: 8, messages: more });
          if (sent.status === 200) answer = await sent.json();
          else {
            assert.equal(sent.status, 529, await sent.text());
            await sleep(1000 * Number(sent.headers.get('retry-after')));
          }
        }
        const took = Date.now() - killed;
        console.log(`        ${took} ms after the kill`);
        assert.ok(took < LEASE_MS + 5000, `${took} ms`);
        assert.ok(answer.usage.cache_read_input_tokens >= stored_tokens(first) - 1);
      });
    },

    async 'without Redis agents go on, at once but for one wait, and with it leases are back'() {
      await with_nodes(2, 'refuse', async ([a, b]) => {
        for (const [trouble, end] of [
          [() => redis.kill(), () => redis.restart()],
          [() => redis.pause(), () => redis.go_on()],
        ]) {
          const agent = `ox-${trouble}`.length.toString();
          const start = [user('I am the ox.')];
          const first = await a.ask(agent, start);
          while ((await a.metrics()).semantic_shared_pending > 0) await sleep(20);
          await trouble();
          const more = [...start, assistant(text_of(first)), user('Who am I?')];
          const began = Date.now();
          const answer = await b.ask(agent, more);
          assert.ok(Date.now() - began < 5000);
          assert.ok(answer.usage.cache_read_input_tokens >= stored_tokens(first) - 1);
          assert.ok(lease(await b.metrics(), 'unanswered_total') >= 1);
          await end();
          await sleep(2500);
          const unanswered = lease(await b.metrics(), 'unanswered_total');
          await b.ask(agent, [...more, assistant(text_of(answer)), user('Why?')]);
          assert.equal(lease(await b.metrics(), 'unanswered_total'), unanswered);
          // What b asked for while Redis was silent is not b's for ever.
          await a.ask(agent, [...more, assistant(text_of(answer)), user('And when?')]);
        }
      });
    },
  },
  180_000,
);
await redis.kill();
