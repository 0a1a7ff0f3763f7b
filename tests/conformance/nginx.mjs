// SPDX-License-Identifier: Apache-2.0
// nginx in front, with the file that is shipped for it: tokens come one by one, and every path is
// where it should be. Only addresses and certificates are replaced.

import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { main, make_folder, Server, user } from './harness.mjs';
import { proxy, start_slow_server } from './nginx_front.mjs';

const post = (url, path, body, headers = {}) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

const question = { model: 'any', temperature: 0, messages: [user('Tell me a long story.')] };

const server = await Server.start({ cache: make_folder() });
const front = await proxy(server);

await main({
  // Each is made only when the one before has arrived: a proxy that collects would wait for ever.
  async 'tokens come one by one through the proxy'() {
    const slow = await start_slow_server();
    const slow_front = await proxy(slow);
    const reader = (await post(slow_front.url, '/v1/messages', question)).body.getReader();
    for (let i = 0; i < 20; ++i) {
      await slow.say(`data: ${i}\n\n`);
      const { value } = await reader.read();
      assert.equal(new TextDecoder().decode(value), `data: ${i}\n\n`);
    }
    await slow.end();
    assert.ok((await reader.read()).done);
    assert.equal(await slow_front.stop(), 0);
    slow.stop();
  },

  async 'a streamed answer is whole behind the proxy'() {
    const body = { ...question, max_tokens: 200, stream: true };
    const answer = await post(front.url, '/v1/messages', body);
    assert.match(answer.headers.get('content-type'), /^text\/event-stream/);
    const text = await answer.text();
    assert.match(text, /^event: message_start\n/);
    assert.match(text, /event: message_stop\n.*\n\n$/);
  },

  async 'a plain answer and its headers pass the proxy'() {
    const answer = await post(front.url, '/v1/messages', { ...question, max_tokens: 5 });
    assert.equal(answer.status, 200);
    assert.equal((await answer.json()).usage.output_tokens, 5);
    assert.ok(Number(answer.headers.get('x-semantic-prompt-tokens')) > 0);
    assert.ok(answer.headers.get('request-id'));
  },

  async 'a client that leaves the proxy stops the work behind it'() {
    const abort = new AbortController();
    const answer = await fetch(`${front.url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...question, max_tokens: 4000, stream: true }),
      signal: abort.signal,
    });
    const reader = answer.body.getReader();
    await reader.read();
    abort.abort();
    const gone = 'semantic_clients_gone_total';
    for (let i = 0; i < 100 && !((await server.metrics())[gone] > 0); ++i) await sleep(20);
    assert.ok((await server.metrics())[gone] > 0, `${gone} does not move`);
  },

  // fetch() would not send another host than the address.
  async 'a name that the server does not know is refused, and cors-origins makes it known'() {
    const ask = (port) =>
      new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port, path: '/v1/models' };
        const headers = { host: 'semantic.example' };
        request({ ...options, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        })
          .on('error', reject)
          .end();
      });
    assert.equal(await ask(new URL(front.url).port), 421);
    const named = await Server.start({
      cache: make_folder(),
      args: ['--cors-origins', 'loopback,https://semantic.example'],
    });
    const named_front = await proxy(named);
    assert.equal(await ask(new URL(named_front.url).port), 200);
    assert.equal(await named_front.stop(), 0);
    assert.equal((await named.stop()).code, 0);
  },

  async 'what is for who works at the machine passes neither the proxy nor the server'() {
    const ask = (port, path, fields = {}, method = 'GET') =>
      new Promise((resolve, reject) => {
        const headers = { host: 'semantic.example', ...fields };
        const sent = request({ host: '127.0.0.1', port, path, method, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        });
        sent.on('upgrade', (answer, socket) => {
          socket.destroy();
          resolve(answer.statusCode);
        });
        sent.on('error', reject).end();
      });
    const upgrade = {
      upgrade: 'websocket',
      connection: 'Upgrade',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    };
    const named = await Server.start({
      cache: make_folder(),
      args: ['--cors-origins', 'loopback,https://semantic.example', '--kv-events', 'on'],
    });
    const named_front = await proxy(named);
    const closed = [
      ...['/admin/caches', '/admin/nodes', '/admin/usage', '/admin/models/current'],
      ...['/admin', '/admin/', '/debug/memory', '/debug', '/metrics', '/ws/kv-events'],
      ...['//admin/usage', '/v1/../admin/usage', '/%61dmin/usage', '/./debug/memory'],
    ];
    const front_port = new URL(named_front.url).port;
    for (const path of closed) {
      assert.equal(await ask(front_port, path), 404, path);
      assert.equal(await ask(front_port, path, {}, 'DELETE'), 404, path);
    }
    assert.equal(await ask(front_port, '/ws/kv-events', upgrade), 404);
    // A proxy whose file says nothing of these: by the name, or by what proxies add.
    const own = { host: 'localhost' };
    for (const fields of [{}, { ...own, 'x-forwarded-for': '203.0.113.1' }, { ...own, via: 'x' }]) {
      for (const path of ['/admin/usage', '/debug/memory', '/ws/kv-events', '/metrics'])
        assert.equal(await ask(named.port, path, { ...upgrade, ...fields }), 403, path);
      assert.equal(await ask(named.port, '/admin/caches', fields, 'DELETE'), 403);
    }
    assert.equal(await ask(named.port, '/admin/usage', own), 200);
    assert.equal(await ask(named.port, '/metrics', own), 200);
    assert.equal(await ask(named.port, '/ws/kv-events', { ...upgrade, ...own }), 101);
    assert.equal(await named_front.stop(), 0);
    assert.equal((await named.stop()).code, 0);
  },

  async 'a server that sends a request elsewhere sends it to one of the cluster or to nobody'() {
    const asked = [];
    const serve = (answer_one) =>
      new Promise((resolve) => {
        const made = createServer((incoming, answer) => {
          asked.push([made.address().port, incoming.headers['x-api-key']]);
          incoming.resume();
          answer_one(answer);
        });
        made.listen(0, '127.0.0.1', () => resolve(made));
      });
    let place;
    const liar = await serve((answer) => answer.writeHead(307, { location: place }).end());
    const stranger = await serve((answer) => answer.end('stolen'));
    const node = await serve((answer) => answer.end('one of us'));
    const url_of = (each) => `http://127.0.0.1:${each.address().port}`;
    const ports = [liar, node].map((each) => ({ port: each.address().port }));
    for (const options of [{}, { cluster: true }]) {
      const front = await proxy(options.cluster ? ports : ports[0], options);
      let count = 0;
      const ask = () => {
        const fields = { 'x-api-key': 'k1', 'x-session-id': `s${++count}` };
        return post(front.url, '/v1/messages', question, fields);
      };
      for (place of [
        `${url_of(stranger)}/v1/messages`,
        `http://127.0.0.1:${node.address().port}@evil.example/v1/messages`,
        `http://127.0.0.1:${node.address().port}1/v1/messages`,
        `//127.0.0.1:${stranger.address().port}/v1/messages`,
        '',
      ]) {
        asked.length = 0;
        while (!asked.some(([port]) => port === ports[0].port)) {
          const answer = await ask();
          const text = await answer.text();
          assert.notEqual(text, 'stolen');
          // The other one of the cluster answers where it is asked first.
          if (text !== 'one of us') assert.equal(answer.status, 502, text);
        }
        assert.ok(!asked.some(([port]) => port === stranger.address().port), place);
      }
      assert.equal(await front.stop(), 0);
    }
    for (const each of [liar, stranger, node]) each.close();
  },

  async 'health passes the proxy and metrics do not'() {
    for (const path of ['/health', '/health/live', '/health/ready', '/health/startup'])
      assert.equal((await fetch(front.url + path)).status, 200, path);
    assert.equal((await (await fetch(`${front.url}/health`)).json()).status, 'ok');
    for (const path of ['/metrics', '/debug/memory'])
      assert.equal((await fetch(front.url + path)).status, 404, path);
  },

  async 'the limit of the body is the same on both sides'() {
    const fits = 'x'.repeat(32 * 1024 * 1024);
    assert.equal((await post(front.url, '/v1/messages', fits)).status, 400); // read, and no JSON
    assert.equal((await post(front.url, '/v1/messages', `${fits}x`)).status, 413);
  },

  async 'both end in order'() {
    assert.equal(await front.stop(), 0);
    assert.equal((await server.stop()).code, 0);
  },
});
