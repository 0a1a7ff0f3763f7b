// SPDX-License-Identifier: Apache-2.0
// nginx in front, over TLS and HTTP/2, as browsers and SDKs reach it: tokens come one by one, a
// WebSocket is let through, a client that leaves is noticed, and several instances keep agents in
// their place.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect as connect_http2, constants } from 'node:http2';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connect_tls } from 'node:tls';

import {
  assistant,
  endless,
  far_sighted_model,
  main,
  make_folder,
  Server,
  text_of as text_of_answer,
  user,
} from './harness.mjs';
import { proxy, start_slow_server } from './nginx_front.mjs';

const authority_of = ({ folder }) => readFileSync(join(folder, 'tls.crt'));

/** An HTTP/2 client of `front` that trusts its certificate and nothing else. */
function client_of(front) {
  return connect_http2(front.url, { ca: authority_of(front) });
}

/** POSTs JSON; resolves with the status, and an iterator over the pieces of the body. */
async function post(client, path, body, headers = {}) {
  const stream = client.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/json',
    ...headers,
  });
  stream.end(JSON.stringify(body));
  const fields = await new Promise((resolve, reject) => {
    stream.on('response', resolve).on('error', reject);
  });
  return { status: fields[':status'], fields, stream };
}

async function text_of(stream) {
  let text = '';
  for await (const bytes of stream) text += bytes;
  return text;
}

/** A WebSocket to /ws of `front`: RFC 6455 as far as this needs it, so that Node is enough. */
async function open_live(front) {
  const socket = connect_tls({
    ...{ host: '127.0.0.1', port: front.port, ca: authority_of(front) },
    ALPNProtocols: ['http/1.1'],
  });
  const live = { messages: [], pings: 0, waiting: () => {} };
  let bytes = Buffer.alloc(0);
  let is_open = false;
  /** A client's frame: whole, masked with zeros. */
  const send = (opcode, payload) => {
    assert.ok(payload.length < 126);
    const head = [0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0];
    socket.write(Buffer.concat([Buffer.from(head), payload]));
  };
  const take = () => {
    if (!is_open) {
      const end = bytes.indexOf('\r\n\r\n');
      if (end < 0) return false;
      live.head = String(bytes.subarray(0, end));
      bytes = bytes.subarray(end + 4);
      return (is_open = true);
    }
    if (bytes.length < 2) return false;
    const extra = { 126: 2, 127: 8 }[bytes[1]] ?? 0;
    if (bytes.length < 2 + extra) return false;
    const size = extra === 0 ? bytes[1] : parseInt(bytes.toString('hex', 2, 2 + extra), 16);
    if (bytes.length < 2 + extra + size) return false;
    const payload = bytes.subarray(2 + extra, 2 + extra + size);
    const opcode = bytes[0] & 0x0f;
    if (opcode === 1) live.messages.push(JSON.parse(payload));
    if (opcode === 9) {
      live.pings += 1;
      send(10, payload);
    }
    bytes = bytes.subarray(2 + extra + size);
    return true;
  };
  socket.on('data', (more) => {
    bytes = Buffer.concat([bytes, more]);
    while (take());
    live.waiting();
  });
  socket.on('close', () => {
    live.is_over = true;
    live.waiting();
  });
  socket.on('error', () => {});
  live.say = (message) => send(1, Buffer.from(JSON.stringify(message)));
  live.close = () => socket.destroy();
  const until = (found) =>
    new Promise((resolve, reject) => {
      live.waiting = () => {
        if (found()) resolve(found());
        else if (live.is_over) reject(new Error('the WebSocket has ended'));
      };
      live.waiting();
    });
  live.until = (takes) => until(() => live.messages.find(takes));
  socket.write(
    'GET /ws HTTP/1.1\r\nhost: semantic.example\r\nupgrade: websocket\r\n' +
      'connection: Upgrade\r\nsec-websocket-version: 13\r\n' +
      'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n' +
      'sec-websocket-protocol: semantic.v1\r\n\r\n',
  );
  await until(() => live.head);
  assert.match(live.head, /^HTTP\/1\.1 101 /);
  return live;
}

const question = {
  model: 'any',
  temperature: 0,
  max_tokens: 200,
  messages: [user('Tell me a long story.')],
};
const server = await Server.start({ cache: make_folder(), args: ['--api-key', 'k1'] });
const front = await proxy(server, { tls: true });
const key = { 'x-api-key': 'k1' };
const silence = Number(process.env.NGINX_SILENCE_MS ?? 2000);

/** A server that says its name. */
async function start_named_server(name) {
  const upstream = createServer((incoming, answer) => {
    incoming.resume();
    answer.end(name);
  });
  await new Promise((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  return { port: upstream.address().port, stop: () => upstream.close() };
}

await main(
  {
    // Each is made only when the one before has arrived: a proxy that collects would wait for ever.
    async 'tokens come one by one through TLS and HTTP/2'() {
      const slow = await start_slow_server();
      const slow_front = await proxy(slow, { tls: true });
      const client = client_of(slow_front);
      // nginx holds the head of an HTTP/2 reply until its first bytes come.
      const begun = post(client, '/v1/messages', question);
      await slow.say('data: begun\n\n');
      const { stream } = await begun;
      const pieces = stream[Symbol.asyncIterator]();
      assert.equal(String((await pieces.next()).value), 'data: begun\n\n');
      const waits = [];
      for (let i = 0; i < 50; ++i) {
        const start = performance.now();
        await slow.say(`data: ${i}\n\n`);
        const { value } = await pieces.next();
        waits.push(performance.now() - start);
        assert.equal(String(value), `data: ${i}\n\n`);
      }
      waits.sort((a, b) => a - b);
      console.log(
        `        a token takes ${waits[25].toFixed(1)} ms through nginx, ` +
          `${waits[49].toFixed(1)} ms at most`,
      );
      await slow.end();
      client.close();
      assert.equal(await slow_front.stop(), 0);
      slow.stop();
    },

    async 'tokens of the server arrive as they are made'() {
      const client = client_of(front);
      const { status, fields, stream } = await post(
        client,
        '/v1/messages',
        { ...question, stream: true },
        key,
      );
      assert.equal(status, constants.HTTP_STATUS_OK);
      assert.match(fields['content-type'], /^text\/event-stream/);
      const times = [];
      for await (const bytes of stream) {
        for (const _ of String(bytes).matchAll(/event: content_block_delta/g))
          times.push(performance.now());
      }
      client.close();
      const gaps = times.slice(1).map((time, i) => time - times[i]);
      const pieces = 1 + gaps.filter((gap) => gap > 0.05).length;
      gaps.sort((a, b) => a - b);
      const whole = times.at(-1) - times[0];
      console.log(
        `        ${times.length} tokens in ${pieces} arrivals within ${whole.toFixed(0)} ms, ` +
          `gaps of ${gaps[gaps.length >> 1].toFixed(1)} ms (median), ` +
          `${gaps.at(-1).toFixed(1)} ms at most`,
      );
      assert.ok(times.length >= 10, `${times.length} tokens`);
      // A busy client reads several at once, so that this says no more than that they are not one.
      assert.ok(pieces > 1, `${times.length} tokens came in ${pieces} pieces`);
    },

    async 'a client that leaves stops the work behind the proxy'() {
      const client = client_of(front);
      const { stream } = await post(
        client,
        '/v1/messages',
        { ...question, ...endless, stream: true },
        key,
      );
      await stream[Symbol.asyncIterator]().next();
      const running = async () => (await server.metrics()).semantic_sequences_running;
      assert.equal(await running(), 1);
      stream.close(constants.NGHTTP2_CANCEL);
      for (let i = 0; i < 200 && (await running()) > 0; ++i) await sleep(20);
      assert.equal(await running(), 0);
      client.close();
    },

    async '/ws lives through TLS for as long as it is silent, and tells what happens behind it'() {
      const socket = await open_live(front);
      socket.say({ type: 'authenticate', api_key: 'k1' });
      await socket.until((message) => message.type === 'snapshot');
      await sleep(silence);
      const client = client_of(front);
      await text_of(
        (await post(client, '/v1/messages', question, { ...key, 'x-session-id': 'seen' })).stream,
      );
      client.close();
      const told = (message) => message.events?.some(({ event }) => event === 'finished');
      await socket.until(told);
      socket.say({ type: 'ping' });
      await socket.until((message) => message.type === 'pong');
      const heard = `${silence / 1000} s of silence and ${socket.pings} pings`;
      console.log(`        told behind ${heard}`);
      socket.close();
    },

    async 'several instances keep sessions in place, and losing one moves its share alone'() {
      const named = [];
      for (const name of ['a', 'b', 'c']) named.push(await start_named_server(name));
      const several = await proxy(named, { tls: true });
      const client = client_of(several);
      const place_of = async (session) =>
        text_of((await post(client, '/v1/messages', {}, { 'x-session-id': session })).stream);
      const before = {};
      for (let i = 0; i < 60; ++i) before[`session-${i}`] = await place_of(`session-${i}`);
      for (const [session, place] of Object.entries(before))
        assert.equal(await place_of(session), place, session);
      const used = new Set(Object.values(before));
      assert.equal(used.size, 3, 'each instance has some');
      client.close();
      assert.equal(await several.stop(), 0);
      const fewer = await proxy(named.slice(0, 2), { tls: true });
      const other = client_of(fewer);
      // The ring is of addresses: without c, those of a and b stay.
      let moved = 0;
      for (const [session, place] of Object.entries(before)) {
        const { stream } = await post(other, '/v1/messages', {}, { 'x-session-id': session });
        const now = await text_of(stream);
        if (place !== 'c' && now !== place) ++moved;
      }
      assert.equal(moved, 0, `${moved} sessions of instances that stayed have moved`);
      other.close();
      assert.equal(await fewer.stop(), 0);
      for (const each of named) each.stop();
    },

    async 'servers behind one nginx keep each its agents, which go on where they were'() {
      const two = [];
      for (let i = 0; i < 2; ++i)
        two.push(await Server.start({ cache: make_folder(), args: ['--api-key', 'k1'] }));
      const both = await proxy(two, { tls: true });
      const client = client_of(both);
      const ask = async (session, messages) => {
        const headers = { ...key, 'x-session-id': session };
        const body = { ...question, max_tokens: 8, messages };
        const answer = await post(client, '/v1/messages', body, headers);
        const text = await text_of(answer.stream);
        assert.equal(answer.status, 200, text);
        return JSON.parse(text);
      };
      const prompts = async () => {
        const samples = await Promise.all(two.map((each) => each.metrics()));
        return samples.map((each) => each.semantic_generations_submitted_total);
      };
      let count = 0;
      // Ports, and with them the ring, are others in every run.
      while (count < 12 || (count < 100 && (await prompts()).includes(0))) {
        const session = `place-${++count}`;
        const messages = [user(`Hello, I am number ${count}.`)];
        const first = await ask(session, messages);
        messages.push(assistant(text_of_answer(first)), user('Who am I?'));
        const { usage } = await ask(session, messages);
        // All of the first turn is there: its prompt, and its answer but for the last token.
        const known = first.usage.cache_creation_input_tokens + first.usage.output_tokens - 1;
        assert.ok(usage.cache_read_input_tokens >= known, `${session}: ${JSON.stringify(usage)}`);
      }
      client.close();
      const [one, other] = await prompts();
      console.log(`        ${count} sessions of two turns: ${one} and ${other} prompts`);
      assert.equal(one + other, 2 * count);
      assert.ok(one > 0 && other > 0 && one % 2 === 0, `${one} and ${other}`);
      assert.equal(await both.stop(), 0);
      for (const each of two) assert.equal((await each.stop()).code, 0);
    },

    async 'a prompt of 32K tokens passes'() {
      const far = await Server.start({
        cache: make_folder(),
        args: ['--model', far_sighted_model(), '--api-key', 'k1'],
        patience: 60_000,
      });
      const far_front = await proxy(far, { tls: true });
      const client = client_of(far_front);
      const line = 'The harbour was quiet, and the boats lay still in the morning light. ';
      const messages = [user(line.repeat(1950))];
      const count = '/v1/messages/count_tokens';
      const counted = await post(client, count, { model: 'any', messages }, key);
      const { input_tokens } = JSON.parse(await text_of(counted.stream));
      assert.ok(input_tokens > 32_000, `${input_tokens} tokens`);
      const body = { ...question, max_tokens: 1, messages };
      const answered = await post(client, '/v1/messages', body, key);
      const text = await text_of(answered.stream);
      assert.equal(answered.status, 200, text);
      console.log(`        ${input_tokens} tokens passed`);
      client.close();
      assert.equal(await far_front.stop(), 0);
      assert.equal((await far.stop()).code, 0);
    },

    async 'all end in order'() {
      assert.equal(await front.stop(), 0);
      assert.equal((await server.stop()).code, 0);
    },
  },
  480_000 + silence,
);
