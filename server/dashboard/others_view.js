// Models with their exchange, coordination sessions with each agent's reuse, and scenario runs.

import { call } from './api.js';
import { attempt } from './agents_view.js';
import { at, bytes, count, h, notice, set_text, several } from './dom.js';
import { first_session } from './first_steps.js';

const SESSIONS_MAX = 20;

export class ModelsView {
  constructor(state) {
    this.state = state;
  }

  draw() {
    const { model } = this.state;
    if (!model) return;
    set_text(at('model'), model.running ?? '');
    const target = model.target ? `, then ${model.target}` : '';
    const part = model.phase === 'loading' ? ` ${Math.round(model.fraction * 100)} %` : '';
    const why = model.why ? `. ${model.why}` : '';
    const name = model.running ?? 'no model';
    set_text(at('model-phase'), `${name}: ${model.phase}${part}${target}${why}`);
    at('model-list').replaceChildren(...model.known.map((known) => this.#line(known, model)));
    if (model.phase === 'ready') this.#describe(model.running);
    else this.described = undefined; // its recipe may be another one afterwards
  }

  /** What the running model is: its context, and what its agents' memories take. */
  async #describe(name) {
    if (name === this.described) return;
    this.described = name;
    try {
      const { data } = await (await call('GET', '/v1/models')).json();
      const found = data.find((each) => each.id === name);
      if (this.described !== name) return;
      at('model-facts').replaceChildren(...(found ? facts(found) : []));
    } catch (error) {
      this.described = undefined;
      notice(error.message);
    }
  }

  #line(known, model) {
    if (known.id === model.running) return h('li', {}, h('strong', {}, known.id), 'runs');
    const swap = () =>
      attempt(async () => {
        notice(`${known.id} is being loaded`);
        await call('POST', '/admin/models/swap', { model_id: known.id }, { is_admin: true });
        notice(`${known.id} runs`);
      });
    return h(
      'li',
      {},
      known.id,
      h('button', { type: 'button', 'aria-label': `Run ${known.id}`, onclick: swap }, 'Run'),
      known.failure ? h('span', { class: 'hint' }, known.failure) : null,
    );
  }
}

/** Terms and their values, as children of a list of definitions. */
function facts(model) {
  const fact = (term, text) => (text ? [h('dt', {}, term), h('dd', {}, text)] : []);
  const { context_length, kv_recipe, kv_recipe_reason, kv_bytes_per_token } = model;
  const why = kv_recipe_reason ? `: ${kv_recipe_reason}` : '';
  return [
    ...fact('Context', context_length && several(context_length, 'token')),
    ...fact('Keys and values', kv_recipe && `${kv_recipe}${why}`),
    ...fact('Of a token', kv_bytes_per_token && `${bytes(kv_bytes_per_token)} in the pool`),
    ...fact(
      'The pool holds',
      model.agents_4k &&
        `${several(model.agents_4k, 'agent')} of 4,096 tokens, ` +
          `${count(model.agents_16k)} of 16,384`,
    ),
  ];
}

export class SessionsView {
  constructor(state) {
    this.state = state;
  }

  draw() {
    const { sessions, runs } = this.state;
    at('run-list').replaceChildren(...runs.slice(-SESSIONS_MAX).reverse().map(run_of));
    const shown = sessions
      .slice(-SESSIONS_MAX)
      .reverse()
      .map((each) => this.#session(each));
    const is_empty = shown.length === 0 && runs.length === 0;
    // What is selected there to be copied stays selected.
    if (is_empty && this.is_empty) return;
    this.is_empty = is_empty;
    at('session-list').replaceChildren(...(is_empty ? first_session() : shown));
  }

  #session(session) {
    const next = session.next_speaker ? `, ${session.next_speaker} next` : '';
    const state = session.is_active ? `turn ${session.current_turn}${next}` : 'over';
    return h(
      'div',
      { class: 'session' },
      h('h3', {}, `${session.session_id} · ${state}`),
      h(
        'div',
        { class: 'columns', tabindex: '0' },
        ...session.agent_states.map((agent) => this.#column(session, agent)),
      ),
    );
  }

  /** An agent, and how much of each of its last turns was in memory. */
  #column(session, agent) {
    const turns = this.#turns_of(session, agent.agent_id).map((turn) =>
      h('li', {}, `${count(turn.reused_tokens)} of ${count(turn.prompt_tokens)} tokens`),
    );
    return h(
      'div',
      {},
      h('strong', {}, agent.display_name),
      h(
        'p',
        { class: 'hint' },
        `${agent.role || 'no role'}, ${several(agent.message_count, 'message')}; from memory:`,
      ),
      turns.length ? h('ol', {}, ...turns) : h('p', { class: 'hint' }, 'no turn seen yet'),
    );
  }

  /** Its memory is named after the session, or outlives it under a prefix. */
  #turns_of(session, name) {
    const own = this.state.turns.get(`coord_${session.session_id}_${name}`);
    const lasting = [...this.state.turns].find(
      ([memory]) => memory.startsWith('persist_') && memory.endsWith(`_${name}`),
    );
    return own ?? lasting?.[1] ?? [];
  }
}

function run_of(run) {
  const phases = run.phases.map(
    ({ phase, status, turns }) => `${phase}: ${status}, ${several(turns, 'turn')}`,
  );
  return h(
    'div',
    { class: 'run' },
    h('h3', {}, `${run.scenario} · ${run.status}`),
    h('ul', {}, ...phases.map((phase) => h('li', {}, phase))),
  );
}
