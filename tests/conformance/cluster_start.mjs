// SPDX-License-Identifier: Apache-2.0
// The script that starts a whole cluster on one machine: what a reader of the README tries.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

import {
  assistant,
  free_port,
  main,
  make_folder,
  stored_tokens,
  text_of,
  user,
} from './harness.mjs';

const script = fileURLToPath(new URL('../../etc/cluster/start.py', import.meta.url));
const nginx_folder = dirname(process.env.CONFORMANCE_NGINX ?? '/usr/sbin/nginx');
const env = { ...process.env, PATH: `${nginx_folder}:${process.env.PATH}:/usr/sbin` };
// What tests are told by variables is no option of the servers'.
for (const name of Object.keys(env)) if (name.startsWith('SEMANTIC_')) delete env[name];
for (const program of ['nginx', 'redis-server', 'python3'])
  if (spawnSync('sh', ['-c', `command -v ${program}`], { env }).status) {
    console.log(`skipped: ${program} is not installed`);
    process.exit(77);
  }

/** Resolves when the cluster is ready. */
async function start(folder, more = []) {
  const port = await free_port();
  const options = ['--port', String(port), '--folder', folder, ...more];
  const own = ['--', '--cache-budget-mb', '128', '--object-store-wait-ms', '20000'];
  const server = ['--server', process.env.CONFORMANCE_SERVER];
  const child = spawn('python3', [script, ...server, ...options, ...own], { env });
  let said = '';
  const ended = new Promise((resolve) => child.on('close', (code) => resolve({ code, said })));
  const cluster = { child, ended, url: `http://127.0.0.1:${port}`, pids: {} };
  process.on('exit', () => child.kill('SIGTERM'));
  await new Promise((resolve, reject) => {
    const take = (bytes) => {
      said += bytes;
      for (const [, name, pid] of said.matchAll(/^([a-z0-9-]+) +(\d+)$/gm))
        cluster.pids[name] = Number(pid);
      if (/^ready /m.test(said)) resolve();
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    ended.then(() => reject(new Error(`the cluster ended: ${said}`)));
  });
  cluster.said = () => said;
  return cluster;
}

async function ask(cluster, messages) {
  for (let tries = 0; ; ++tries) {
    const answer = await fetch(`${cluster.url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-id': 'hen' },
      body: JSON.stringify({ model: 'any', max_tokens: 40, temperature: 0, messages }),
    }).catch((error) => error); // nginx is not there
    const text = answer.status ? await answer.text() : answer.message;
    if (answer.status === 200) return JSON.parse(text);
    assert.ok([undefined, 502, 503, 529].includes(answer.status) && tries < 20, text);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

const is_alive = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

await main(
  {
    async 'a whole cluster goes on without any of its parts, and ends with the script'() {
      const cluster = await start(make_folder(), ['--encrypt']);
      assert.deepEqual(Object.keys(cluster.pids), ['redis', 'node-1', 'node-2', 'node-3', 'nginx']);
      const messages = [];
      let before;
      for (const victim of [undefined, 'node-1', 'redis', 'node-2', 'node-3', 'nginx']) {
        if (victim) process.kill(cluster.pids[victim], 'SIGKILL');
        messages.push(user('Who are you?'));
        const answer = await ask(cluster, messages);
        if (before)
          assert.ok(
            answer.usage.cache_read_input_tokens >= stored_tokens(before) - 1,
            `${victim}: ${JSON.stringify(answer.usage)}`,
          );
        messages.push(assistant(text_of(answer)));
        before = answer;
      }
      cluster.child.kill('SIGTERM');
      const { code } = await cluster.ended;
      assert.equal(code, 0, cluster.said());
      assert.deepEqual(Object.values(cluster.pids).filter(is_alive), []);
    },

    async 'what is not there is said'() {
      const run = (...options) => spawnSync('python3', [script, ...options], { env });
      const missing = run('--server', '/nowhere/semantic-server');
      assert.equal(missing.status, 1);
      assert.match(String(missing.stderr), /not installed: \/nowhere\/semantic-server/);
      assert.equal(run('--nodes', '0').status, 2);
      assert.equal(run('--nodes', '17').status, 2);
    },
  },
  120_000,
);
