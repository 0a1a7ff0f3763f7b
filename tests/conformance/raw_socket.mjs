// SPDX-License-Identifier: Apache-2.0
// A WebSocket client of RFC 6455 with nothing but Node's own modules: text messages, whole, and
// whatever else a test wants to put on the wire.

import { randomBytes } from 'node:crypto';
import { request } from 'node:http';

export class RawSocket {
  messages = [];
  closed = false;
  #waiting = new Set();
  #rest = Buffer.alloc(0);

  /** Resolves when the server has switched; rejects with the status when it does not. */
  static open(port, path, headers = {}) {
    return new Promise((resolve, reject) => {
      const key = randomBytes(16).toString('base64');
      const asked = request({
        host: '127.0.0.1', port, path,
        headers: {
          connection: 'upgrade', upgrade: 'websocket',
          'sec-websocket-version': '13', 'sec-websocket-key': key, ...headers,
        },
      }); // prettier-ignore
      asked.on('upgrade', (_, socket, first) => resolve(new RawSocket(socket, first)));
      asked.on('response', (answer) => reject(new Error(`status ${answer.statusCode}`)));
      asked.on('error', reject);
      asked.end();
    });
  }

  constructor(socket, first) {
    this.socket = socket;
    socket.on('data', (bytes) => this.#take(bytes));
    socket.on('error', () => {});
    socket.on('close', () => {
      this.closed = true;
      this.#wake();
    });
    if (first.length > 0) this.#take(first);
  }

  #wake() {
    for (const look of this.#waiting) look();
    this.#waiting.clear();
  }

  #take(bytes) {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const rest = this.#rest;
      if (rest.length < 2) return;
      const small = rest[1] & 127;
      const head = small === 126 ? 4 : small === 127 ? 10 : 2;
      if (rest.length < head) return;
      const size =
        small === 126
          ? rest.readUInt16BE(2)
          : small === 127
            ? Number(rest.readBigUInt64BE(2))
            : small;
      if (rest.length < head + size) return;
      const kind = rest[0] & 15;
      const body = rest.subarray(head, head + size);
      this.#rest = rest.subarray(head + size);
      if (kind === 1) this.messages.push(body.toString());
      if (kind === 9) this.frame(10, body);
      if (kind === 8) this.socket.end();
      this.#wake();
    }
  }

  /** One frame of this kind, masked as clients must. */
  frame(kind, bytes) {
    const body = Buffer.from(bytes);
    // The shortest of the three forms of a length is the only right one.
    const small = body.length < 126 ? body.length : body.length < 65536 ? 126 : 127;
    const head = Buffer.alloc(small < 126 ? 2 : small === 126 ? 4 : 10);
    head[0] = 0x80 | kind;
    head[1] = 0x80 | small;
    if (small === 126) head.writeUInt16BE(body.length, 2);
    if (small === 127) head.writeBigUInt64BE(BigInt(body.length), 2);
    const mask = randomBytes(4);
    for (let i = 0; i < body.length; ++i) body[i] ^= mask[i % 4];
    this.socket.write(Buffer.concat([head, mask, body]));
  }

  say(text) {
    this.frame(1, text);
  }

  /** The next message; nothing when the server has closed. */
  async next() {
    while (this.messages.length === 0 && !this.closed)
      await new Promise((resolve) => this.#waiting.add(resolve));
    return this.messages.shift();
  }

  close() {
    this.socket.destroy();
  }
}
