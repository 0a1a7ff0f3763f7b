// SPDX-License-Identifier: Apache-2.0
// Runs of scenarios last: killed at random moments between and within phases, cancelled, left by
// their client, and resumed, each says the same as one that nobody disturbed.
// SCENARIO_KILLS: how often the server is killed (5). SCENARIO_MODEL: of another model.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { call as call_path } from './coordination_calls.mjs';
import { main, make_folder, Server } from './harness.mjs';

const base = '/v1/coordination';
const scenario = 'prisoners-dilemma';
const model = process.env.SCENARIO_MODEL ? ['--model', process.env.SCENARIO_MODEL] : [];
const start = (cache) => Server.start({ cache, args: model });
const how = { temperature: 0, max_tokens: 16 };

const call = (server, method, path, ...more) => call_path(server, method, base + path, ...more);

/** The events of a run, as they come; `seen(name, data)` may end them by returning false. Resolves
 *  with the last event's name, or with nothing when the server is gone. */
async function follow(server, path, seen) {
  const leave = new AbortController();
  let last;
  try {
    const answer = await fetch(server.url + base + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(path.endsWith('/runs') ? how : {}),
      signal: leave.signal,
    });
    assert.equal(answer.status, 200);
    let text = '';
    const decoder = new TextDecoder();
    for await (const bytes of answer.body) {
      text += decoder.decode(bytes, { stream: true });
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const [, name, data] = text.slice(0, end).match(/^event: (.*)\ndata: (.*)$/s);
        text = text.slice(end + 2);
        if (name === 'ping') continue;
        last = name;
        if ((await seen?.(name, JSON.parse(data))) === false) leave.abort();
      }
    }
    return last;
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return undefined;
  }
}

const state_of = async (server, id) => (await call(server, 'GET', `/runs/${id}`)).body;

/** What was said in all phases: [[phase, name, content]]. */
async function transcript(server, id) {
  const said = [];
  for (const { phase, session_id } of (await state_of(server, id)).phases) {
    const { status, body } = await call(server, 'GET', `/sessions/${session_id}/messages`);
    assert.equal(status, 200, phase);
    for (const one of body.messages) said.push([phase, one.sender_name, one.content]);
  }
  return said;
}

async function undisturbed() {
  const server = await start(make_folder());
  const began = Date.now();
  let id;
  const last = await follow(server, `/scenarios/${scenario}/runs`, (name, data) => {
    if (name === 'run_start') id = data.run_id;
  });
  assert.equal(last, 'run_complete');
  const took = Date.now() - began;
  const { status, outcome, payoff } = await state_of(server, id);
  assert.equal(status, 'complete');
  const said = await transcript(server, id);
  await server.stop();
  return { said, took, result: { outcome, payoff } };
}

await main({
  async 'a run that is killed again and again goes on, and says what it would have said'() {
    const kills = Number(process.env.SCENARIO_KILLS ?? 5);
    const expected = await undisturbed();
    let left = kills;
    let at_ends = 0;
    while (left > 0) {
      const cache = make_folder();
      let server = await start(cache);
      let id;
      let last;
      let at_boundary = () => {};
      const seen = (name, data) => {
        if (name === 'run_start') id = data.run_id;
        if (name === 'phase_complete') at_boundary();
      };
      while (last !== 'run_complete') {
        const path = id ? `/runs/${id}/resume` : `/scenarios/${scenario}/runs`;
        const followed = follow(server, path, seen);
        if (left > 0) {
          // Every fourth as soon as a phase is over, all others whenever that is.
          const boundary = new Promise((resolve) => (at_boundary = resolve));
          const moment = sleep(Math.random() * expected.took * 0.6);
          await Promise.race([left % 4 === 0 ? boundary : moment, followed]);
          // What is over cannot be killed: it counts for nothing.
          const over = await Promise.race([followed, sleep(1, 'no')]);
          if (over !== 'run_complete') {
            at_ends += left % 4 === 0 ? 1 : 0;
            left -= 1;
            await server.kill();
            await followed;
            server = await start(cache);
            continue;
          }
        }
        last = await followed;
        assert.equal(last, 'run_complete');
      }
      assert.deepEqual(await transcript(server, id), expected.said);
      const { status, outcome, payoff } = await state_of(server, id);
      assert.equal(status, 'complete');
      assert.deepEqual({ outcome, payoff }, expected.result);
      await server.stop();
    }
    console.log(`  ${kills} kills, ${at_ends} of them as soon as a phase was over`);
  },

  async 'a run can be cancelled, left and resumed, and its end can be asked for again'() {
    const expected = await undisturbed();
    const server = await start(make_folder());
    let id;
    let turns = 0;
    const last = await follow(server, `/scenarios/${scenario}/runs`, async (name, data) => {
      if (name === 'run_start') id = data.run_id;
      if (name !== 'turn_complete' || ++turns !== 2) return;
      assert.equal((await state_of(server, id)).status, 'running');
      assert.equal((await call(server, 'POST', `/runs/${id}/resume`, {})).status, 409);
      assert.equal((await call(server, 'DELETE', `/runs/${id}`)).status, 409);
      const { status, body } = await call(server, 'POST', `/runs/${id}/cancel`, {});
      assert.deepEqual([status, body.status], [200, 'stopped']);
    });
    assert.equal(last, 'run_stopped');
    const stopped = await state_of(server, id);
    assert.deepEqual(
      stopped.phases.map((phase) => phase.status),
      ['begun', 'waiting', 'waiting', 'waiting', 'waiting'],
    );
    // Whoever leaves stops it, too.
    turns = 0;
    const stays = (name) => name !== 'turn_complete' || ++turns <= 4;
    await follow(server, `/runs/${id}/resume`, stays);
    for (let i = 0; i < 200 && (await state_of(server, id)).status === 'running'; i++)
      await sleep(20);
    assert.equal((await state_of(server, id)).status, 'stopped');
    assert.equal(await follow(server, `/runs/${id}/resume`), 'run_complete');
    assert.deepEqual(await transcript(server, id), expected.said);
    assert.equal(await follow(server, `/runs/${id}/resume`), 'run_complete', 'once more');
    const { runs } = (await call(server, 'GET', '/runs')).body;
    assert.deepEqual(
      runs.map((run) => [run.run_id, run.scenario, run.status]),
      [[id, scenario, 'complete']],
    );
    assert.equal((await call(server, 'DELETE', `/runs/${id}`)).status, 204);
    for (const [method, path] of [
      ['GET', `/runs/${id}`],
      ['DELETE', `/runs/${id}`],
      ['POST', `/runs/${id}/resume`],
      ['POST', `/runs/${id}/cancel`],
    ]) {
      const { status } = await call(server, method, path, method === 'POST' ? {} : undefined);
      assert.equal(status, 404, path);
    }
    await server.stop();
  },

  async 'a run whose phase was deleted does not take it again'() {
    const server = await start(make_folder());
    let id;
    const last = await follow(server, `/scenarios/${scenario}/runs`, (name, data) => {
      if (name === 'run_start') id = data.run_id;
    });
    assert.equal(last, 'run_complete');
    const { phases } = await state_of(server, id);
    assert.equal((await call(server, 'DELETE', `/sessions/${phases[1].session_id}`)).status, 204);
    assert.equal((await state_of(server, id)).status, 'stopped');
    let why;
    const end = await follow(server, `/runs/${id}/resume`, (name, data) => {
      if (name === 'error') why = data;
    });
    assert.equal(end, 'error');
    assert.match(why.error.message, /interrogation_danny was deleted/);
    await server.stop();
  },
}, Number(process.env.SCENARIO_KILLS ?? 5) > 5 ? 3_000_000 : 280_000);
