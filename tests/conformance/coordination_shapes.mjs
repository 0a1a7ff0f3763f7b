// SPDX-License-Identifier: Apache-2.0
// Sessions against the server binary: requests of an earlier system's clients are answered in the
// shapes that these know, field by field; every topology and debate format takes a round in its
// order, and every decision mode comes to its decision.

import assert from 'node:assert/strict';

import { call as call_path, events_of, expect as expect_path } from './coordination_calls.mjs';
import { main, make_folder, Server } from './harness.mjs';

const base = '/v1/coordination';
const greedy = { temperature: 0, max_tokens: 8 };

const call = (server, method, path, ...more) => call_path(server, method, base + path, ...more);
const expect = (status, server, method, path, ...more) =>
  expect_path(status, server, method, base + path, ...more);

/** 'string', 'number', ...; [shape] for a list of one or more; {key: shape} for an object that has
 *  at least these; a list of several for one of them; a RegExp for a string. */
function check(value, shape, path) {
  if (shape instanceof RegExp) return assert.match(value, shape, path);
  if (typeof shape === 'string') return assert.equal(typeof value, shape, path);
  if (shape === null) return assert.equal(value, null, path);
  if (typeof shape === 'function') return shape(value, path);
  if (Array.isArray(shape)) {
    assert.ok(Array.isArray(value) && value.length > 0, `${path} is a list with something in it`);
    return value.forEach((item, i) => check(item, shape[0], `${path}[${i}]`));
  }
  for (const [key, inner] of Object.entries(shape)) {
    assert.ok(value !== null && key in value, `${path}.${key} is there`);
    check(value[key], inner, `${path}.${key}`);
  }
}

const or_null = (shape) => (value, path) => value === null || check(value, shape, path);
const one_of =
  (...words) =>
  (value, path) =>
    assert.ok(words.includes(value), `${path}: ${value}`);

// As the earlier system's clients read them.
const message = {
  message_id: /^[0-9a-f]{12}$/,
  sender_id: 'string',
  sender_name: 'string',
  content: 'string',
  turn_number: 'number',
  channel_type: one_of('public', 'whisper'),
  is_interrupted: 'boolean',
};
// Of a turn in which nothing was said.
const silent = { ...message, message_id: /^$/, content: /^$/ };
const turn_message = (value, path) => check(value, value.content ? message : silent, path);
const status = {
  session_id: /^coord_[0-9a-f]{12}$/,
  current_turn: 'number',
  is_active: 'boolean',
  next_speaker: or_null('string'),
  agent_states: [
    {
      agent_id: 'string',
      display_name: 'string',
      role: 'string',
      message_count: 'number',
      lifecycle: one_of('ephemeral', 'permanent'),
    },
  ],
};

const names = ['Ada', 'Bob', 'Cid'];
const agents = (roles) =>
  names.map((name, i) => ({ agent_id: name.toLowerCase(), display_name: name, role: roles[i] }));

await main(
  {
    async 'an earlier client\'s requests are answered in its shapes, field by field'() {
      const server = await Server.start({ cache: make_folder() });
      const made = await expect(201, server, 'POST', '/sessions', {
        topology: 'turn_by_turn',
        debate_format: 'free_form',
        decision_mode: 'none',
        agents: [
          { agent_id: null, display_name: 'Pilot', role: 'participant', system_prompt: 'Sail.' },
          { agent_id: 'owner', display_name: 'Owner', lifecycle: 'permanent' },
        ],
        initial_prompt: 'Agree a fee.',
        per_agent_prompts: { Pilot: 'You want ten.', Nobody: 'is skipped' },
        max_turns: 8,
        persistent_cache_prefix: 'harbour',
        prior_agent_messages: {
          owner: [{ sender_id: 'x', sender_name: 'Clerk', content: 'The fee was five.' }],
        },
      });
      check(
        made,
        {
          session_id: /^coord_[0-9a-f]{12}$/,
          agents: [{ agent_id: 'string', display_name: 'string', role: 'string' }],
          topology: /^turn_by_turn$/,
          debate_format: /^free_form$/,
          decision_mode: /^none$/,
          status: /^active$/,
        },
        'created',
      );
      assert.match(made.agents[0].agent_id, /^agent_[0-9a-f]{8}$/);
      const path = `/sessions/${made.session_id}`;
      check(await expect(200, server, 'GET', '/sessions'), { sessions: [status] }, 'list');
      check(await expect(200, server, 'GET', path), status, 'status');
      const turn = await expect(200, server, 'POST', `${path}/turn`);
      check(turn, { message: turn_message, session_status: status }, 'turn');
      const round = await expect(200, server, 'POST', `${path}/round`);
      check(round, { messages: [turn_message], session_status: status }, 'round');
      const messages = await expect(200, server, 'GET', `${path}/messages`);
      check(messages, { session_id: 'string', messages: [message] }, 'messages');
      assert.deepEqual(
        [messages.messages[0].sender_name, messages.messages[0].content],
        ['System', 'Agree a fee.'],
        'and what one alone was told is not shown',
      );
      const whisper = { from_agent_id: 'owner', to_agent_id: made.agents[0].agent_id };
      check(
        await expect(200, server, 'POST', `${path}/whisper`, { ...whisper, content: 'Six?' }),
        { message: { ...message, channel_type: /^whisper$/ } },
        'whisper',
      );
      const vote = { agent_id: 'owner', question: 'Six?', choice: 'yes', ranking: [] };
      check(
        await expect(200, server, 'POST', `${path}/vote`, vote),
        { vote_id: /^[0-9a-f]{12}$/, agent_id: /^owner$/, choice: /^yes$/ },
        'vote',
      );
      await check_streams(server, path);
      await expect(204, server, 'DELETE', path);
      await expect(204, server, 'DELETE', '/caches/harbour');
      await server.stop();
    },

    async 'every topology takes a round with every format that it has, in its order'() {
      const server = await Server.start({ cache: make_folder() });
      const roles = ['moderator', 'participant', 'critic'];
      const orders = {
        free_form: 'ada bob cid',
        structured: 'ada bob cid',
        // Moderators ask before critics do.
        socratic: 'ada bob ada cid',
        devils_advocate: 'ada bob cid',
        parliamentary: 'ada bob cid',
      };
      let rounds = 0;
      for (const topology of ['turn_by_turn', 'round_robin', 'broadcast', 'whisper', 'interrupt'])
        for (const [debate_format, order] of Object.entries(orders)) {
          const opening = { topology, debate_format, agents: agents(roles) };
          if (topology === 'broadcast' && debate_format === 'socratic') {
            await expect(400, server, 'POST', '/sessions', opening);
            continue;
          }
          const { session_id } = await expect(201, server, 'POST', '/sessions', opening);
          const { messages, session_status } = await expect(
            200,
            server,
            'POST',
            `/sessions/${session_id}/round`,
            greedy,
          );
          const spoke = messages.map((one) => one.sender_id).join(' ');
          const what = `${topology}, ${debate_format}`;
          assert.equal(session_status.current_round, 1, what);
          if (['turn_by_turn', 'round_robin', 'broadcast'].includes(topology))
            assert.equal(spoke, order, what);
          else assert.equal(messages.length, 3, what);
          if (topology === 'whisper')
            assert.ok(messages.every((one) => one.recipient_id), `${what}: to one alone`);
          if (topology === 'interrupt')
            assert.ok(
              messages.every((one, i) => i === 0 || one.sender_id !== messages[i - 1].sender_id),
              `${what}: nobody twice in a row`,
            );
          await expect(204, server, 'DELETE', `/sessions/${session_id}`);
          rounds += 1;
        }
      assert.equal(rounds, 24);
      await server.stop();
    },

    async 'every decision mode comes to its decision, of agents and of clients'() {
      const server = await Server.start({ cache: make_folder() });
      const roles = ['moderator', 'participant', 'participant'];
      const choices = ['sea', 'hills'];
      // What ada, bob and cid vote for, and what it comes to.
      const modes = {
        none: [['sea', 'sea', 'hills'], 'open', null],
        majority_vote: [['hills', 'sea', 'sea'], 'closed', 'sea'],
        ranked_choice: [['hills', 'sea', 'sea'], 'closed', 'sea'],
        coordinator_decides: [['hills'], 'closed', 'hills'],
        consensus: [['sea', 'sea', 'sea'], 'closed', 'sea'],
      };
      for (const [decision_mode, [votes, ends, winner]] of Object.entries(modes)) {
        const opening = { decision_mode, agents: agents(roles) };
        const { session_id } = await expect(201, server, 'POST', '/sessions', opening);
        const path = `/sessions/${session_id}`;
        let last;
        for (const [i, choice] of votes.entries())
          last = await expect(200, server, 'POST', `${path}/vote`, {
            agent_id: names[i].toLowerCase(),
            question: 'Where to?',
            choice,
          });
        const { status: now, tally } = last.decision;
        assert.deepEqual([now, tally.winner], [ends, winner], decision_mode);
        const asked = { question: 'And then?', choices, temperature: 0 };
        const { decision } = await expect(200, server, 'POST', `${path}/decision`, asked);
        assert.equal(decision.status, decision_mode === 'none' ? 'open' : 'closed', decision_mode);
        for (const one of decision.votes) assert.ok(choices.includes(one.choice), decision_mode);
        assert.ok(decision.votes.length >= 1 || decision.tally.ballots > 1, decision_mode);
      }
      await server.stop();
    },
  },
  180_000,
);

async function check_streams(server, path) {
  const event = { agent_id: 'string', agent_name: 'string' };
  for (const [route, last] of [
    ['turn', 'turn_complete'],
    ['round', 'round_complete'],
  ]) {
    const events = events_of(await expect(200, server, 'POST', `${path}/${route}/stream`));
    assert.deepEqual([events[0][0], events.at(-1)[0]], ['turn_start', last]);
    for (const [name, data] of events) {
      if (name === 'turn_start') check(data, { ...event, turn: 'number' }, name);
      if (name === 'token') check(data, { ...event, text: 'string', accumulated: 'string' }, name);
      if (name === 'turn_complete')
        check(data, { ...event, content: 'string', turn: 'number' }, name);
      if (name === 'round_complete') check(data, { status: /^complete$/ }, name);
    }
  }
}
