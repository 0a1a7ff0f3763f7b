// SPDX-License-Identifier: Apache-2.0
// Requests with the keys of this tab.

const STORED = ['api_key', 'admin_key', 'watch_all'];

/** { api_key, admin_key, watch_all } of this tab, as they were entered. */
export function keys() {
  return Object.fromEntries(STORED.map((name) => [name, sessionStorage.getItem(name) ?? '']));
}

export function keep_keys(values) {
  for (const name of STORED) sessionStorage.setItem(name, values[name] ?? '');
}

/** fetch() of this server. Throws an Error with the server's own words when it refuses. */
export async function call(method, path, body, { signal, is_admin } = {}) {
  const { api_key, admin_key } = keys();
  const headers = {};
  if (api_key) headers['x-api-key'] = api_key;
  if (is_admin && admin_key) headers['x-admin-key'] = admin_key;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const answer = await fetch(path, { method, headers, body: JSON.stringify(body), signal });
  if (answer.ok) return answer;
  throw new Error(words_of(await answer.text()) || `status ${answer.status}`);
}

/** An error body's sentence, in whichever dialect it is. */
function words_of(text) {
  try {
    const { error, detail, message } = JSON.parse(text);
    return error?.message ?? detail ?? message ?? text;
  } catch {
    return text;
  }
}

export const agent_path = (name, rest = '') => `/v1/agents/${encodeURIComponent(name)}${rest}`;

/** The events of a streamed answer, [name, data] one after the other. */
export async function* events_of(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split('\n\n');
    text = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(event) ?? [];
      if (name) yield [name, JSON.parse(data)];
    }
  }
}
