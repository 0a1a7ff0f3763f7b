// SPDX-License-Identifier: Apache-2.0
// Hundreds of clients at once, of which many leave in the middle, beside hundreds that only hold a
// connection: nobody is refused but honestly, and nothing grows. LOAD_SECONDS=600 is the long form.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { main, make_folder, Server, user } from './harness.mjs';

const seconds = Number(process.env.LOAD_SECONDS ?? 20);
const streams = Number(process.env.LOAD_STREAMS ?? 200);
const silent = Number(process.env.LOAD_SILENT ?? 500);

// Each is a conversation of its own, which is remembered: with more of them memories would grow.
const QUESTIONS = 5;

let seed = Number(process.env.LOAD_SEED ?? 1);
/** [0, 1), the same in every run. */
function random() {
  seed = (seed * 1664525 + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

const server = await Server.start({ cache: make_folder() });
const seen = { statuses: {}, gaps: [], aborted: 0, whole: 0, dishonest: [], broken: [] };
let ends_at = Infinity;
const is_over = () => Date.now() >= ends_at;

/** One streamed answer; leaves behind `patience` events. */
async function one_stream(client, turn, patience) {
  const abort = new AbortController();
  const answer = await fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': `load-${client}` },
    body: JSON.stringify({
      ...{ model: 'any', max_tokens: 24, stream: true },
      messages: [user(`Client ${client} asks for the ${turn % QUESTIONS}th time: what is new?`)],
    }),
    signal: abort.signal,
  });
  seen.statuses[answer.status] = (seen.statuses[answer.status] ?? 0) + 1;
  if (answer.status !== 200) {
    const text = await answer.text();
    const is_honest =
      [503, 529].includes(answer.status) && Number(answer.headers.get('retry-after')) >= 1;
    if (!is_honest) seen.dishonest.push(`${answer.status} ${text}`);
    await sleep(1000 * random());
    return;
  }
  let last;
  let text = '';
  for await (const bytes of answer.body) {
    const piece = Buffer.from(bytes).toString();
    text += piece;
    if (!piece.includes('content_block_delta')) continue;
    const now = performance.now();
    if (last) seen.gaps.push(now - last);
    last = now;
    if (--patience <= 0 || is_over()) {
      seen.aborted += 1;
      abort.abort();
      return;
    }
  }
  if (text.includes('event: message_stop')) seen.whole += 1;
  else seen.broken.push(text.slice(-300));
}

async function client_loop(client) {
  for (let turn = 0; !is_over(); ++turn) {
    const patience = random() < 0.4 ? 1 + Math.floor(random() * 20) : Infinity;
    try {
      await one_stream(client, turn, patience);
    } catch (error) {
      if (error.name !== 'AbortError') seen.broken.push(String(error.cause ?? error));
    }
  }
}

/** Holds a connection: says nothing at all, or a header that never ends. Comes again if closed. */
async function silent_loop(number) {
  while (!is_over()) {
    await new Promise((resolve) => {
      const socket = connect(server.port, '127.0.0.1');
      let timer;
      socket.on('connect', () => {
        if (number % 2 === 0) return;
        socket.write('POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n');
        timer = setInterval(() => socket.write(`x-${Math.floor(random() * 1e6)}: y\r\n`), 2000);
      });
      const end = setInterval(() => is_over() && socket.destroy(), 200);
      socket.on('error', () => {});
      socket.on('close', () => {
        clearInterval(timer);
        clearInterval(end);
        resolve();
      });
      socket.resume();
    });
    await sleep(200 * random());
  }
}

const resident_mb = () =>
  /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1] / 1024;

const samples = [];
let held = 0;
async function watch() {
  while (!is_over()) {
    const now = await server.metrics();
    // The pool's pages are taken as they are used, and stay: they are no growth.
    held = Math.max(held, now.semantic_pool_held_bytes);
    samples.push({
      rss: resident_mb() - held / 2 ** 20,
      files: readdirSync(`/proc/${server.child.pid}/fd`).length,
    });
    await sleep(500);
  }
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
const median = (values) => quantile([...values].sort((a, b) => a - b), 0.5);

await main(
  {
    async 'clients are answered, or refused honestly, and nothing grows'() {
      await server.ask('warm', [user('Hello.')]);
      ends_at = Date.now() + seconds * 1000;
      await Promise.all([
        watch(),
        ...Array.from({ length: streams }, (_, i) => client_loop(i)),
        ...Array.from({ length: silent }, (_, i) => silent_loop(i)),
      ]);
      const gaps = seen.gaps.sort((a, b) => a - b);
      const p99 = quantile(gaps, 0.99);
      const third = Math.floor(samples.length / 3);
      const [middle, last] = [samples.slice(third, 2 * third), samples.slice(2 * third)];
      const rss = [middle, last].map((part) => median(part.map((each) => each.rss)));
      const files = [middle, last].map((part) => Math.max(...part.map((each) => each.files)));
      console.log(
        `        ${seconds} s, ${streams} streams, ${silent} silent: ` +
          `statuses ${JSON.stringify(seen.statuses)}, ${seen.whole} whole, ${seen.aborted} left; ` +
          `between tokens ${quantile(gaps, 0.5).toFixed(0)} ms median, ${p99.toFixed(0)} ms p99; ` +
          `RSS beside the pool ${rss.map((x) => x.toFixed(0))} MiB, files ${files}`,
      );
      assert.deepEqual(seen.dishonest.slice(0, 3), []);
      assert.deepEqual(seen.broken.slice(0, 3), []);
      assert.ok(seen.whole > streams / 4 && seen.aborted > 0, 'too little was tried');
      assert.ok(p99 < 3000, `${p99} ms between tokens`);
      assert.ok(rss[1] < rss[0] * 1.1 + 16, `RSS grows: ${rss} MiB`);
      assert.ok(files[1] < files[0] * 1.1 + 50, `descriptors grow: ${files}`);
    },

    async 'all that was held is given back'() {
      let now;
      for (let i = 0; i < 100; ++i) {
        now = await server.metrics();
        if (now.semantic_open_connections <= 5 && now.semantic_sequences_running === 0) break;
        await sleep(200);
      }
      assert.ok(now.semantic_open_connections <= 5, `${now.semantic_open_connections} connections`);
      assert.equal(now.semantic_sequences_running, 0);
      assert.equal(now.semantic_sequences_waiting, 0);
      assert.equal((await server.ask('after', [user('Hello.')])).role, 'assistant');
      assert.equal((await server.stop()).code, 0);
    },
  },
  (seconds + 120) * 1000,
);
