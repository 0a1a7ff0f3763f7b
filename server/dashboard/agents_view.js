// SPDX-License-Identifier: Apache-2.0
// The table of agents: rows are kept and only what differs is written, so that 200 of them scroll
// and change smoothly.

import { agent_path, call } from './api.js';
import { ago, at, bytes, clock, count, h, notice, set_text, several } from './dom.js';
import { WHY } from './events_view.js';
import { first_agent } from './first_steps.js';
import { family_of, nested, note_fork } from './lineage.js';
import { key_of } from './state.js';

const ROWS_MAX = 300; // more are found by their names

export class AgentsView {
  /** `chat_with(name)`: the reader wants to talk. */
  constructor(state, chat_with) {
    this.state = state;
    this.chat_with = chat_with;
    this.rows = new Map();
    at('agent-filter').addEventListener('input', () => this.draw());
    setInterval(() => this.draw(), 5000); // "1 min ago" becomes two
  }

  draw() {
    const wanted = at('agent-filter').value.trim().toLowerCase();
    const all = [...this.state.agents.values()];
    const found = all
      .filter((agent) => agent.agent_id.toLowerCase().includes(wanted))
      .sort((a, b) => b.last_accessed - a.last_accessed || (a.agent_id < b.agent_id ? -1 : 1));
    const shown = found.slice(0, ROWS_MAX);
    const place = at('agent-rows');
    const keep = new Set(shown.map(key_of));
    for (const [key, row] of this.rows)
      if (!keep.has(key)) {
        row.details?.remove();
        row.remove();
        this.rows.delete(key);
      }
    let next = place.firstChild;
    for (const agent of shown) {
      const row = this.#row(agent);
      for (const each of [row, row.details]) {
        if (!each) continue;
        if (next === each) next = each.nextSibling;
        else place.insertBefore(each, next);
      }
    }
    set_text(at('agents-note'), this.#note(all.length, found.length, shown.length));
    this.#draw_first_steps(all.length === 0);
    this.#draw_names(shown);
  }

  #note(all, found, shown) {
    if (all === 0)
      return 'No agent yet. Say something in the chat, or point a client at this server.';
    if (found < all) return `${count(found)} of ${several(all, 'agent')}`;
    return shown < all
      ? `${several(all, 'agent')}, the ${count(shown)} used last`
      : several(all, 'agent');
  }

  #draw_first_steps(is_empty) {
    const place = at('agents-empty');
    if (is_empty && place.hidden) place.replaceChildren(...first_agent());
    place.hidden = !is_empty;
    at('agents').classList.toggle('empty', is_empty);
  }

  #draw_names(agents) {
    const names = agents.slice(0, 50).map((agent) => agent.agent_id);
    const key = names.join(' ');
    if (key === this.names) return;
    this.names = key;
    at('agent-names').replaceChildren(...names.map((name) => h('option', { value: name })));
  }

  #row(agent) {
    const key = key_of(agent);
    const row = this.rows.get(key) ?? this.#make_row(agent);
    this.rows.set(key, row);
    row.dataset.running = agent.running;
    if (row.details) this.#draw_details(row, agent);
    const [, tier, tokens, ram, shared, disk, used] = row.children;
    const memory = memory_of(agent);
    tier.firstChild.dataset.tier = memory.tier;
    const unsaved = agent.not_saved === 'over_bound' ? ' · in RAM only' : ' · unsaved';
    set_text(tier.firstChild, memory.tier + (agent.dirty ? unsaved : ''));
    set_text(tokens, count(memory.tokens));
    set_text(ram, bytes(memory.ram_bytes));
    set_text(shared, bytes(agent.shared_bytes));
    set_text(disk, bytes(agent.file_size_bytes));
    disk.title = written_of(agent) ?? '';
    set_text(used, ago(agent.last_accessed * 1000));
    return row;
  }

  #make_row(agent) {
    const name = agent.agent_id;
    const whose = agent.tenant && agent.tenant !== 'default' ? ` (tenant ${agent.tenant})` : '';
    const chat = () => this.chat_with(name);
    const named = whose
      ? h('span', {}, name + whose)
      : h('button', { class: 'link', onclick: chat }, name);
    const number = () => h('td', { class: 'number' });
    const open = h('button', {
      type: 'button',
      class: 'open',
      'aria-expanded': 'false',
      'aria-label': `Memory of ${name}${whose}`,
      onclick: () => this.#toggle(key_of(agent), open),
    });
    return h(
      'tr',
      {},
      h('td', { class: 'name' }, h('span', { class: 'opener' }, open, named)),
      h('td', {}, h('span', { class: 'tier' })),
      number(),
      number(),
      number(),
      number(),
      h('td', {}),
      h('td', { class: 'actions' }, ...(whose ? [] : this.#actions(name))),
    );
  }

  #toggle(key, open) {
    const row = this.rows.get(key);
    const is_open = !row.details;
    if (is_open) row.details = h('tr', { class: 'details' }, h('td', { colspan: 8 }));
    else {
      row.details.remove();
      row.details = null;
    }
    open.setAttribute('aria-expanded', String(is_open));
    this.draw();
  }

  /** What an agent remembers under each model, and how its last prompts found it. */
  #draw_details(row, agent) {
    const turns = this.state.turns.get(agent.agent_id) ?? [];
    const { memories, states, shared_bytes, bytes_written, policy } = agent;
    const family = this.#family_of(agent);
    const parts = [memories, states, shared_bytes, bytes_written, policy, turns, family];
    const key = JSON.stringify(parts);
    if (row.details.key === key) return;
    row.details.key = key;
    row.details.firstChild.replaceChildren(
      h('h3', {}, `What ${agent.agent_id} remembers`),
      h('ul', {}, ...(agent.memories ?? [agent]).map((memory) => h('li', {}, sentence_of(memory)))),
      h('p', { class: 'hint' }, shared_of(agent)),
      ...facts_of(agent).map((fact) => h('p', { class: 'hint' }, fact)),
      ...(agent.states ? [h('p', { class: 'states' }, states_of(agent))] : []),
      ...this.#tree(agent, family),
      h('h3', {}, 'Its last prompts'),
      turns.length
        ? h('ul', {}, ...turns.toReversed().map((turn) => h('li', {}, prompt_of(turn))))
        : h('p', { class: 'hint' }, 'None since this page was opened.'),
    );
  }

  /** An agent's relatives, with what is known of each. Tenants have families of their own. */
  #family_of(agent) {
    const tenant = agent.tenant ?? '';
    const own = [...this.state.agents.values()].filter((each) => (each.tenant ?? '') === tenant);
    const cards = new Map(own.map((each) => [each.agent_id, each]));
    return family_of(agent.agent_id, cards.keys(), tenant).map(({ name, depth, relation }) => {
      const card = cards.get(name);
      const state = card ? brief_of(memory_of(card)) : 'no longer there';
      return { name, depth, relation, state };
    });
  }

  #tree(agent, family) {
    if (family.length === 0) return [];
    const { agent_id } = agent;
    const title = h('h3', {}, 'Its forks and sub-agents');
    const item = ({ name, relation, state }) =>
      h(
        'li',
        { 'aria-current': name === agent_id && 'true' },
        name === agent_id ? h('strong', {}, name) : name,
        h('span', { class: 'hint' }, ` ${[relation, state].filter(Boolean).join(', ')}`),
      );
    const rows = family.map((each) => [each.depth, each]);
    return [title, nested(rows, () => h('ul', { class: 'tree' }), item)];
  }

  #actions(name) {
    const button = (text, act) =>
      h(
        'button',
        { type: 'button', 'aria-label': `${text} ${name}`, onclick: () => attempt(act) },
        text,
      );
    return [
      button('Evict', async () => {
        await call('POST', agent_path(name, '/evict'));
        notice(`${name} is on disk only`);
      }),
      button('Fork', async () => {
        const answer = await call('POST', agent_path(name, '/fork'), {});
        const made = (await answer.json()).agent_id;
        note_fork(made, name);
        notice(`${name} is forked: ${made}`);
      }),
      button('Export', () => save_export(name)),
      button('Delete', async () => {
        if (!confirm(`Delete ${name} and all that it remembers?`)) return;
        await call('DELETE', agent_path(name));
        notice(`${name} is deleted`);
      }),
    ];
  }
}

/** The memory of an agent that its row shows: the usual model's; else another loaded one's. */
function memory_of(agent) {
  if (agent.tier !== 'cold') return agent;
  return agent.memories.find((each) => each.loaded) ?? agent;
}

/** Where a memory is, and what it takes. */
function sentence_of(memory) {
  const where = { hot: 'in RAM and ready', warm: 'on disk, read before its next turn' };
  return (
    `${memory.model_id ?? 'a model of an older version'}: ${several(memory.tokens, 'token')}, ` +
    `${where[memory.tier] ?? memory.tier}; ${bytes(memory.ram_bytes)} in RAM, ` +
    `${bytes(memory.file_size_bytes)} on disk, used ${ago(memory.last_accessed * 1000)}`
  );
}

/** An agent in a line of a tree. */
function brief_of({ tokens, tier }) {
  return `${several(tokens, 'token')}, ${tier}`;
}

/** Whose the part of a memory is that is in RAM. */
function shared_of({ ram_bytes, shared_bytes }) {
  const own = bytes(Math.max(0, ram_bytes - shared_bytes));
  return `${bytes(shared_bytes)} of it in RAM is shared with others, ${own} is its own.`;
}

/** What was written to disk for an agent. */
function written_of({ bytes_written: written }) {
  if (!written) return null;
  return `${bytes(written.total)} written in all, ${bytes(written.last_turn)} for the last answer`;
}

/** How long an agent's memory is kept. */
function kept_of({ policy }) {
  if (!policy) return null;
  const until = policy.keeps_until ? `kept until ${clock(policy.keeps_until * 1000)}` : 'not kept';
  const asked = policy.pinned ? 'Pinned' : until[0].toUpperCase() + until.slice(1);
  const why = { expired: 'that time is over', share: "other agents take its key's share" };
  return asked + (policy.why_not ? `, but this does not hold: ${why[policy.why_not]}.` : '.');
}

/** What there is to say of an agent beside its memories. */
function facts_of(agent) {
  const written = written_of(agent);
  const over = 'The bound on disk writes is reached: its memory is in RAM only.';
  const is_over = agent.not_saved === 'over_bound';
  return [written && `${written}.`, is_over && over, kept_of(agent)].filter(Boolean);
}

/** What of a memory is recurrent states, the rest being keys and values. */
function states_of({ states, ram_bytes, file_size_bytes }) {
  return (
    `A prompt goes on from ${several(states.places.length, 'place')} ` +
    `(${states.places.map(count).join(', ')} tokens). Recurrent states take ` +
    `${bytes(states.ram_bytes)} in RAM beside ${bytes(ram_bytes - states.ram_bytes)} of KV, and ` +
    `${bytes(states.file_size_bytes)} on disk beside ` +
    `${bytes(file_size_bytes - states.file_size_bytes)}.`
  );
}

/** How a prompt found its memory, and why it missed what it missed. */
function prompt_of(turn) {
  const missed = turn.miss_reason ? `; ${WHY[turn.miss_reason] ?? turn.miss_reason}` : '';
  return (
    `${clock(turn.at)}: ${turn.match}, ${count(turn.reused_tokens)} of ` +
    `${count(turn.prompt_tokens)} prompt tokens from memory` +
    (turn.restored_tokens ? ` (${count(turn.restored_tokens)} from disk)` : '') +
    missed
  );
}

/** Shows what an action throws. */
export async function attempt(act) {
  try {
    await act();
  } catch (error) {
    notice(error.message);
  }
}

async function save_export(name) {
  const answer = await call('GET', agent_path(name, '/cache'));
  const url = URL.createObjectURL(await answer.blob());
  h('a', { href: url, download: `${name}.safetensors` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
