// SPDX-License-Identifier: Apache-2.0
// The servers on one object store, as they tell each other of themselves: a table that is there as
// soon as there is more than this one.

import { at, bytes, count, h } from './dom.js';

export class NodesView {
  constructor(state) {
    this.state = state;
  }

  draw() {
    const { nodes } = this.state;
    at('nodes').hidden = nodes.length === 0;
    at('node-list').replaceChildren(...nodes.map((node) => row_of(node)));
  }
}

function row_of(node) {
  const place = node.url ?? `${node.id.slice(0, 8)} (no node-url)`;
  const name = node.self ? h('strong', {}, `${place} (this one)`) : place;
  const number = (value) =>
    h('td', { class: 'number' }, value === null ? '–' : count(value));
  const agents = node.agents_hot === null ? null : node.agents_hot + node.agents_warm;
  const pool = node.pool_bytes
    ? `${bytes(node.pool_held_bytes)} of ${bytes(node.pool_bytes)}`
    : '–';
  return h(
    'tr',
    { 'data-node': node.id },
    h('th', { scope: 'row' }, name),
    h('td', {}, state_of(node)),
    number(node.running),
    number(agents),
    h('td', { class: 'number' }, pool),
    number(node.uploads_pending),
  );
}

function state_of(node) {
  if (node.silent) return 'silent';
  const models = node.models?.join(', ') ?? '';
  return [node.phase ?? 'unknown', models].filter(Boolean).join(': ');
}
