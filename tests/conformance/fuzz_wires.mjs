// SPDX-License-Identifier: Apache-2.0
// Random and damaged requests with what clients of late 2026 send: no 5xx, no crash, no hang,
// memory within its plan, and every reply parses in its dialect. FUZZ_REQUESTS says how many,
// FUZZ_SEED which, FUZZ_FIRST the number of the first.

import assert from 'node:assert/strict';

import { Random } from './fuzz_bodies.mjs';
import { refusals } from './fuzz_replies.mjs';
import { wire_request } from './fuzz_wire_bodies.mjs';
import { main, make_folder, Server, slowness } from './harness.mjs';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 200);
const FIRST = Number(process.env.FUZZ_FIRST ?? 0);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const AT_ONCE = 12;
const PATIENCE_MS = 200_000 * slowness;
const MEMORY_LIMIT_MB = 1100;

const server = await Server.start({
  cache: make_folder(),
  args: [
    '--log-level', 'warning', '--save-wait-ms', '0', '--disk-budget-mb', '512',
    '--memory-limit-mb', String(MEMORY_LIMIT_MB),
  ],
}); // prettier-ignore

const dialects = {
  messages: 'anthropic', count_tokens: 'anthropic', responses: 'openai', input_tokens: 'openai',
  chat: 'openai', generate: 'native', policy: 'native', fork: 'native',
}; // prettier-ignore
const last_events = {
  messages: /^event: message_stop\n/,
  responses: /^event: response\.(completed|incomplete)\n/,
  chat: /^data: \[DONE\]$/,
  generate: /^event: done\n/,
};

/** A stream that came to its proper end: each of its events is JSON. */
function check_stream(kind, text) {
  const events = text.split('\n\n').filter((event) => event && !event.startsWith(':'));
  assert.match(events.at(-1), last_events[kind], events.at(-1));
  for (const event of events) {
    const data = event.slice(event.indexOf('data: ') + 'data: '.length);
    if (data !== '[DONE]') JSON.parse(data);
  }
}

function check_mcp({ status, text }) {
  if (status === 202) return assert.equal(text, '');
  const { jsonrpc, result, error } = JSON.parse(text);
  assert.equal(jsonrpc, '2.0');
  assert.ok(result || error.message.length > 0, text);
}

/** Ids of messages that agents were told, for forks. */
const known = [];

function check(sent, answer) {
  const { status, headers, text } = answer;
  assert.ok(status < 500, `status ${status}: ${text}`);
  if (sent.is_valid) assert.equal(status, 200, text);
  if (sent.kind === 'mcp') return check_mcp(answer);
  if (status >= 300) return refusals[dialects[sent.kind]](answer);
  if (headers['content-type']?.startsWith('text/event-stream'))
    return check_stream(sent.kind, text);
  const body = text ? JSON.parse(text) : {};
  if (sent.kind !== 'generate' || !body.message_id) return;
  known.push(body.message_id);
  if (known.length > 20) known.shift();
}

async function send({ path, headers, bytes }) {
  const answer = await fetch(`${server.url}${path}`, {
    method: 'POST',
    body: bytes,
    headers: { 'content-type': 'application/json', ...headers },
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const text = new TextDecoder('utf-8', { fatal: true }).decode(await answer.arrayBuffer());
  return { status: answer.status, headers: Object.fromEntries(answer.headers), text };
}

await main(
  {
    async 'the fields of late 2026 are taken or refused, whatever comes'() {
      const counts = {};
      let [next, mutated, longest] = [FIRST, 0, 0];
      async function worker() {
        while (next < FIRST + REQUESTS) {
          const number = next++;
          const sent = wire_request(new Random(SEED * 1_000_003 + number), known);
          const began = Date.now();
          try {
            const answer = await send(sent);
            check(sent, answer);
            const of_kind = (counts[sent.kind] ??= {});
            of_kind[answer.status] = (of_kind[answer.status] ?? 0) + 1;
          } catch (error) {
            const { bytes, ...head } = sent;
            const request = `request ${number}: ${JSON.stringify(head)}\n${bytes}\n`;
            throw new Error(request + error.message, { cause: error });
          }
          longest = Math.max(longest, Date.now() - began);
          mutated += sent.is_mutated ? 1 : 0;
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      for (const [kind, statuses] of Object.entries(counts)) {
        console.log(`        ${kind}: ${JSON.stringify(statuses)}`);
        const taken = Object.entries(statuses).filter(([status]) => status < 300);
        assert.ok(taken.length > 0 || REQUESTS < 1000, `no ${kind} was taken`);
      }
      console.log(
        `        ${REQUESTS} requests, ${mutated} of them mutated; the longest took ${longest} ms`,
      );
    },

    async 'nothing is left running, nothing went wrong inside, memory kept to its plan'() {
      const metrics = await server.metrics();
      assert.equal(metrics.semantic_sequences_running, 0);
      const peak_mb = metrics.semantic_process_resident_peak_bytes / 2 ** 20;
      console.log(`        at most ${peak_mb.toFixed(0)} MB resident of ${MEMORY_LIMIT_MB}`);
      assert.ok(peak_mb < MEMORY_LIMIT_MB, 'memory went beyond its plan');
      const { code, out, err } = await server.stop();
      assert.equal(code, 0);
      assert.doesNotMatch(out + err, /\[error\]|failed:/);
    },
  },
  3_600_000,
);
