// SPDX-License-Identifier: Apache-2.0
// What was said in one session, in order: who spoke, to whom, and in which turn.

import { call } from './api.js';
import { count, h } from './dom.js';

const LINES_MAX = 200; // of a session; GET …/messages has all of them
const VOICES = 4; // colours of speakers, in the order in which they first speak

export class Dialogue {
  constructor(session_id) {
    this.session_id = session_id;
    this.voices = new Map();
    this.ids = []; // of the messages that are shown, or were and are left out
    this.list = h('ol', {
      class: 'dialogue',
      tabindex: '0',
      'aria-label': `Conversation of ${session_id}`,
    });
    this.list.append(h('li', { class: 'hint' }, 'Nothing is said yet.'));
  }

  /** Reads what is new, unless `version` says that nothing is. `agents`: the session's, as the feed
   *  describes them. */
  async show(version, agents) {
    this.wanted = version;
    this.agents = agents;
    if (this.is_reading) return;
    this.is_reading = true;
    while (this.shown !== this.wanted) {
      const next = this.wanted;
      try {
        this.#draw(await messages_of(this.session_id, this.agents));
      } catch (error) {
        this.list.replaceChildren(h('li', { class: 'hint' }, error.message));
        this.ids = [];
      }
      this.shown = next;
    }
    this.is_reading = false;
  }

  /** Appends the messages after those that are there: what is selected stays selected. */
  #draw(messages) {
    const is_longer = this.ids.every((id, i) => messages[i]?.message_id === id);
    if (!is_longer) this.ids = [];
    const fresh = messages.slice(this.ids.length);
    if (fresh.length === 0) return;
    const { list } = this;
    const is_at_end = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    if (this.ids.length === 0) list.replaceChildren();
    this.ids = messages.map((message) => message.message_id);
    list.append(...fresh.slice(-LINES_MAX).map((message) => this.#line(message)));
    if (messages.length > LINES_MAX) this.#shorten(messages.length - LINES_MAX);
    if (is_at_end) list.scrollTop = list.scrollHeight;
  }

  #shorten(left_out) {
    const { list } = this;
    if (list.firstChild.classList.contains('hint')) list.firstChild.remove();
    while (list.children.length > LINES_MAX) list.firstChild.remove();
    list.prepend(h('li', { class: 'hint' }, `${count(left_out)} earlier messages`));
  }

  #line(message) {
    const { sender_id, sender_name, channel_type, turn_number } = message;
    const turn = sender_id === 'system' ? '' : ` · turn ${count(turn_number)}`;
    return h(
      'li',
      { 'data-channel': channel_type, 'data-voice': this.#voice_of(sender_id) },
      h(
        'p',
        { class: 'who' },
        h('strong', {}, sender_name),
        h('em', {}, listener_of(message)),
        h('span', { class: 'hint' }, turn),
      ),
      h('p', { class: 'said' }, message.content),
    );
  }

  #voice_of(sender) {
    if (sender === 'system') return 'system';
    if (!this.voices.has(sender)) this.voices.set(sender, this.voices.size % VOICES);
    return this.voices.get(sender);
  }
}

/** Who hears a message that not all do. */
function listener_of({ channel_type, recipient_id, seen_by }) {
  if (channel_type === 'whisper') return ` whispers to ${recipient_id}`;
  return seen_by ? ` to ${seen_by} alone` : '';
}

/** All that was said, in order: what all hear, and what only some do, who count more messages. */
async function messages_of(session_id, agents) {
  const path = `/v1/coordination/sessions/${encodeURIComponent(session_id)}/messages`;
  const read = async (query) => (await (await call('GET', path + query)).json()).messages;
  const heard_by_all = await read('');
  let all = heard_by_all;
  for (const { agent_id, message_count } of agents) {
    if (message_count <= heard_by_all.length) continue;
    all = merged(all, await read(`?agent_id=${encodeURIComponent(agent_id)}`), agent_id);
  }
  return all;
}

/** `all` with what only `agent` hears, each message after the one that it hears before it. */
export function merged(all, heard, agent) {
  const ids = (messages) => new Set(messages.map((message) => message.message_id));
  const known = ids(all);
  const own = ids(heard);
  const merged = [];
  let next = 0;
  for (const message of heard) {
    const id = message.message_id;
    const place = all.findIndex((each, i) => i >= next && each.message_id === id);
    if (place >= 0) {
      merged.push(...all.slice(next, place + 1));
      next = place + 1;
    } else if (!known.has(id)) {
      for (; next < all.length && is_for_others(all[next], own); ++next) merged.push(all[next]);
      merged.push({ ...message, seen_by: agent });
    }
  }
  return [...merged, ...all.slice(next)];
}

/** Whether a message that some hear is not among these. */
const is_for_others = ({ channel_type, seen_by, message_id }, own) =>
  (channel_type === 'whisper' || seen_by) && !own.has(message_id);
