// SPDX-License-Identifier: Apache-2.0
// Coordination: each session as a conversation, each run of a scenario as those of its phases.

import { Dialogue } from './dialogue.js';
import { at, count, h, set_text, several } from './dom.js';
import { first_session } from './first_steps.js';

const SESSIONS_MAX = 20;

export class SessionsView {
  constructor(state) {
    this.state = state;
    this.runs = new Map(); // run's id -> its RunCard
    this.sessions = new Map(); // session's id -> its SessionCard
  }

  draw() {
    const { sessions, runs } = this.state;
    const of_runs = new Set(runs.flatMap((run) => run.phases.map((phase) => phase.session_id)));
    const others = sessions.filter((session) => !of_runs.has(session.session_id));
    draw_cards(at('run-list'), this.runs, runs, 'run_id', () => new RunCard(this.state));
    const is_empty = others.length === 0 && runs.length === 0;
    // What is selected there to be copied stays selected.
    if (is_empty && this.is_empty) return;
    if (is_empty || this.is_empty) at('session-list').replaceChildren();
    this.is_empty = is_empty;
    if (is_empty) this.sessions.clear();
    if (is_empty) return at('session-list').append(...first_session());
    draw_cards(
      at('session-list'),
      this.sessions,
      others,
      'session_id',
      () => new SessionCard(this.state),
    );
  }
}

/** The latest first. A card stays the same element while there is what it shows: it stays open or
 *  closed, and where it was scrolled to. A new one is open where it is the latest. */
function draw_cards(place, cards, all, id, make) {
  const shown = all.slice(-SESSIONS_MAX).reverse();
  const keep = new Set(shown.map((each) => each[id]));
  for (const [key, card] of cards)
    if (!keep.has(key)) {
      card.element.remove();
      cards.delete(key);
    }
  shown.forEach((each, i) => {
    let card = cards.get(each[id]);
    if (!card) {
      card = make();
      cards.set(each[id], card);
      card.element.open = i === 0;
    }
    if (place.children[i] !== card.element)
      place.insertBefore(card.element, place.children[i] ?? null);
    card.draw(each);
  });
}

/** What changes with each message that is said. */
function version_of(session) {
  const said = session.agent_states.map((agent) => agent.message_count);
  return JSON.stringify([session.current_turn, session.is_active, said]);
}

/** `read()` is called when it is opened, and with each draw() while it is open. */
function opening(title, kind, read) {
  return h('details', { class: kind, ontoggle: read }, h('summary', {}, title));
}

class SessionCard {
  constructor(state) {
    this.state = state;
    this.title = h('h3', {});
    this.element = opening(this.title, 'session', () => this.#read());
    this.columns = h('div', { class: 'columns', tabindex: '0' });
  }

  draw(session) {
    this.session = session;
    if (!this.dialogue) {
      this.dialogue = new Dialogue(session.session_id);
      this.element.append(this.dialogue.list, this.columns);
    }
    const next = session.next_speaker ? `, ${session.next_speaker} next` : '';
    const state = session.is_active ? `turn ${session.current_turn}${next}` : 'over';
    set_text(this.title, `${session.session_id} · ${state}`);
    draw_columns(this.columns, this.state, session);
    this.#read();
  }

  #read() {
    if (!this.element.open || !this.session) return;
    this.dialogue.show(version_of(this.session), this.session.agent_states);
  }
}

class RunCard {
  constructor(state) {
    this.state = state;
    this.title = h('h3', {});
    this.outcome = h('p', { class: 'outcome' });
    this.phases = h('ol', { class: 'phases' });
    this.element = opening(this.title, 'run', () => this.#read());
    this.columns = h('div', { class: 'columns', tabindex: '0' });
    this.element.append(this.phases, this.outcome, this.columns);
    this.cards = [];
  }

  draw(run) {
    this.run = run;
    set_text(this.title, `${run.scenario} · ${run.status}`);
    set_text(this.outcome, outcome_of(run));
    run.phases.forEach((phase, i) => {
      this.cards[i] ??= new PhaseCard(this.state, this.phases);
      this.cards[i].draw(phase, phase === latest_of(run));
    });
    const session = session_of(this.state, latest_of(run));
    this.columns.hidden = !session;
    if (session) draw_columns(this.columns, this.state, session);
    this.#read();
  }

  #read() {
    if (!this.element.open) return;
    for (const card of this.cards) card.read();
  }
}

/** The phase that is spoken in, or was last. */
const latest_of = (run) => run.phases.findLast((phase) => phase.status !== 'waiting');

/** A phase's session, where there is one. */
const session_of = (state, phase) =>
  state.sessions.find((each) => each.session_id === phase?.session_id);

class PhaseCard {
  constructor(state, place) {
    this.state = state;
    this.title = h('span', {});
    this.element = h('li', {}, this.title);
    place.append(this.element);
  }

  draw(phase, is_latest) {
    this.phase = phase;
    const turns = phase.status === 'waiting' ? '' : `, ${several(phase.turns, 'turn')}`;
    set_text(this.title, `${phase.phase}: ${phase.status}${turns}`);
    this.element.dataset.status = phase.status;
    if (!phase.session_id || phase.status === 'waiting') return;
    this.session = session_of(this.state, phase);
    if (!this.details) this.#begin(is_latest);
  }

  #begin(is_open) {
    this.dialogue = new Dialogue(this.phase.session_id);
    this.details = opening(this.title, 'phase', () => this.read());
    this.details.append(this.dialogue.list);
    this.details.open = is_open;
    this.element.append(this.details);
  }

  read() {
    if (!this.details?.open) return;
    const { status, turns } = this.phase;
    if (this.session) this.dialogue.show(version_of(this.session), this.session.agent_states);
    else this.dialogue.show(`${status} ${turns}`, []);
  }
}

/** What a run came to, of those that are over. */
function outcome_of({ outcome, payoff }) {
  if (!outcome) return '';
  const choices = Object.entries(outcome.choices ?? {}).map(([who, choice]) => `${who}: ${choice}`);
  const worth = payoff == null || payoff === '' ? [] : [`payoff ${text_of(payoff)}`];
  return [...choices, outcome.summary, ...worth].filter(Boolean).join(' · ');
}

const text_of = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/** A column for each agent: how much of each of its last turns was in memory. */
function draw_columns(place, state, session) {
  const columns = session.agent_states.map((agent) => [
    agent.display_name,
    `${agent.role || 'no role'}, ${several(agent.message_count, 'message')}; from memory:`,
    turns_of(state, session, agent.agent_id).map(
      (turn) => `${count(turn.reused_tokens)} of ${count(turn.prompt_tokens)} tokens`,
    ),
  ]);
  const key = JSON.stringify(columns);
  if (place.key === key) return;
  place.key = key;
  place.setAttribute('aria-label', `What the agents of ${session.session_id} had in memory`);
  place.setAttribute('role', 'region');
  place.replaceChildren(
    ...columns.map(([name, role, turns]) =>
      h(
        'div',
        {},
        h('strong', {}, name),
        h('p', { class: 'hint' }, role),
        turns.length
          ? h('ol', {}, ...turns.map((turn) => h('li', {}, turn)))
          : h('p', { class: 'hint' }, 'no turn seen yet'),
      ),
    ),
  );
}

/** Its memory is named after the session, or outlives it under a prefix. */
function turns_of(state, session, name) {
  const own = state.turns.get(`coord_${session.session_id}_${name}`);
  const lasting = [...state.turns].find(
    ([memory]) => memory.startsWith('persist_') && memory.endsWith(`_${name}`),
  );
  return own ?? lasting?.[1] ?? [];
}
