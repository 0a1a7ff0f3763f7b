// SPDX-License-Identifier: Apache-2.0
// A Redis server of a test's own, which can be killed, be silent, and come back on its port.

import { spawn, spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { free_port, make_folder } from './harness.mjs';

export const has_redis = !spawnSync('redis-server', ['--version']).error;

export class Redis {
  /** Resolves when the server answers. It keeps nothing on disk. */
  static async start() {
    const redis = new Redis();
    redis.port = await free_port();
    redis.url = `redis://127.0.0.1:${redis.port}`;
    process.on('exit', () => redis.child.kill('SIGKILL'));
    return redis.restart();
  }

  async restart() {
    const options = ['--bind', '127.0.0.1', '--save', '', '--dir', make_folder()];
    this.child = spawn('redis-server', ['--port', String(this.port), ...options], {
      stdio: 'ignore',
    });
    this.ended = new Promise((resolve) => this.child.on('close', resolve));
    this.is_up = true;
    for (let i = 0; i < 200; ++i, await sleep(25)) if (await this.is_open()) return this;
    throw new Error('redis-server does not answer');
  }

  is_open() {
    return new Promise((resolve) => {
      const socket = connect(this.port, '127.0.0.1');
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
      socket.on('connect', () => socket.destroy());
    });
  }

  /** Resolves with the reply as it comes. */
  command(...words) {
    const bulks = words.map((each) => `$${Buffer.byteLength(each)}\r\n${each}\r\n`).join('');
    return new Promise((resolve, reject) => {
      const socket = connect(this.port, '127.0.0.1');
      let reply = '';
      socket.setEncoding('utf8').on('error', reject);
      socket.on('data', (text) => (reply += text)).on('close', () => resolve(reply));
      socket.write(`*${words.length}\r\n${bulks}*1\r\n$4\r\nQUIT\r\n`);
    });
  }
  /** From then on it is silent. */
  pause() {
    this.child.kill('SIGSTOP');
  }
  go_on() {
    this.child.kill('SIGCONT');
  }
  kill() {
    this.is_up = false;
    this.child.kill('SIGKILL');
    return this.ended;
  }
}
