// SPDX-License-Identifier: Apache-2.0
// Random and damaged requests to what Responses have beside a turn: the background, conversations,
// compaction, WebSockets: no 5xx, no crash, no hang. FUZZ_REQUESTS says how many of each, FUZZ_SEED
// where to begin.

import assert from 'node:assert/strict';

import * as bodies from './fuzz_bodies.mjs';
import { main, make_folder, Server } from './harness.mjs';
import { RawSocket } from './raw_socket.mjs';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 200);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const AT_ONCE = 12;
const PATIENCE_MS = 200_000;

const server = await Server.start({
  cache: make_folder(),
  args: ['--log-level', 'warning', '--save-wait-ms', '0', '--disk-budget-mb', '512'],
});

async function send(method, path, bytes) {
  const answer = await fetch(`${server.url}${path}`, {
    method,
    body: bytes,
    headers: bytes ? { 'content-type': 'application/json' } : {},
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  return { status: answer.status, text: await answer.text() };
}

/** A refusal as the vendor's SDK reads it. */
function check_refusal({ status, text }) {
  assert.ok(status < 500, `status ${status}: ${text}`);
  const { error } = JSON.parse(text);
  assert.ok(error.message.length > 0 && /_error$/.test(error.type), text);
}

const ends = /^response\.(completed|incomplete|failed)$/;

/** REQUESTS of them, some at once; `ask(random, state)` resolves with whether one was taken. */
async function fuzz(name, ask, make_state = () => ({})) {
  let [next, taken] = [0, 0];
  async function worker() {
    const state = await make_state();
    while (next < REQUESTS) {
      const number = next++;
      const random = new bodies.Random(SEED * 1_000_003 + number);
      try {
        const is_taken = await ask(random, state);
        taken += is_taken ? 1 : 0;
      } catch (error) {
        throw new Error(`request ${number} of ${name}: ${error.message}`, { cause: error });
      }
    }
    await state.close?.();
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  console.log(`        ${name}: ${taken} of ${REQUESTS} were taken`);
  assert.ok(taken > REQUESTS / 10, 'too few requests were taken to say anything');
}

const in_background = (r) => ({
  ...bodies.responses(r),
  background: true,
  store: true,
  stream: r.chance(0.3),
});

async function ask_in_background(r) {
  const { bytes, is_valid } = bodies.body_of(r, in_background);
  const { status, text } = await send('POST', '/v1/responses', bytes);
  if (is_valid) assert.equal(status, 200, text);
  if (status !== 200) return check_refusal({ status, text });
  if (text.startsWith('event:')) {
    const last = text.trimEnd().split('\n').at(-1);
    assert.match(JSON.parse(last.slice('data: '.length)).type, ends);
    return true;
  }
  const { id, background } = JSON.parse(text);
  if (!background) return true; // damage took it out
  const more = r.pick(['', '?stream=true', '?stream=true&starting_after=1', '?stream=maybe']);
  // Some answers end by nothing but a limit that damage took out.
  const stopped = await send('POST', `/v1/responses/${id}/cancel`, '{}');
  assert.equal(stopped.status, 200, stopped.text);
  assert.match(JSON.parse(stopped.text).status, /^(completed|incomplete|cancelled|failed)$/);
  const read = await send('GET', `/v1/responses/${id}${more}`);
  assert.equal(read.status, 200, read.text);
  if (r.chance(0.5)) assert.equal((await send('DELETE', `/v1/responses/${id}`)).status, 200);
  return true;
}

const conversation = (r) => ({
  ...r.some(0.7, { items: () => bodies.responses(r).input, metadata: () => ({ a: 'b' }) }),
});
const known = [];

async function ask_conversations(r) {
  const id = known.length > 0 && r.chance(0.9) ? r.pick(known) : r.pick(['conv_x', '..', '%']);
  const at = `/v1/conversations/${id}`;
  const bytes = (make) => bodies.body_of(r, make).bytes;
  const items = () => ({ items: [].concat(bodies.responses(r).input) });
  const [method, path, body] = r.pick([
    ['POST', '/v1/conversations', bytes(conversation)],
    ['POST', '/v1/conversations', '{}'],
    ['GET', at],
    ['POST', at, bytes(() => ({ metadata: { c: 'd' } }))],
    ['POST', `${at}/items`, bytes(items)],
    ['GET', `${at}/items${r.pick(['', '?limit=2', '?order=asc', '?after=x', '?limit=-1'])}`],
    ['GET', `${at}/items/msg_x`],
    ['DELETE', r.chance(0.2) ? at : `${at}/items/msg_x`],
    ['POST', '/v1/responses', bytes(() => ({ ...bodies.responses(r), conversation: id }))],
  ]);
  const answer = await send(method, path, body);
  if (answer.status !== 200) return check_refusal(answer);
  if (path === '/v1/conversations') known.push(JSON.parse(answer.text).id);
  if (known.length > 20) known.shift();
  return true;
}

const compact = (r) => {
  const { model, input, instructions } = bodies.responses(r);
  return { model, input, max_output_tokens: 8, ...(instructions ? { instructions } : {}) };
};

async function ask_compaction(r) {
  const { bytes } = bodies.body_of(r, compact);
  const answer = await send('POST', '/v1/responses/compact', bytes);
  if (answer.status !== 200) return check_refusal(answer);
  if (JSON.parse(answer.text).object === 'response.compaction') return true;
  assert.fail(answer.text);
}

async function open(state) {
  state.socket = await RawSocket.open(server.port, '/v1/responses');
  state.latest = undefined;
}

/** One message, and what is said to it up to its end. */
async function ask_socket(r, state) {
  if (!state.socket || state.socket.closed) await open(state);
  const make = () => ({
    type: r.chance(0.95) ? 'response.create' : r.pick(['response.cancel', 'x', 7]),
    ...bodies.responses(r),
    ...(state.latest && r.chance(0.5) ? { previous_response_id: state.latest } : {}),
    ...r.some(0.1, { generate: () => false, background: () => true }),
  });
  const { bytes } = bodies.body_of(r, make);
  // A text message that is no UTF-8 ends a WebSocket.
  const is_text = Buffer.from(Buffer.from(bytes).toString()).equals(Buffer.from(bytes));
  state.socket.frame(r.chance(0.98) ? 1 : 2, bytes);
  for (;;) {
    const text = await state.socket.next();
    if (text === undefined) {
      assert.ok(!is_text, 'the server closed');
      return false;
    }
    const event = JSON.parse(text);
    if (event.type === 'error') {
      assert.ok(event.status >= 400 && event.status < 500, text);
      assert.ok(event.error.message.length > 0, text);
      return false;
    }
    if (!ends.test(event.type)) continue;
    state.latest = event.response.id;
    if (r.chance(0.05)) {
      state.socket.close();
      state.socket = undefined;
    }
    return true;
  }
}

await main(
  {
    'responses in the background are taken or refused, whatever comes': () =>
      fuzz('background', ask_in_background),
    'conversations are taken or refused, whatever comes': () =>
      fuzz('conversations', ask_conversations),
    'compactions are taken or refused, whatever comes': () => fuzz('compaction', ask_compaction),
    'messages of a WebSocket are taken or refused, whatever comes': () =>
      fuzz('websocket', ask_socket, () => {
        const state = { close: () => state.socket?.close() };
        return state;
      }),

    async 'nothing is left running, nothing went wrong inside, and the server ends cleanly'() {
      const { code, out, err } = await server.stop();
      assert.equal(code, 0);
      assert.doesNotMatch(out + err, /\[error\]|failed:/);
    },
  },
  3_600_000,
);
