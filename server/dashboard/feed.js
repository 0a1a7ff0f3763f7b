// SPDX-License-Identifier: Apache-2.0
// The connection to /ws: shows its keys when asked, and comes back when it is lost.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
const UNAUTHORIZED = 4401;

export class Feed {
  /** `keys()`: { api_key, admin_key, watch_all }. `on_status(state, text)`: connecting, live, lost,
   *  refused. */
  constructor({ keys, on_message, on_status }) {
    Object.assign(this, { keys, on_message, on_status });
    this.wait_ms = FIRST_WAIT_MS;
    this.turn = 0;
  }

  connect() {
    const turn = ++this.turn; // what an earlier connection still says counts no more
    clearTimeout(this.timer);
    this.socket?.close();
    this.on_status('connecting', 'Connecting…');
    const url = new URL('/ws', location.href);
    url.protocol = url.protocol.replace('http', 'ws');
    const socket = new WebSocket(url, 'semantic.v1');
    this.socket = socket;
    this.refused = null;
    socket.addEventListener('message', ({ data }) => {
      if (turn === this.turn) this.#hear(JSON.parse(data));
    });
    socket.addEventListener('close', ({ code }) => {
      if (turn === this.turn) this.#lost(code);
    });
  }

  #hear(message) {
    const { api_key, admin_key, watch_all } = this.keys();
    const shown = watch_all && admin_key ? { admin_key } : api_key ? { api_key } : null;
    if (message.type === 'authenticate') {
      if (shown) this.#say({ type: 'authenticate', ...shown });
      else this.#refuse('This server asks for a key.');
    } else if (message.type === 'welcome') {
      // Where no key is asked for, an admin is only who says so.
      if (watch_all && admin_key && !message.admin)
        return this.#say({ type: 'authenticate', admin_key });
      this.wait_ms = FIRST_WAIT_MS;
      this.on_status('live', message.admin ? 'Live, all tenants' : 'Live');
    } else if (message.type === 'error') {
      this.refused = message;
    } else {
      this.on_message(message);
    }
  }

  #say(message) {
    this.socket.send(JSON.stringify(message));
  }

  #refuse(why) {
    ++this.turn;
    this.socket.close();
    this.on_status('refused', why);
  }

  #lost(code) {
    if (code === UNAUTHORIZED)
      return this.on_status(
        'refused',
        `The key was refused: ${this.refused?.message ?? 'wrong key'}`,
      );
    this.on_status('lost', 'Connection lost, trying again…');
    this.timer = setTimeout(() => this.connect(), this.wait_ms);
    this.wait_ms = Math.min(this.wait_ms * 2, LONGEST_WAIT_MS);
  }
}
