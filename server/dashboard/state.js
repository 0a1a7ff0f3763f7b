// SPDX-License-Identifier: Apache-2.0
// What the page knows of the server, from the messages of /ws. Pure.

const EVENTS_MAX = 200;
const TURNS_MAX = 8; // of an agent

export function empty_state() {
  return {
    is_known: false, // a snapshot has come
    model: null,
    gauges: null,
    agents: new Map(),
    sessions: [],
    runs: [],
    nodes: [], // servers on one object store, this one first
    events: [], // the latest last
    step: null,
    turns: new Map(), // agent's name -> its last admitted events
  };
}

/** Two tenants may have agents of one name. */
export const key_of = (agent) => `${agent.tenant ?? ''}/${agent.agent_id}`;

function add_events(state, events) {
  state.events.push(...events);
  state.events.splice(0, Math.max(0, state.events.length - EVENTS_MAX));
  for (const event of events)
    if (event.event === 'admitted')
      state.turns.set(
        event.agent,
        [...(state.turns.get(event.agent) ?? []), event].slice(-TURNS_MAX),
      );
}

/** Applies one message. Returns: the names of the parts that have changed. */
export function apply(state, message) {
  if (message.type === 'snapshot') {
    Object.assign(state, empty_state(), {
      is_known: true,
      model: message.model,
      gauges: message.gauges,
      agents: new Map(message.agents.map((agent) => [key_of(agent), agent])),
      sessions: message.sessions,
      runs: message.runs,
      nodes: message.nodes,
    });
    add_events(state, message.recent);
    return ['agents', 'sessions', 'runs', 'nodes', 'model', 'gauges', 'step', 'events'];
  }
  if (message.type !== 'delta' || !state.is_known) return [];
  const changed = [];
  for (const part of ['sessions', 'runs', 'nodes', 'model', 'gauges', 'step'])
    if (message[part] !== undefined) {
      state[part] = message[part];
      changed.push(part);
    }
  if (message.agents) {
    for (const agent of message.agents.gone) state.agents.delete(key_of(agent));
    for (const agent of message.agents.changed) state.agents.set(key_of(agent), agent);
    changed.push('agents');
  }
  if (message.events) {
    add_events(state, message.events);
    changed.push('events');
  }
  return changed;
}
