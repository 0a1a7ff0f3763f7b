// SPDX-License-Identifier: Apache-2.0
// A server whose memory is bounded never takes more: with its pool full, the longest prompt, and as
// many answers at once as run together. MEMORY_GROUP names a control group's folder that this test
// may use: there the kernel ends who takes more.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { launch, main, make_folder, Server, text_of, user } from './harness.mjs';

const MODEL = process.env.MEMORY_MODEL ?? process.env.CONFORMANCE_MODEL;
const LIMIT_MB = Number(process.env.MEMORY_LIMIT_MB ?? 800);
const GROUP = process.env.MEMORY_GROUP;
const PATIENCE = Number(process.env.MEMORY_PATIENCE ?? 120_000);
const BATCH = 16;

const words = (count, what) =>
  Array.from({ length: count }, (_, i) => `${what}${(i * 7919) % 977}`).join(' ');

const ask = async (server, session, content, more = {}) => {
  const answer = await fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-session-id': session },
    body: JSON.stringify({
      model: 'any',
      max_tokens: 24,
      temperature: 0,
      messages: [user(content)],
      ...more,
    }),
    signal: AbortSignal.timeout(PATIENCE),
  });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
};

const memory = async (server) => (await fetch(`${server.url}/debug/memory`)).json();

/** The most that the process has had in RAM; a group says so of all that is in it. */
function peak_bytes(server) {
  const status = readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
  return Number(status.match(/VmHWM:\s+(\d+)/)[1]) * 1024;
}

function bound_group() {
  const unified = existsSync(join(GROUP, 'memory.max'));
  const file = unified ? 'memory.max' : 'memory.limit_in_bytes';
  writeFileSync(join(GROUP, file), String(LIMIT_MB * 2 ** 20));
}

const args_of = (more = []) => [
  ...['--model', MODEL, '--kv-recipe', 'k16v16', '--cache-budget-mb', '0'],
  ...(GROUP ? [] : ['--memory-limit-mb', String(LIMIT_MB)]),
  ...more,
];

await main({
  async 'a full pool, the longest prompt and a full batch stay below the limit'() {
    if (GROUP) bound_group();
    const first = GROUP ? `echo $$ > ${GROUP}/cgroup.procs` : undefined;
    const server = await Server.start({ cache: make_folder(), args: args_of(), first });
    const planned = await memory(server);
    assert.ok(planned.limit_bytes <= LIMIT_MB * 2 ** 20, JSON.stringify(planned));
    assert.match(planned.limit, GROUP ? /control group/ : /memory-limit-mb/);
    const { data } = await (await fetch(`${server.url}/v1/models`)).json();
    const pool_tokens = planned.pool_bytes / data[0].kv_bytes_per_token;
    const longest = Math.min(data[0].context_length, pool_tokens) - 600;
    // A word of these is some tokens: how many is asked.
    const per_word = (await server.count_tokens([user(words(500, 'n'))])) / 500;
    const prompt = words(Math.floor(longest / per_word), 'n');
    const answer = await ask(server, 'longest', prompt);
    const { usage } = answer;
    const read = usage.input_tokens + usage.cache_creation_input_tokens;
    assert.ok(read > longest * 0.9, JSON.stringify({ usage, longest }));
    // As many at once as run together, again and again, until the pool has been full.
    const each = Math.floor(pool_tokens / BATCH / per_word);
    let held = 0;
    for (let round = 0; round < 2; ++round) {
      const answers = Array.from({ length: BATCH }, (_, i) =>
        ask(server, `a${round}-${i}`, words(each, `${'abcdefghijklmnop'[i]}${round}`)),
      );
      for (const got of await Promise.all(answers)) assert.ok(text_of(got).length >= 0);
      held = Math.max(held, (await memory(server)).pool_held_bytes);
    }
    const peak = peak_bytes(server);
    const mib = (bytes) => Math.round(bytes / 2 ** 20);
    const [pool, holds, took] = [planned.pool_bytes, held, peak].map(mib);
    console.log(`        of ${LIMIT_MB} MiB: ${JSON.stringify({ pool, holds, read, took })}`);
    assert.ok(held > planned.pool_bytes * 0.75, `${held} of ${planned.pool_bytes}`);
    assert.ok(peak <= LIMIT_MB * 2 ** 20, `${peak} bytes`);
    assert.equal((await server.stop()).code, 0);
  },

  async 'a model that does not fit is refused with the sum before it is read'() {
    if (GROUP) bound_group();
    const args = ['--port', '0', '--cache-dir', make_folder(), '--memory-limit-mb', '100'];
    const { code, err } = await launch([...args, '--model', MODEL]).ended;
    assert.equal(code, 1);
    assert.match(err, /the memory does not suffice: weights .* \+ pool 64 MiB = .* of 100 MiB/);
  },
}, PATIENCE * 2);
