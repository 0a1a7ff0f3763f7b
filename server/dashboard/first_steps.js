// SPDX-License-Identifier: Apache-2.0
// What a newcomer may do where there is nothing to show yet: lines for a shell, addresses for SDKs.

import { keys } from './api.js';
import { h } from './dom.js';

/** A line that asks this server. With a key in this tab it says where one goes, and not the key. */
function curl(path, body, headers = []) {
  const sent = [
    'content-type: application/json',
    ...(keys().api_key ? ['x-api-key: YOUR-KEY'] : []),
    ...headers,
  ];
  const given = sent.map((each) => ` \\\n  -H '${each}'`).join('');
  return `curl ${location.origin}${path}${given} \\\n  -d '${JSON.stringify(body)}'`;
}

const shell = (text) => h('pre', { tabindex: '0' }, text);

/** How an agent comes to be. */
export function first_agent() {
  const body = {
    model: 'any',
    max_tokens: 64,
    messages: [{ role: 'user', content: 'My dog is called Biscuit.' }],
  };
  const address = (name, path) =>
    h('li', {}, `${name}: `, h('code', {}, location.origin + path));
  return [
    h('p', { class: 'hint' }, 'From a shell; x-session-id names the agent:'),
    shell(curl('/v1/messages', body, ['x-session-id: ada'])),
    h('p', { class: 'hint' }, "Or give your client's SDK this server's address as its base URL:"),
    h(
      'ul',
      {},
      address('Anthropic', ''),
      address('OpenAI', '/v1'),
      address('Ollama', ''),
    ),
  ];
}

/** How agents come to talk with each other. */
export function first_session() {
  const agents = ['Ada', 'Bob'].map((display_name) => ({ display_name }));
  return [
    h(
      'p',
      { class: 'hint' },
      'No session of several agents yet. This makes one; POST …/{id}/turn has an agent speak:',
    ),
    shell(curl('/v1/coordination/sessions', { agents })),
  ];
}
