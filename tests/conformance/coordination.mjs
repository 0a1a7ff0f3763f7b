// SPDX-License-Identifier: Apache-2.0
// Sessions of several agents against the server binary and its embedded model: turns, rounds side
// by side, whispers, votes, urgency, streams, repeated requests, agents that come back, tenants.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { call, events_of, expect } from './coordination_calls.mjs';
import { main, make_folder, Server } from './harness.mjs';

const base = '/v1/coordination/sessions';

const greedy = { temperature: 0, max_tokens: 16 };
const agents = (...names) =>
  names.map((name) => ({ agent_id: name.toLowerCase(), display_name: name }));
const open = (server, fields) => expect(201, server, 'POST', base, fields);

await main({
  async 'turns are taken in order, each goes on where its agent was, and the end is a 409'() {
    const server = await Server.start({ cache: make_folder() });
    const made = await open(server, {
      agents: agents('Ada', 'Bob'),
      initial_prompt: 'You meet at the harbour.',
      max_turns: 6,
    });
    assert.deepEqual(
      [made.topology, made.debate_format, made.decision_mode, made.status],
      ['turn_by_turn', 'free_form', 'none', 'active'],
    );
    const path = `${base}/${made.session_id}`;
    const before = await expect(200, server, 'GET', path);
    assert.deepEqual(
      [before.current_turn, before.is_active, before.next_speaker],
      [0, true, 'ada'],
    );
    const seen = { ada: 0, bob: 0 };
    for (let turn = 0; turn < 6; turn++) {
      const { message, session_status, semantic } = await expect(
        200,
        server,
        'POST',
        `${path}/turn`,
        greedy,
      );
      const speaker = turn % 2 === 0 ? 'ada' : 'bob';
      assert.deepEqual([message.sender_id, message.turn_number], [speaker, turn]);
      assert.equal(message.channel_type, 'public');
      assert.equal(session_status.current_turn, turn + 1);
      assert.equal(semantic.agent, `coord_${made.session_id}_${speaker}`);
      // All that the agent had read and said before is still there.
      assert.ok(
        semantic.reused_tokens >= seen[speaker],
        `turn ${turn}: ${semantic.reused_tokens} of ${seen[speaker]}`,
      );
      seen[speaker] = semantic.prompt_tokens;
    }
    const over = await expect(409, server, 'POST', `${path}/turn`, greedy);
    assert.match(over.error.message, /is not active/);
    assert.equal((await call(server, 'POST', `${path}/turn/stream`, greedy)).status, 409);
    const { messages } = await expect(200, server, 'GET', `${path}/messages`);
    assert.equal(messages[0].sender_name, 'System');
    assert.equal(messages[0].content, 'You meet at the harbour.');
    await expect(204, server, 'DELETE', path);
    for (const request of [
      ['GET', path],
      ['DELETE', path],
      ['GET', `${path}/messages`],
      ['GET', `${path}/votes`],
      ['POST', `${path}/turn`, {}],
      ['POST', `${path}/round`, {}],
      ['POST', `${path}/turn/stream`, {}],
      ['POST', `${path}/round/stream`, {}],
      ['POST', `${path}/whisper`, { from_agent_id: 'a', to_agent_id: 'b', content: 'x' }],
      ['POST', `${path}/vote`, { agent_id: 'a', question: 'q', choice: 'c' }],
      ['POST', `${path}/decision`, { question: 'q', choices: ['a', 'b'] }],
    ])
      await expect(404, server, ...request);
    assert.equal((await expect(200, server, 'GET', '/v1/agents')).total, 0, 'nothing is left');
    await server.stop();
  },

  async 'in a hundred messages of three agents every turn from the second on extends'() {
    const count = Number(process.env.COORDINATION_MESSAGES ?? 100);
    const server = await Server.start({ cache: make_folder() });
    const { session_id } = await open(server, {
      agents: agents('Ada', 'Bob', 'Cid'),
      initial_prompt: 'You meet at the harbour and tell each other what you see.',
    });
    const path = `${base}/${session_id}`;
    const matches = {};
    const computed = [];
    for (let turn = 0; turn < count; turn++) {
      const { semantic } = await expect(200, server, 'POST', `${path}/turn`, greedy);
      if (turn > 0) matches[semantic.match] = (matches[semantic.match] ?? 0) + 1;
      computed.push(semantic.computed_tokens);
      assert.equal(semantic.computed_tokens + semantic.reused_tokens, semantic.prompt_tokens);
    }
    assert.deepEqual(matches, { extend: count - 1 }, 'match of each turn');
    // What a turn computes does not grow with what was said before it.
    const most = (from, to) => Math.max(...computed.slice(from, to));
    assert.ok(most(count - 30, count) <= most(3, 30) + 8, `${computed}`);
    await server.stop();
  },

  async 'a session is back after kill -9 as its last acknowledged turn left it'() {
    const kills = Number(process.env.COORDINATION_KILLS ?? 6);
    const turns = 2 * kills;
    const opening = {
      agents: [...agents('Ada', 'Bob'), { agent_id: 'cid', display_name: 'Cid', role: 'critic' }],
      initial_prompt: 'My boat is called Biscuit. What is my boat called?',
    };
    const said = async (server, path) =>
      (await expect(200, server, 'GET', `${path}/messages`)).messages.map((one) => one.content);
    let server = await Server.start({ cache: make_folder() });
    const whole = `${base}/${(await open(server, opening)).session_id}`;
    const vote = { agent_id: 'ada', question: 'Now?', choice: 'yes' };
    await expect(200, server, 'POST', `${whole}/vote`, vote);
    for (let turn = 0; turn < turns; turn++)
      await expect(200, server, 'POST', `${whole}/turn`, greedy);
    const expected = await said(server, whole);
    await server.stop();

    const cache = make_folder();
    server = await Server.start({ cache });
    const path = `${base}/${(await open(server, opening)).session_id}`;
    await expect(200, server, 'POST', `${path}/vote`, vote);
    let acknowledged = 0;
    for (let kill = 0; kill < kills; kill++) {
      const take = Math.floor(Math.random() * 2);
      for (let i = 0; i < take && acknowledged < turns; i++, acknowledged++)
        await expect(200, server, 'POST', `${path}/turn`, greedy);
      if (acknowledged >= turns) break;
      const cut = call(server, 'POST', `${path}/turn${kill % 2 ? '/stream' : ''}`, greedy);
      const answered = cut.then(
        () => 1,
        () => 0,
      );
      await sleep(Math.random() * 120);
      await server.kill();
      acknowledged += (await answered) ? 1 : 0;
      server = await Server.start({ cache });
      const now = await expect(200, server, 'GET', path);
      // The turn that was cut off may have been taken, and its reply lost.
      const more = now.current_turn - acknowledged;
      assert.ok(more === 0 || more === 1, `${now.current_turn} of ${acknowledged}`);
      acknowledged = now.current_turn;
      const { questions } = await expect(200, server, 'GET', `${path}/votes`);
      assert.equal(questions[0].votes[0].choice, 'yes');
    }
    for (; acknowledged < turns; acknowledged++)
      await expect(200, server, 'POST', `${path}/turn`, greedy);
    const { current_turn } = await expect(200, server, 'GET', path);
    assert.equal(current_turn, turns);
    assert.deepEqual(await said(server, path), expected);
    await expect(204, server, 'DELETE', path);
    await server.kill();
    server = await Server.start({ cache });
    assert.deepEqual((await expect(200, server, 'GET', base)).sessions, []);
    assert.equal((await expect(200, server, 'GET', '/v1/agents')).total, 0);
    await server.stop();
  },

  async 'a long session is kept in parts, is back after kill -9, and leaves nothing behind'() {
    const cache = make_folder();
    let server = await Server.start({ cache });
    const { session_id } = await open(server, { agents: agents('Ada', 'Bob') });
    const path = `${base}/${session_id}`;
    const said = async () => (await expect(200, server, 'GET', `${path}/messages`)).messages;
    const turns = async (count) => {
      for (let i = 0; i < count; i++)
        await expect(200, server, 'POST', `${path}/turn`, { ...greedy, max_tokens: 4 });
    };
    const records = () => readdirSync(join(cache, 'records')).length;
    await turns(140);
    // The session, two parts of 64 lines, and one of 64 exchanges of each agent.
    assert.ok((await said()).length >= 128, 'as many as fill two parts');
    assert.equal(records(), 5);
    const before = await said();
    await server.kill();
    server = await Server.start({ cache });
    assert.deepEqual(await said(), before);
    const { semantic } = await expect(200, server, 'POST', `${path}/turn`, greedy);
    assert.equal(semantic.match, 'extend');
    await expect(204, server, 'DELETE', path);
    assert.equal(records(), 0);
    await server.stop();
  },

  async 'a broadcast is answered side by side, and a stream says the same as the transcript'() {
    const server = await Server.start({ cache: make_folder() });
    const { session_id } = await open(server, {
      topology: 'broadcast',
      agents: agents('Ada', 'Bob', 'Cid'),
      initial_prompt: 'What is your favourite colour?',
    });
    const path = `${base}/${session_id}`;
    const first = await expect(200, server, 'POST', `${path}/round`, greedy);
    assert.deepEqual(
      first.messages.map((one) => one.sender_id),
      ['ada', 'bob', 'cid'],
    );
    assert.equal(first.semantic.length, 3);
    assert.equal(first.session_status.current_round, 1);
    const events = events_of(await expect(200, server, 'POST', `${path}/round/stream`, greedy));
    const names = events.map(([name]) => name).filter((name) => name !== 'token');
    const turn = ['turn_start', 'turn_complete'];
    assert.deepEqual(names, [...turn, ...turn, ...turn, 'round_complete']);
    const { messages } = await expect(200, server, 'GET', `${path}/messages`);
    const told = events.filter(([name]) => name === 'turn_complete').map(([, data]) => data);
    assert.deepEqual(
      told.filter((one) => one.content).map((one) => one.content),
      messages.filter((one) => one.turn_number >= 3).map((one) => one.content),
    );
    for (const one of told) {
      const tokens = events
        .filter(([name, data]) => name === 'token' && data.agent_id === one.agent_id)
        .map(([, data]) => data);
      assert.equal(tokens.map((token) => token.text).join(''), tokens.at(-1)?.accumulated ?? '');
    }
    await server.stop();
  },

  async 'a whisper is for two alone, and answered alone'() {
    const server = await Server.start({ cache: make_folder() });
    const { session_id } = await open(server, {
      topology: 'whisper',
      agents: agents('Ada', 'Bob', 'Cid'),
    });
    const path = `${base}/${session_id}`;
    const sent = { from_agent_id: 'cid', to_agent_id: 'ada', content: 'The key is under the mat.' };
    const { message } = await expect(200, server, 'POST', `${path}/whisper`, sent);
    assert.deepEqual(
      [message.channel_type, message.sender_id, message.recipient_id],
      ['whisper', 'cid', 'ada'],
    );
    const turn = await expect(200, server, 'POST', `${path}/turn`, greedy);
    assert.deepEqual([turn.message.sender_id, turn.message.recipient_id], ['ada', 'cid']);
    const shown = async (query) =>
      (await expect(200, server, 'GET', `${path}/messages${query}`)).messages.length;
    assert.equal(await shown(''), 0);
    assert.equal(await shown('?agent_id=bob'), 0);
    assert.ok((await shown('?agent_id=cid')) >= 1);
    await expect(404, server, 'GET', `${path}/messages?agent_id=zed`);
    await expect(404, server, 'POST', `${path}/whisper`, { ...sent, to_agent_id: 'zed' });
    await expect(400, server, 'POST', `${path}/whisper`, { ...sent, to_agent_id: 'cid' });
    await expect(400, server, 'POST', `${path}/whisper`, { ...sent, content: '' });
    await expect(400, server, 'POST', `${path}/whisper`, { ...sent, content: 'x'.repeat(5001) });
    await server.stop();
  },

  async 'agents and clients vote, and all are told what came of it'() {
    const server = await Server.start({ cache: make_folder() });
    for (const decision_mode of ['majority_vote', 'ranked_choice', 'coordinator_decides']) {
      const { session_id } = await open(server, {
        decision_mode,
        agents: agents('Ada', 'Bob', 'Cid'),
      });
      const path = `${base}/${session_id}`;
      const asked = { question: 'Where do we go?', choices: ['sea', 'hills'], temperature: 0 };
      const { decision } = await expect(200, server, 'POST', `${path}/decision`, asked);
      assert.equal(decision.status, 'closed');
      assert.equal(decision.votes.length, decision_mode === 'coordinator_decides' ? 1 : 3);
      for (const one of decision.votes) assert.ok(asked.choices.includes(one.choice));
      const { questions } = await expect(200, server, 'GET', `${path}/votes`);
      assert.deepEqual(questions, [decision]);
      const { messages } = await expect(200, server, 'GET', `${path}/messages`);
      assert.match(messages.at(-1).content, /^Vote on "Where do we go\?": /);
      await expect(409, server, 'POST', `${path}/decision`, asked);
    }
    const { session_id } = await open(server, {
      decision_mode: 'majority_vote',
      agents: agents('Ada', 'Bob'),
    });
    const path = `${base}/${session_id}/vote`;
    const vote = { agent_id: 'ada', question: 'Now?', choice: 'yes' };
    const key = { 'idempotency-key': 'k1' };
    const first = await expect(200, server, 'POST', path, vote, key);
    assert.equal(first.choice, 'yes');
    assert.deepEqual(await expect(200, server, 'POST', path, vote, key), first);
    await expect(409, server, 'POST', path, { ...vote, choice: 'no' }, key);
    await expect(404, server, 'POST', path, { ...vote, agent_id: 'zed' });
    const { decision } = await expect(200, server, 'POST', path, { ...vote, agent_id: 'bob' });
    assert.deepEqual([decision.status, decision.tally.winner], ['closed', 'yes']);
    await server.stop();
  },

  async 'who wants to speak most does, and nobody twice in a row'() {
    const server = await Server.start({ cache: make_folder() });
    const { session_id } = await open(server, {
      topology: 'interrupt',
      agents: agents('Ada', 'Bob', 'Cid'),
    });
    let last = '';
    for (let turn = 0; turn < 3; turn++) {
      const path = `${base}/${session_id}/turn`;
      const { message, session_status } = await expect(200, server, 'POST', path, greedy);
      assert.notEqual(message.sender_id, last);
      assert.equal(session_status.next_speaker, null);
      last = message.sender_id;
    }
    await server.stop();
  },

  async 'a turn with a key is taken once, as a body and as a stream'() {
    const server = await Server.start({ cache: make_folder() });
    const { session_id } = await open(server, { agents: agents('Ada', 'Bob') });
    const path = `${base}/${session_id}`;
    const turn = (route, key) =>
      call(server, 'POST', path + route, greedy, { 'idempotency-key': key });
    const first = await turn('/turn', 'one');
    assert.deepEqual(await turn('/turn', 'one'), first);
    const streamed = await turn('/turn/stream', 'two');
    assert.deepEqual(await turn('/turn/stream', 'two'), streamed);
    assert.equal((await turn('/turn/stream', 'one')).status, 409);
    assert.equal((await turn('/turn', 'x'.repeat(257))).status, 400);
    assert.equal((await turn('/turn', 'x'.repeat(256))).status, 200);
    assert.equal((await expect(200, server, 'GET', path)).current_turn, 3);
    // Of two bodies too large to be read where requests are, the key knows one from the other.
    const large = (fill) => ({ ...greedy, padding: fill.repeat(100_000) });
    const keyed = { 'idempotency-key': 'large' };
    const before = await call(server, 'POST', `${path}/turn`, large('a'), keyed);
    assert.equal(before.status, 200);
    assert.deepEqual(await call(server, 'POST', `${path}/turn`, large('a'), keyed), before);
    assert.equal((await call(server, 'POST', `${path}/turn`, large('b'), keyed)).status, 409);
    const both = await Promise.all([
      call(server, 'POST', `${path}/round`, greedy),
      turn('/turn', 'three'),
    ]);
    assert.deepEqual(both.map((one) => one.status).sort(), [200, 409], 'one at a time');
    await server.stop();
  },

  async 'a permanent agent goes on in the next session, and after a restart, until forgotten'() {
    const cache = make_folder();
    let server = await Server.start({ cache });
    const fields = (prefix) => ({
      agents: [{ agent_id: 'ada', display_name: 'Ada', lifecycle: 'permanent' }, ...agents('Bob')],
      initial_prompt: 'Remember: the boat is called Biscuit.',
      persistent_cache_prefix: prefix,
    });
    const speak = async (prefix) => {
      const { session_id } = await open(server, fields(prefix));
      const path = `${base}/${session_id}`;
      const { semantic } = await expect(200, server, 'POST', `${path}/turn`, greedy);
      await expect(204, server, 'DELETE', path);
      return semantic;
    };
    const first = await speak('boats');
    assert.equal(first.agent, 'persist_boats_ada');
    const second = await speak('boats');
    assert.ok(second.reused_tokens >= first.prompt_tokens, 'the first session is still there');
    await server.stop();
    server = await Server.start({ cache });
    const third = await speak('boats');
    assert.ok(third.reused_tokens >= second.prompt_tokens, 'the second, too');
    await speak('boats_2');
    await expect(204, server, 'DELETE', '/v1/coordination/caches/boats');
    const { agents: left } = await expect(200, server, 'GET', '/v1/agents');
    assert.deepEqual(
      left.map((one) => one.agent_id),
      ['persist_boats__2_ada'],
    );
    await expect(400, server, 'DELETE', '/v1/coordination/caches/a%2Fb');
    await server.stop();
  },

  async 'a session is its key\'s alone, and what is wrong with one is said by its path'() {
    const server = await Server.start({ cache: make_folder(), args: ['--api-key', 'one,two'] });
    const as = (name) => ({ 'x-api-key': name });
    const fields = { agents: agents('Ada') };
    const { session_id } = await expect(201, server, 'POST', base, fields, as('one'));
    const path = `${base}/${session_id}`;
    await expect(404, server, 'GET', path, undefined, as('two'));
    await expect(404, server, 'POST', `${path}/turn`, greedy, as('two'));
    await expect(404, server, 'DELETE', path, undefined, as('two'));
    await expect(401, server, 'GET', path);
    const listed = async (name) =>
      (await expect(200, server, 'GET', base, undefined, as(name))).sessions;
    assert.equal((await listed('two')).length, 0);
    assert.equal((await listed('one'))[0].agent_states[0].display_name, 'Ada');
    const bad = await expect(400, server, 'POST', base, { ...fields, topology: 'zzz' }, as('one'));
    assert.match(bad.error.message, /^topology: must be one of turn_by_turn, /);
    assert.equal(bad.type, undefined, 'in the words of the native API');
    await expect(400, server, 'POST', `${path}/turn`, { max_tokens: 0 }, as('one'));
    await expect(400, server, 'POST', `${path}/round`, { agent_id: 'ada' }, as('one'));
    await server.stop();
  },
});
