// SPDX-License-Identifier: Apache-2.0
// /ws/kv-events of the server binary: a router that has nothing but these events knows what a
// server will find of a prompt, before and behind kill -9, and is told of nobody's who may not be.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { assistant, main, make_folder, require_sdk, Server, text_of, user } from './harness.mjs';
import { start as start_swapping, swap } from './swapping.mjs';

const { WebSocket } = require_sdk('ws');

/** Follows a server, and keeps what it was told as a router would. */
class Router {
  constructor(server, headers = {}) {
    this.blocks = new Map(); // hash -> { parent, tokens, tenant, model }
    this.messages = [];
    this.socket = new WebSocket(`${server.url.replace('http', 'ws')}/ws/kv-events`, { headers });
    this.socket.on('message', (data) => this.#take(JSON.parse(data)));
    this.ended = new Promise((resolve) => {
      this.socket.on('unexpected-response', (_, answer) => resolve({ status: answer.statusCode }));
      this.socket.on('close', (code) => resolve({ code }));
      this.socket.on('error', () => {});
    });
  }

  static async follow(server, headers) {
    const router = new Router(server, headers);
    await router.until(() => router.messages.some((each) => !each.snapshot));
    return router;
  }

  #take(message) {
    assert.equal(message.seq, this.messages.length, 'no message is missing');
    this.messages.push(message);
    for (const event of message.events) {
      if (event.type === 'AllBlocksCleared') this.blocks.clear();
      if (event.type === 'BlockRemoved')
        for (const hash of event.block_hashes) assert.ok(this.blocks.delete(hash), hash);
      if (event.type !== 'BlockStored') continue;
      let parent = event.parent_block_hash;
      event.block_hashes.forEach((hash, i) => {
        assert.ok(!this.blocks.has(hash), `${hash} is told once`);
        const tokens = event.token_ids.slice(i * event.block_size, (i + 1) * event.block_size);
        assert.equal(tokens.length, event.block_size);
        this.blocks.set(hash, { parent, tokens, tenant: event.tenant, model: event.model });
        parent = hash;
      });
    }
  }

  async until(is_so) {
    for (const end = Date.now() + 20_000; !is_so(); await sleep(10))
      assert.ok(Date.now() < end, `${is_so}: ${JSON.stringify(this.messages).slice(0, 1000)}`);
  }

  /** The tokens of the longest text whose every block is there. */
  longest() {
    const length = (hash) => {
      if (hash === null) return 0;
      const block = this.blocks.get(hash);
      return block ? length(block.parent) + block.tokens.length : NaN;
    };
    return Math.max(0, ...[...this.blocks.keys()].map(length).filter((each) => each > 0));
  }

  close() {
    this.socket.close();
    return this.ended;
  }
}

const long = Array.from({ length: 60 }, (_, i) => `Row ${i} of the harbour has ${i * 7} boats.`);
const start = [user(long.join(' '))];
const on = ['--kv-events', 'on'];

await main(
  {
    async 'a router knows how much of a prompt a server will find'() {
      const cache = make_folder();
      const server = await Server.start({ cache, args: on });
      const router = await Router.follow(server);
      assert.equal(router.blocks.size, 0);
      const first = await server.ask('ada', start);
      const of_prompt = first.usage.input_tokens + (first.usage.cache_creation_input_tokens ?? 0);
      const full = 256 * Math.floor(of_prompt / 256);
      assert.ok(full >= 512, `${of_prompt} tokens`);
      await router.until(() => router.longest() >= full);
      // Another agent with the same beginning finds what the router was told, or more.
      const other = await server.ask('bea', start);
      assert.ok(other.usage.cache_read_input_tokens >= full, JSON.stringify(other.usage));
      assert.equal(router.longest(), full);

      await server.kill();
      await router.ended;
      const again = await Server.start({ cache, args: on });
      const anew = await Router.follow(again);
      assert.deepEqual(new Set(anew.blocks.keys()), new Set(router.blocks.keys()));
      const more = [...start, assistant(text_of(first)), user('Which row is the last?')];
      const next = await again.ask('ada', more);
      assert.ok(next.usage.cache_read_input_tokens >= anew.longest());

      for (const agent of ['sess_ada', 'sess_bea'])
        await fetch(`${again.url}/v1/agents/${agent}`, { method: 'DELETE' });
      await anew.until(() => anew.blocks.size === 0);
      await anew.close();
      assert.equal((await again.stop()).code, 0);
    },

    async 'tenants are told apart, and only an admin is told anything'() {
      const keys = ['--api-key', 'of-ada,of-bea', '--admin-key', 'of-the-admin'];
      const server = await Server.start({ cache: make_folder(), args: [...on, ...keys] });
      for (const headers of [{}, { 'x-api-key': 'of-ada' }, { 'x-admin-key': 'wrong' }])
        assert.deepEqual(await new Router(server, headers).ended, { status: 401 });
      const router = await Router.follow(server, { 'x-admin-key': 'of-the-admin' });
      for (const key of ['of-ada', 'of-bea']) {
        const body = { model: 'any', max_tokens: 4, messages: start };
        const answer = await fetch(`${server.url}/v1/messages`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-api-key': key, 'x-session-id': 's' },
          body: JSON.stringify(body),
        });
        assert.equal(answer.status, 200, await answer.text());
      }
      const tenants = () => new Set([...router.blocks.values()].map((block) => block.tenant));
      await router.until(() => tenants().size === 2);
      const texts = [...router.blocks.values()].map((block) => block.tokens.join());
      assert.ok(new Set(texts).size < texts.length, 'the same text has other names');
      await router.close();
      assert.equal((await server.stop()).code, 0);
    },

    async 'when another model comes, a router begins anew with what that one has'() {
      const server = await start_swapping(make_folder(), [...on, '--model', 'tight']);
      const router = await Router.follow(server, { 'x-admin-key': 'k' });
      const told = [];
      for (const model of ['tight', 'wide', 'tight']) {
        const before = router.messages.length;
        if (told.length > 0) assert.equal((await swap(server, model)).status, 200);
        if (told.length > 0)
          await router.until(() => {
            const news = router.messages.slice(before);
            const begins = news.findIndex((each) => each.events[0]?.type === 'AllBlocksCleared');
            return begins >= 0 && news.slice(begins).some((each) => !each.snapshot);
          });
        told.push([...router.blocks.keys()]);
        await server.ask('ada', start);
        await router.until(() => router.longest() >= 512);
        assert.ok([...router.blocks.values()].every((block) => block.model === model));
      }
      assert.deepEqual(told[1], [], 'the other model has nothing yet');
      assert.ok(told[2].length >= 2, 'what was there comes back with its model');
      await router.close();
      assert.equal((await server.stop()).code, 0);
    },

    async 'no more follow than may, and none where nobody may'() {
      const server = await Server.start({ cache: make_folder(), args: on });
      const routers = [];
      for (let i = 0; i < 16; ++i) routers.push(await Router.follow(server));
      assert.deepEqual(await new Router(server).ended, { status: 503 });
      await routers.pop().close();
      for (let tries = 0; ; ++tries, await sleep(20)) {
        const one = new Router(server);
        const opened = new Promise((resolve) => one.socket.on('open', () => resolve({})));
        if ((await Promise.race([opened, one.ended])).status !== 503) break;
        assert.ok(tries < 100, 'a place that was left is free');
      }
      const plain = await fetch(`${server.url}/ws/kv-events`);
      assert.equal(plain.status, 426);
      // Whoever says anything is no follower.
      routers[0].socket.send('hello');
      assert.ok((await routers[0].ended).code);
      assert.equal((await server.stop()).code, 0);
      assert.ok((await routers[1].ended).code, 'the end of the server ends it');

      const off = await Server.start({ cache: make_folder() });
      assert.deepEqual(await new Router(off).ended, { status: 404 });
      assert.equal((await off.stop()).code, 0);
    },
  },
  120_000,
);
