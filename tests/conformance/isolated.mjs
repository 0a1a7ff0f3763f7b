// SPDX-License-Identifier: Apache-2.0
// For tests with a client's own program: it runs in a network namespace of loopback alone, so that
// the program reaches this server and nobody else.

import { spawnSync } from 'node:child_process';

export function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(77);
}

/** Runs this script again inside such a namespace, and ends with it; returns inside alone. */
export function be_alone_on_loopback() {
  if (process.env.INSIDE_NAMESPACE) return;
  const unshare = process.getuid() === 0 ? ['-n'] : ['-rn'];
  if (spawnSync('unshare', [...unshare, 'ip', 'link', 'set', 'lo', 'up']).status !== 0) {
    skip('no network namespace can be made here (unshare -n and ip are needed)');
  }
  const inside = ['sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...process.argv];
  const env = { ...process.env, INSIDE_NAMESPACE: '1' };
  const ended = spawnSync('unshare', [...unshare, ...inside], { env, stdio: 'inherit' });
  process.exit(ended.status ?? 1);
}
