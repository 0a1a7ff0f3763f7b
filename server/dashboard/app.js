// SPDX-License-Identifier: Apache-2.0
// The page: messages of /ws into the state, what has changed into its views, once a frame.

import { keep_keys, keys } from './api.js';
import { AgentsView } from './agents_view.js';
import { Chat } from './chat.js';
import { at } from './dom.js';
import { EventsView } from './events_view.js';
import { Feed } from './feed.js';
import { note_fork } from './lineage.js';
import { ModelsView } from './models_view.js';
import { NodesView } from './nodes_view.js';
import { NumbersView } from './numbers_view.js';
import { SessionsView } from './sessions_view.js';
import { apply, empty_state } from './state.js';

const state = empty_state();
const chat = new Chat((name) => state.agents.get(`/${name}`));
const agents = new AgentsView(state, (name) => {
  chat.choose(name);
  at('chat').scrollIntoView();
  at('chat-text').focus();
});
const numbers = new NumbersView(state);
const events = new EventsView(state);
const models = new ModelsView(state);
const sessions = new SessionsView(state);
const nodes = new NodesView(state);

const draws = {
  agents: () => agents.draw(),
  gauges: () => {
    numbers.draw();
    events.draw_counts();
  },
  step: () => numbers.draw_step(),
  events: () => {
    events.draw();
    sessions.draw();
  },
  model: () => models.draw(),
  sessions: () => sessions.draw(),
  runs: () => sessions.draw(),
  nodes: () => nodes.draw(),
};

const due = new Set();
function draw_soon(parts) {
  if (due.size === 0 && parts.length) requestAnimationFrame(draw);
  for (const part of parts) due.add(part);
}
function draw() {
  const parts = [...due];
  due.clear();
  for (const part of parts) draws[part]();
}

function show_status(name, text) {
  at('connection').dataset.state = name;
  at('connection').textContent = text;
  if (name === 'refused') ask_for_keys(text);
}

const feed = new Feed({
  keys: () => keys(),
  on_message: (message) => {
    if (message.type === 'snapshot') events.reset();
    for (const event of message.recent ?? message.events ?? [])
      if (event.event === 'forked') note_fork(event.agent, event.parent, event.tenant);
    draw_soon(apply(state, message));
  },
  on_status: show_status,
});

function ask_for_keys(why) {
  const now = keys();
  at('keys-why').textContent = why;
  at('api-key').value = now.api_key;
  at('admin-key').value = now.admin_key;
  at('watch-all').checked = now.watch_all === 'yes';
  if (!at('keys').open) at('keys').showModal();
}

at('open-keys').addEventListener('click', () => ask_for_keys(''));
at('keys').addEventListener('close', () => {
  if (at('keys').returnValue !== 'use') return;
  keep_keys({
    api_key: at('api-key').value.trim(),
    admin_key: at('admin-key').value.trim(),
    watch_all: at('watch-all').checked ? 'yes' : '',
  });
  feed.connect();
});

feed.connect();
