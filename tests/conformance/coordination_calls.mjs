// SPDX-License-Identifier: Apache-2.0
// Requests to the coordination API, and what its streams say.

import assert from 'node:assert/strict';

/** Resolves with {status, body}: of JSON the value, of anything else the text. */
export async function call(server, method, path, body, headers = {}) {
  const answer = await fetch(server.url + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(240_000),
  });
  const text = await answer.text();
  const is_json = (answer.headers.get('content-type') ?? '').startsWith('application/json');
  return { status: answer.status, body: is_json && text ? JSON.parse(text) : text };
}

/** As call(), with the status that it must have; resolves with the body. */
export async function expect(status, ...request) {
  const answer = await call(...request);
  const [, method, path] = request;
  assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** [[name, data]] of a stream, without pings. */
export function events_of(text) {
  return text
    .split('\n\n')
    .filter(Boolean)
    .map((event) => event.match(/^event: (.*)\ndata: (.*)$/s).slice(1))
    .map(([name, data]) => [name, JSON.parse(data)])
    .filter(([name]) => name !== 'ping');
}
