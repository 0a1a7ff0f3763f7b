// SPDX-License-Identifier: Apache-2.0
// Scenarios against the server binary and its embedded model: runs of those that are shipped, with
// what each phase computed and reused, and what is wrong with a client's own.

import assert from 'node:assert/strict';

import { call, events_of } from './coordination_calls.mjs';
import { main, make_folder, Server } from './harness.mjs';

const base = '/v1/coordination/scenarios';

/** [[name, data]] of a run's stream. */
async function run(server, id, fields = {}) {
  const { status, body } = await call(server, 'POST', `${base}/${id}/runs`, {
    temperature: 0,
    max_tokens: 24,
    ...fields,
  });
  assert.equal(status, 200, body);
  return events_of(body);
}

/** What each phase's turns came to: {name, turns, computed, reused, matches}, these without the
 *  first turn of each agent, which has nothing yet to extend. */
function phases_of(events) {
  const phases = [];
  const known = new Set();
  for (const [name, data] of events) {
    if (name === 'phase_start')
      phases.push({ name: data.phase, turns: 0, computed: 0, reused: 0, matches: {} });
    if (name !== 'turn_complete') continue;
    const { computed_tokens, reused_tokens, match } = data.semantic;
    const phase = phases.at(-1);
    phase.turns += 1;
    phase.computed += computed_tokens;
    phase.reused += reused_tokens;
    if (known.has(data.agent_id)) phase.matches[match] = (phase.matches[match] ?? 0) + 1;
    known.add(data.agent_id);
  }
  return phases;
}

const show = (phases) =>
  phases
    .map((p) => `  ${p.name}: ${p.turns} turns, ${p.computed} computed, ${p.reused} reused`)
    .join('\n');

await main({
  async 'those that are shipped are listed and run, and who remembers reads only what is new'() {
    const server = await Server.start({ cache: make_folder() });
    const listed = (await call(server, 'GET', base)).body.scenarios;
    const turns = {
      'prisoners-dilemma': [6, 6, 4, 6, 3],
      gossip: [6, 6, 6],
      relay: [2, 4, 3],
      'expert-routing': [10, 3, 3, 3],
    };
    assert.deepEqual(listed.map((one) => one.id).sort(), Object.keys(turns).sort());
    for (const { id, phases } of listed) {
      const events = await run(server, id);
      const names = events.map(([name]) => name);
      assert.deepEqual([names[0], names.at(-1)], ['run_start', 'run_complete']);
      const taken = phases_of(events);
      assert.deepEqual(
        taken.map((phase) => phase.name),
        phases.map((phase) => phase.name),
      );
      assert.deepEqual(
        taken.map((phase) => phase.turns),
        turns[id],
      );
      console.log(`${id}:\n${show(taken)}`);
      for (const phase of taken)
        assert.deepEqual(Object.keys(phase.matches), phase.matches.extend ? ['extend'] : []);
    }
    // Without memories the same turns are taken, and everything is quoted.
    const forgetful = phases_of(await run(server, 'gossip', { persistent: false }));
    assert.deepEqual(
      forgetful.map((phase) => phase.turns),
      turns.gossip,
    );
    await server.stop();
  },

  async 'a scenario of a client runs, and its faults are told with their lines'() {
    const server = await Server.start({ cache: make_folder() });
    const yaml = `id: two
title: Two
agents:
  a: {display_name: Ada}
  b: {display_name: Bob}
phases:
  - {name: one, label: One, agents: [a, b], auto_rounds: 1, initial_prompt: "Greet."}
`;
    const events = await run(server, 'two', { yaml });
    assert.equal(events.filter(([name]) => name === 'turn_complete').length, 2);
    const { outcome } = events.at(-1)[1];
    assert.equal(outcome.summary, events.findLast(([n]) => n === 'turn_complete')[1].content);
    const bad = await call(server, 'POST', `${base}/two/runs`, {
      yaml: yaml.replace('agents: [a, b]', 'agents: [a, c]'),
    });
    assert.equal(bad.status, 400);
    assert.match(JSON.stringify(bad.body), /line 7: phases\[0\]\.agents\[1\]: there is no agent c/);
    assert.equal((await call(server, 'POST', `${base}/three/runs`, { yaml })).status, 400);
    assert.equal((await call(server, 'POST', `${base}/three/runs`, {})).status, 404);
    await server.stop();
  },
});
