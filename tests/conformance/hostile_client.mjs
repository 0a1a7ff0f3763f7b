// SPDX-License-Identifier: Apache-2.0
// The hostile client of hostile.mjs, a process of its own behind all others: making bodies of many
// megabytes takes a core, and what a test measures beside that would be its own work. Started by
// start_hostile(); tells its parent of each attack that has ended.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';

import { attack } from './hostile_requests.mjs';

/**
 * Attacks `server` with `names` in turn, `crew` at once, until stop() is called. `told` gets
 * {name, status, ms} of each attack. The same seed makes the same requests.
 */
export function start_hostile({ server, key, names, seed, crew = 3, told }) {
  const child = fork(fileURLToPath(import.meta.url), [], { stdio: 'inherit' });
  const ended = once(child, 'exit');
  child.on('message', told);
  child.send({ url: server.url, port: server.port, key, names, seed, crew });
  return {
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function work({ url, port, key, names, seed, crew }) {
  setPriority(constants.priority.PRIORITY_LOW);
  const headers = { 'x-api-key': key };
  let next_random = seed;
  /** [0, 1), the same in every run. */
  function random() {
    next_random = (next_random * 1664525 + 1013904223) >>> 0;
    return next_random / 2 ** 32;
  }
  async function ask(path, body, method = 'POST', patience = 60_000) {
    try {
      const answer = await fetch(url + path, {
        method: body === undefined && method === 'POST' ? 'GET' : method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(patience),
      });
      return { status: answer.status, text: await answer.text() };
    } catch {
      return { status: 0, text: '' };
    }
  }
  let next = Math.floor(random() * names.length);
  async function attacker() {
    for (;;) {
      const name = names[next++ % names.length];
      const start = performance.now();
      const got = await attack(name, random(), ask, port, headers);
      process.send({ name, status: got?.status ?? '-', ms: performance.now() - start });
    }
  }
  await Promise.all(Array.from({ length: crew }, attacker));
}

// Not where it is only imported. A parent that is gone ends it too.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.once('disconnect', () => process.exit());
  process.once('message', work);
}
