// SPDX-License-Identifier: Apache-2.0
// One client sends everything that has ever cost a server dearly while others have their answers
// streamed: theirs go on as if it was not there, memory stays within its plan, and the server ends
// within its grace at any moment of it. HOSTILE_SECONDS=600 HOSTILE_STREAMS=200 is the long form.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { main, make_folder, Server, user } from './harness.mjs';
import { start_hostile } from './hostile_client.mjs';
import { HOSTILE_NAMES } from './hostile_requests.mjs';

const seconds = Number(process.env.HOSTILE_SECONDS ?? 40);
const streams = Number(process.env.HOSTILE_STREAMS ?? 24);
const rounds = Number(process.env.HOSTILE_ROUNDS ?? 2); // each on a server of its own
const chosen = process.env.HOSTILE_ONLY; // a part of the names, to look for one culprit
const is_long = seconds >= 300;

const MEMORY_LIMIT_MB = 1100;
const GRACE_S = 5;
// The long form holds the server to its goal. Few streams have short gaps on a quiet machine, and
// any request is long next to them: the short form holds it to what no reader takes for a stop.
const gap_max = (quiet_ms) => (is_long ? quiet_ms * 1.5 : 1000);

let seed = Number(process.env.HOSTILE_SEED ?? 1);
/** [0, 1), the same in every run. */
function random() {
  seed = (seed * 1664525 + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
/** The most memory that the server has had; nothing once it has ended. */
function peak_mb(server) {
  try {
    const status = readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
    return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

const BENIGN = 'benign-00000000000000';
const HOSTILE = 'hostile-0000000000000';
const total = { quiet: [], beside: [], statuses: {}, hostile: {}, peaks: [], stops: [] };

/** One streamed answer of a client that means well. */
async function one_stream(server, client, turn, gaps) {
  const answer = await fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': BENIGN, 'x-session-id': `benign-${client}` },
    body: JSON.stringify({
      ...{ model: 'any', max_tokens: 24, stream: true },
      messages: [user(`Client ${client} asks for the ${turn % 5}th time: what is new?`)],
    }),
  });
  total.statuses[answer.status] = (total.statuses[answer.status] ?? 0) + 1;
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
  let last;
  let text = '';
  for await (const bytes of answer.body) {
    const piece = Buffer.from(bytes).toString();
    text += piece;
    if (!piece.includes('content_block_delta')) continue;
    const now = performance.now();
    if (last) gaps().push(now - last);
    last = now;
  }
  if (!text.includes('event: message_stop')) throw new Error(`cut off: ${text.slice(-300)}`);
}

/** One round: a time without the hostile client, a time with it, and SIGTERM in the middle. */
async function one_round(ms) {
  const server = await Server.start({
    cache: make_folder(),
    args: ['--api-key', `${BENIGN},${HOSTILE}`, '--memory-limit-mb', String(MEMORY_LIMIT_MB)]
      .concat(['--shutdown-grace-s', String(GRACE_S), '--max-queued', String(streams * 2)])
      .concat(['--disk-budget-mb', '600']),
  });
  let gaps = total.quiet;
  let is_over = false;
  const broken = [];
  const worst = new Map();

  async function benign(client) {
    for (let turn = 0; !is_over; ++turn) {
      try {
        await one_stream(server, client, turn, () => gaps);
      } catch (error) {
        if (!is_over) broken.push(String(error.cause ?? error));
        return;
      }
    }
  }

  const names = HOSTILE_NAMES.filter((name) => !chosen || name.includes(chosen));
  function told({ name, status, ms }) {
    if (is_over) return;
    total.hostile[status] = (total.hostile[status] ?? 0) + 1;
    const seen = worst.get(name) ?? { ms: 0, count: 0 };
    worst.set(name, { ms: Math.max(seen.ms, ms), count: seen.count + 1, status });
  }

  const crowd = Array.from({ length: streams }, (_, i) => benign(i));
  await sleep(3000 + ms * 0.3);
  gaps = total.beside;
  const hostile = start_hostile({ server, key: HOSTILE, names, seed: random() * 2 ** 32, told });
  await sleep(ms * 0.7 * (0.8 + 0.2 * random()));
  assert.equal(server.child.exitCode, null, `the server ended: ${server.output.err.slice(-500)}`);
  total.peaks.push(peak_mb(server));
  is_over = true;
  const start = performance.now();
  const ended = await server.stop();
  total.stops.push(performance.now() - start);
  await hostile.stop();
  await Promise.allSettled(crowd);
  const costly = [...worst].sort((a, b) => b[1].ms - a[1].ms).slice(0, is_long ? 40 : 6);
  for (const [name, { ms, count, status }] of costly)
    console.log(`        ${name}: ${count} times, last ${status}, at most ${ms.toFixed(0)} ms`);
  assert.deepEqual(broken.slice(0, 3), []);
  assert.equal(ended.code, 0, ended.err.slice(-500));
}

await main(
  {
    async 'others stream on beside a hostile client, and nothing grows beyond its plan'() {
      for (let i = 0; i < rounds; ++i) await one_round((seconds * 1000) / rounds);
      const quiet = total.quiet.sort((a, b) => a - b);
      const beside = total.beside.sort((a, b) => a - b);
      const [p99, p99_quiet] = [quantile(beside, 0.99), quantile(quiet, 0.99)];
      console.log(
        `        ${seconds} s, ${streams} streams: statuses ${JSON.stringify(total.statuses)}, ` +
          `the hostile client's ${JSON.stringify(total.hostile)}; between tokens p99 ` +
          `${p99_quiet.toFixed(0)} ms without and ${p99.toFixed(0)} ms with it (${quiet.length}, ` +
          `${beside.length} gaps); peak ${total.peaks.map((x) => x.toFixed(0))} MiB of ` +
          `${MEMORY_LIMIT_MB}; SIGTERM to the end ${total.stops.map((x) => x.toFixed(0))} ms`,
      );
      assert.deepEqual(Object.keys(total.statuses), ['200']);
      assert.ok(beside.length > streams * 20, 'too little was answered');
      assert.ok(Math.max(...total.peaks) < MEMORY_LIMIT_MB, 'memory went beyond its plan');
      assert.ok(Math.max(...total.stops) < GRACE_S * 1000 + 1000, 'SIGTERM took too long');
      assert.ok(p99 < gap_max(p99_quiet), `${p99} ms between tokens, ${p99_quiet} before`);
    },
  },
  (seconds + 180) * 1000,
);
