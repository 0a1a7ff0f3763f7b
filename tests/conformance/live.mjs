// SPDX-License-Identifier: Apache-2.0
// /ws of the server binary: a snapshot and what changes behind it, who may open it, who sees what,
// and how it ends.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { main, make_folder, require_sdk, Server, user } from './harness.mjs';

const { WebSocket } = require_sdk('ws');

/** A client that remembers every message; `until(f)` resolves with the first that `f` takes. */
class Watcher {
  constructor(server, { headers = {}, origin, protocol = 'semantic.v1', key, admin_key } = {}) {
    this.messages = [];
    this.waiting = new Set();
    this.socket = new WebSocket(`${server.url.replace('http', 'ws')}/ws`, protocol, {
      headers,
      origin,
    });
    this.socket.on('message', (data) => {
      const message = JSON.parse(data);
      this.messages.push(message);
      if (message.type === 'authenticate' && (key || admin_key))
        this.say({ type: 'authenticate', api_key: key, admin_key });
      for (const look of this.waiting) look();
    });
    this.ended = new Promise((resolve) => {
      this.socket.on('unexpected-response', (_, answer) => resolve({ status: answer.statusCode }));
      this.socket.on('close', (code) => resolve({ code }));
      this.socket.on('error', () => {});
    });
  }

  say(message) {
    this.socket.send(typeof message === 'string' ? message : JSON.stringify(message));
  }

  async until(takes) {
    let look;
    const found = new Promise((resolve) => {
      look = () => {
        const first = this.messages.find(takes);
        if (first) resolve(first);
      };
    });
    this.waiting.add(look);
    look();
    const late = sleep(15_000, null, { ref: false });
    const first = await Promise.race([found, this.ended, late]);
    this.waiting.delete(look);
    assert.ok(first?.type, `${takes}: not among ${JSON.stringify(this.messages).slice(0, 2000)}`);
    return first;
  }

  snapshot() {
    return this.until((message) => message.type === 'snapshot');
  }

  event(name, agent) {
    return this.until((message) => this.find(message, name, agent)).then((message) =>
      this.find(message, name, agent),
    );
  }

  find(message, name, agent) {
    return message.events?.find((each) => each.event === name && each.agent === agent);
  }

  close() {
    this.socket.terminate();
  }
}

async function ask(server, agent, content, { key, system } = {}) {
  const answer = await fetch(`${server.url}/v1/agents/${agent}/generate`, {
    method: 'POST',
    headers: key ? { 'x-api-key': key } : {},
    body: JSON.stringify({ messages: [user(content)], system, max_tokens: 8, temperature: 0 }),
  });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

const watched_by = (server, options) => new Watcher(server, options);

await main({
  async 'a watcher gets a snapshot, then each request, step, save and change as it happens'() {
    const server = await Server.start({ cache: make_folder() });
    await ask(server, 'before', 'Hello.');
    const watcher = watched_by(server);
    const first = await watcher.snapshot();
    assert.deepEqual(
      first.agents.map((agent) => agent.agent_id),
      ['before'],
    );
    assert.equal(first.model.phase, 'ready');
    assert.ok(first.gauges.pool_bytes > 0);
    await ask(server, 'ada', 'Hello.');
    for (const name of ['queued', 'admitted', 'first_token', 'finished', 'saved'])
      assert.ok((await watcher.event(name, 'ada')).at > 1e12, name);
    const step = await watcher.until((message) => message.step);
    assert.ok(step.step.steps >= 1 && step.step.took_ms > 0);
    const change = await watcher.until((message) => message.agents?.changed?.length);
    assert.equal(change.agents.changed[0].agent_id, 'ada');
    await fetch(`${server.url}/v1/agents/ada/evict`, { method: 'POST' });
    await watcher.event('evicted', 'ada');
    await fetch(`${server.url}/v1/agents/ada`, { method: 'DELETE' });
    await watcher.event('erased', 'ada');
    await watcher.until((message) => message.agents?.gone?.length);
    const numbers = watcher.messages.map((message) => message.seq).filter(Boolean);
    assert.deepEqual(
      numbers,
      numbers.map((_, i) => numbers[0] + i),
      'nothing is left out',
    );
    watcher.close();
    await server.stop();
  },

  async 'a miss shows what was remembered and what was sent, where they part'() {
    const server = await Server.start({ cache: make_folder() });
    const watcher = watched_by(server);
    await watcher.snapshot();
    await ask(server, 'ada', 'Hello.', { system: 'You are a pirate.' });
    await ask(server, 'ada', 'Hello.', { system: 'You are a nurse.' });
    const { events } = await watcher.until((message) =>
      message.events?.some((event) => event.difference),
    );
    const { miss_reason, difference } = events.find((event) => event.difference);
    assert.equal(miss_reason, 'system_changed');
    const place = difference.at_byte - difference.excerpt_from_byte;
    assert.match(difference.remembered.slice(place), /^pirate/);
    assert.match(difference.sent.slice(place), /^nurse/);
    watcher.close();
    await server.stop();
  },

  async 'pages of other origins may not open it, with keys or without'() {
    for (const args of [[], ['--api-key', 'k']]) {
      const server = await Server.start({ cache: make_folder(), args });
      const opened = (origin) => watched_by(server, { origin, key: 'k' });
      assert.deepEqual(await opened('https://evil.example').ended, { status: 403 });
      assert.deepEqual(await opened('null').ended, { status: 403 });
      for (const origin of [server.url, 'http://localhost:3000', undefined]) {
        const watcher = opened(origin);
        await watcher.snapshot();
        watcher.close();
      }
      await server.stop();
    }
  },

  async 'a key sees its own tenant, the admin key all of them but no texts'() {
    const args = ['--api-key', 'one,two', '--admin-key', 'root'];
    const server = await Server.start({ cache: make_folder(), args });
    const one = watched_by(server, { key: 'one' });
    const by_header = watched_by(server, { headers: { 'x-api-key': 'one' } });
    const two = watched_by(server, { key: 'two' });
    const admin = watched_by(server, { admin_key: 'root' });
    const all = [one, by_header, two, admin];
    for (const each of all) await each.snapshot();
    for (const system of ['You are a pirate.', 'You are a nurse.'])
      await ask(server, 'secret', 'Hello.', { key: 'one', system });
    for (const each of [one, by_header, admin])
      await each.until((message) => message.events?.some((event) => event.miss_reason));
    assert.match(JSON.stringify(one.messages), /pirate/);
    assert.doesNotMatch(JSON.stringify(admin.messages), /pirate/);
    assert.match((await admin.event('admitted', 'secret')).tenant, /^[0-9a-f]{8}$/);
    await ask(server, 'own', 'Hello.', { key: 'two' });
    await two.event('saved', 'own');
    assert.doesNotMatch(JSON.stringify(two.messages), /secret/);
    for (const each of all) each.close();
    await server.stop();
  },

  async 'wrong keys are told so and closed; one in a header is refused before it is opened'() {
    const args = ['--api-key', 'k', '--admin-key', 'root'];
    const server = await Server.start({ cache: make_folder(), args });
    for (const wrong of [{ key: 'x' }, { admin_key: 'k' }]) {
      const watcher = watched_by(server, wrong);
      assert.deepEqual(await watcher.ended, { code: 4401 });
      assert.equal(watcher.messages.at(-1).code, 'unauthorized');
    }
    const refused = watched_by(server, { headers: { authorization: 'Bearer x' } });
    assert.deepEqual(await refused.ended, { status: 401 });
    await server.stop();
  },

  async 'what breaks a rule is closed with the code that says which'() {
    const server = await Server.start({ cache: make_folder() });
    assert.equal((await fetch(`${server.url}/ws`)).status, 426);
    assert.deepEqual(await watched_by(server, { protocol: 'other.v1' }).ended, { status: 400 });
    const after = async (act) => {
      const watcher = watched_by(server);
      await watcher.snapshot();
      act(watcher);
      return (await watcher.ended).code;
    };
    assert.equal(await after((w) => w.say('x'.repeat(4097))), 1009);
    assert.equal(await after((w) => w.say('{')), 1008);
    assert.equal(await after((w) => w.socket.send(Buffer.from('{}'), { binary: true })), 1003);
    const flood = (w) => {
      for (let i = 0; i < 21; ++i) w.say({ type: 'ping' });
    };
    assert.equal(await after(flood), 1008);
    const polite = watched_by(server);
    await polite.snapshot();
    polite.say({ type: 'ping' });
    await polite.until((message) => message.type === 'pong');
    polite.close();
    await server.stop();
  },

  async 'a server that stops says goodbye, and does not wait for who does not answer'() {
    const server = await Server.start({ cache: make_folder() });
    const watcher = watched_by(server);
    const deaf = watched_by(server);
    await watcher.snapshot();
    await deaf.snapshot();
    deaf.socket.pause();
    const begun = Date.now();
    const ended = server.stop();
    assert.deepEqual(await watcher.ended, { code: 1001 });
    assert.equal((await ended).code, 0);
    assert.ok(Date.now() - begun < 8000);
    deaf.close();
  },
});
