// SPDX-License-Identifier: Apache-2.0
// The agents API against the server binary: agents that are made, asked with the new text alone,
// forked, moved to disk, exported, imported and forgotten, across kill -9; and /admin.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { main, make_folder, Server, user } from './harness.mjs';

/** One request; resolves with {status, body, headers}, the body parsed where it is JSON. */
async function call(server, method, path, body, headers = {}) {
  const binary = body instanceof Uint8Array;
  const answer = await fetch(server.url + path, {
    method,
    headers: { ...(body && !binary ? { 'content-type': 'application/json' } : {}), ...headers },
    body: body === undefined || binary ? body : JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const is_json = (answer.headers.get('content-type') ?? '').startsWith('application/json');
  const parsed = is_json ? JSON.parse(new TextDecoder().decode(bytes)) : bytes;
  return { status: answer.status, body: parsed, headers: answer.headers };
}

async function expect(status, ...request) {
  const answer = await call(...request);
  const [, method, path] = request;
  assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

const append = (line) => ({ messages: [user(line)], append: true, temperature: 0, max_tokens: 60 });
const tell = (server, agent, line) =>
  expect(200, server, 'POST', `/v1/agents/${agent}/generate`, append(line));

/** The events of a stream: [[name, data]]. */
async function stream(server, agent, body) {
  const answer = await fetch(`${server.url}/v1/agents/${agent}/generate`, {
    method: 'POST',
    body: JSON.stringify({ ...body, stream: true }),
  });
  assert.equal(answer.status, 200);
  return (await answer.text())
    .split('\n\n')
    .filter(Boolean)
    .map((event) => event.match(/^event: (.*)\ndata: (.*)$/s).slice(1))
    .map(([name, data]) => [name, JSON.parse(data)]);
}

await main({
  async 'a made agent survives kill -9, and only its new text is computed afterwards'() {
    const cache = make_folder();
    let server = await Server.start({ cache });
    await expect(201, server, 'POST', '/v1/agents', { agent_id: 'ada' });
    await server.kill();
    server = await Server.start({ cache });
    assert.equal((await expect(200, server, 'GET', '/v1/agents/ada')).tokens, 0);

    const first = await tell(server, 'ada', 'My dog is called Biscuit.');
    await server.kill();
    server = await Server.start({ cache });
    const stored = await expect(200, server, 'GET', '/v1/agents/ada');
    assert.equal(stored.tokens, first.cache_size_tokens);
    assert.equal(stored.tier, 'warm');
    const events = await stream(server, 'ada', append('What is my dog called?'));
    assert.deepEqual([...new Set(events.map(([name]) => name))], ['start', 'token', 'done']);
    const [, start] = events[0];
    assert.equal(start.semantic.reused_tokens, first.cache_size_tokens);
    assert.equal(start.semantic.restored_tokens, first.cache_size_tokens);
    assert.match(events.map(([, data]) => data.text ?? '').join(''), /Biscuit/);

    // What the listing says is what the answer said.
    const [, done] = events.at(-1);
    const { agents, total } = await expect(200, server, 'GET', '/v1/agents');
    assert.equal(total, 1);
    assert.equal(agents[0].tokens, done.cache_size_tokens);
    assert.equal(agents[0].tier, 'hot');
    assert.ok(agents[0].ram_bytes > 0 && agents[0].file_size_bytes > 0);
    assert.ok(Math.abs(agents[0].last_accessed - Date.now() / 1000) < 300);
    const listed = await expect(200, server, 'GET', '/v1/agents/list');
    assert.deepEqual(listed, { agents, total, has_more: false });
    await server.stop();
  },

  async 'forks, evictions, exports and imports all remember the same'() {
    const server = await Server.start({ cache: make_folder() });
    await expect(201, server, 'POST', '/v1/agents', { agent_id: 'a' });
    await tell(server, 'a', 'My cat is called Pickle.');
    const fork = await expect(201, server, 'POST', '/v1/agents/a/fork', { agent_id: 'b' });
    assert.equal(fork.parent_agent_id, 'a');
    assert.equal(fork.shared_bytes, fork.ram_bytes, 'a fork copies nothing');
    const warm = await expect(200, server, 'POST', '/v1/agents/a/evict');
    assert.deepEqual([warm.tier, warm.tokens, warm.dirty], ['warm', fork.tokens, false]);

    const file = await call(server, 'GET', '/v1/agents/a/cache');
    assert.equal(file.status, 200);
    const header_bytes = Number(new DataView(file.body.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(file.body.subarray(8, 8 + header_bytes)));
    assert.ok(header.layer_0_k_weights, 'it is a safetensors file');
    const taken = await expect(200, server, 'PUT', '/v1/agents/c/cache', file.body);
    assert.equal(taken.cache_size_tokens, fork.tokens);

    const answers = [];
    for (const agent of ['a', 'b', 'c']) {
      const said = await tell(server, agent, 'What is my cat called?');
      assert.ok(said.semantic.reused_tokens >= fork.tokens - 1, `${agent} was read again`);
      answers.push(said.text);
    }
    assert.match(answers[0], /Pickle/);
    assert.deepEqual(answers, [answers[0], answers[0], answers[0]]);

    file.body[file.body.length - 1] ^= 1;
    await expect(400, server, 'PUT', '/v1/agents/d/cache', file.body);
    await expect(404, server, 'GET', '/v1/agents/d');
    const stats = await expect(200, server, 'GET', '/v1/agents/stats');
    assert.equal(stats.hot_count + stats.warm_count, 3);
    assert.ok(stats.capacity.agents_of_4096_tokens > 0);
    await server.stop();
  },

  async 'a policy survives kill -9, a fork begins at an answer, and what is written is told'() {
    const cache = make_folder();
    let server = await Server.start({ cache });
    const change = (agent, body) => expect(200, server, 'POST', `/v1/agents/${agent}`, body);
    await expect(201, server, 'POST', '/v1/agents', { agent_id: 'a' });
    const first = await tell(server, 'a', 'My cat is called Pickle.');
    await tell(server, 'a', 'No, my cat is called Rex.');
    const kept = await change('a', { keep: '1h' });
    assert.deepEqual([kept.policy.keep_seconds, kept.policy.holds], [3600, true]);
    await server.kill();
    server = await Server.start({ cache });
    const again = await expect(200, server, 'GET', '/v1/agents/a');
    assert.deepEqual(again.policy, kept.policy);
    assert.equal(again.tier, 'warm');
    assert.ok(again.bytes_written.total >= kept.bytes_written.total, 'also after a restart');

    const ready = await change('a', { prefetch: true });
    assert.deepEqual([ready.tier, ready.prefetched.tokens_read], ['hot', ready.tokens]);
    const at = first.message_id;
    const fork = await expect(201, server, 'POST', '/v1/agents/a/fork', { agent_id: 'b', at });
    assert.equal(fork.forked_at, at);
    const said = await tell(server, 'b', 'What is my cat called?');
    assert.match(said.text, /Pickle/, 'what came after the answer is not known there');
    const unknown = { at: 'msg_nobody' };
    await expect(404, server, 'POST', '/v1/agents/a/fork', unknown);
    await expect(400, server, 'POST', '/v1/agents/a', { keep: 'soon' });

    const once = { ...append('Hello'), append: false, memory_policy: { drop: true } };
    await expect(200, server, 'POST', '/v1/agents/once/generate', once);
    await expect(404, server, 'GET', '/v1/agents/once');
    assert.equal((await call(server, 'POST', '/v1/agents/a', { drop: true })).status, 204);
    await expect(404, server, 'GET', '/v1/agents/a');
    await server.stop();
  },

  async 'a running agent is not deleted, and is when its answer has ended'() {
    const server = await Server.start({ cache: make_folder() });
    await expect(201, server, 'POST', '/v1/agents', { agent_id: 'r' });
    const request = { prompt: 'Once', max_tokens: 4000, stream: true, temperature: 1 };
    const abort = new AbortController();
    const answer = await fetch(`${server.url}/v1/agents/r/generate`, {
      method: 'POST',
      body: JSON.stringify({ ...request, logit_bias: { 2: -100 } }),
      signal: abort.signal,
    });
    const reader = answer.body.getReader();
    await reader.read();
    for (const path of ['/v1/agents/r', '/v1/agents/r?evict_only=true'])
      assert.match((await expect(409, server, 'DELETE', path)).error.message, /is answering/);
    abort.abort();
    while ((await call(server, 'DELETE', '/v1/agents/r')).status === 409) await sleep(20);
    await expect(404, server, 'GET', '/v1/agents/r');
    await server.stop();
  },

  async 'two models take turns in one directory, and each goes on where it was'() {
    const cache = make_folder();
    const with_bits = (bits) => Server.start({ cache, args: ['--kv-bits', bits] });
    let server = await with_bits('4');
    for (const agent_id of ['a', 'b'])
      await expect(201, server, 'POST', '/v1/agents', { agent_id });
    const first = await tell(server, 'a', 'My dog is called Biscuit.');
    await tell(server, 'b', 'My cat is called Pickle.');
    await server.stop();

    server = await with_bits('8');
    const cold = await expect(200, server, 'GET', '/v1/agents/a');
    assert.deepEqual([cold.tier, cold.tokens, cold.memories.length], ['cold', 0, 1]);
    assert.equal(cold.memories[0].loaded, false);
    assert.equal(cold.memories[0].tokens, first.cache_size_tokens);
    await expect(404, server, 'POST', '/v1/agents/a/generate', append('What is my dog called?'));
    await expect(404, server, 'POST', '/v1/agents/a/fork', {});
    await expect(404, server, 'GET', '/v1/agents/a/cache');
    await expect(409, server, 'POST', '/v1/agents', { agent_id: 'a' });
    const whole = { messages: [user('My dog is called Rex.')], temperature: 0, max_tokens: 30 };
    const said = await expect(200, server, 'POST', '/v1/agents/a/generate', whole);
    assert.equal(said.semantic.miss_reason, 'incompatible', 'the same weights in another form');
    const { agents, total } = await expect(200, server, 'GET', '/v1/agents');
    assert.equal(total, 2);
    assert.deepEqual(agents[0].memories.map((each) => each.loaded), [true, false]);
    const stats = await expect(200, server, 'GET', '/v1/agents/stats');
    assert.deepEqual([stats.total_count, stats.cold_count, stats.models.length], [2, 1, 2]);
    await server.kill();

    server = await with_bits('4');
    const again = await tell(server, 'a', 'What is my dog called?');
    assert.match(again.text, /Biscuit/);
    assert.equal(again.semantic.restored_tokens, first.cache_size_tokens);
    const other = (await expect(200, server, 'GET', '/v1/agents/a')).memories[1];
    await expect(404, server, 'DELETE', '/v1/agents/a?model=nope');
    await expect(204, server, 'DELETE', `/v1/agents/a?model=${other.fingerprint}`);
    assert.equal((await expect(200, server, 'GET', '/v1/agents/a')).memories.length, 1);
    await expect(204, server, 'DELETE', '/v1/agents/a');
    await expect(404, server, 'GET', '/v1/agents/a');
    await server.stop();

    server = await with_bits('8');
    const cleared = await expect(200, server, 'DELETE', '/admin/caches');
    assert.equal(cleared.disk_cleared, 1, 'b, which the other model alone remembers');
    assert.equal((await expect(200, server, 'GET', '/v1/agents')).total, 0);
    await server.stop();
  },

  async 'each key has agents of its own, and the admin key clears them all'() {
    const args = ['--api-key', 'one,two', '--admin-key', 's3cret'];
    const cache = make_folder();
    const server = await Server.start({ cache, args });
    const as = async (name, method, path, body) =>
      (await call(server, method, path, body, { 'x-api-key': name })).status;
    const ask = { messages: [user('My name is Ada.')], max_tokens: 8, temperature: 0 };
    for (const name of ['one', 'two'])
      assert.equal(await as(name, 'POST', '/v1/agents/a/generate', ask), 200);
    assert.equal(await as('one', 'DELETE', '/v1/agents/a'), 204);
    assert.equal(await as('one', 'GET', '/v1/agents/a'), 404);
    assert.equal(await as('two', 'GET', '/v1/agents/a'), 200);
    assert.equal(await as('two', 'DELETE', '/admin/caches'), 401);
    const cleared = await call(server, 'DELETE', '/admin/caches', undefined, {
      'x-admin-key': 's3cret',
    });
    assert.deepEqual([cleared.status, cleared.body.disk_cleared, cleared.body.kept], [200, 1, 0]);
    assert.equal(await as('two', 'GET', '/v1/agents/a'), 404);
    await server.stop();
  },
});
