// SPDX-License-Identifier: Apache-2.0
// A conversation with one agent. Each turn sends only what is new: all before it stands in the
// agent's memory, whoever talked with it. Only what was said on this page is shown.

import { agent_path, call, events_of } from './api.js';
import { at, count, h, milliseconds, notice } from './dom.js';
import { note_fork } from './lineage.js';
import { markdown } from './markdown.js';

const ANSWER_TOKENS = 1024;
const FIRST_MESSAGE = 'Hello, my dog is called Biscuit.';

const new_name = () => `chat-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;

export class Chat {
  /** `card_of(name)`: what is known of an agent, if there is one. */
  constructor(card_of) {
    this.card_of = card_of;
    this.fresh = new Set(); // agents that have a memory of which the feed has not told yet
    this.talks = new Map(); // agent -> [{ role, content }], as far as it was had on this page
    this.choose(new_name());
    at('chat-agent').addEventListener('change', () => this.choose(at('chat-agent').value.trim()));
    at('chat-agent-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.choose(at('chat-agent').value.trim());
    });
    at('chat-new').addEventListener('click', () => {
      this.choose(new_name());
      at('chat-text').focus();
    });
    at('chat-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.send();
    });
    at('chat-text').addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    at('chat-stop').addEventListener('click', () => this.abort?.abort());
  }

  choose(agent) {
    this.abort?.abort();
    this.agent = agent || new_name();
    at('chat-agent').value = this.agent;
    at('chat-log').replaceChildren();
    const turns = this.talks.get(this.agent) ?? [];
    for (const turn of turns) this.#show(turn.role, turn.content);
    if (turns.length) return;
    const known = this.card_of(this.agent);
    const hint = known?.tokens
      ? `This agent remembers ${count(known.tokens)} tokens, which are not shown. Go on from there.`
      : 'A new agent: it is made with the first message, and remembers all of them.';
    at('chat-log').append(h('p', { class: 'hint' }, hint));
    if (known?.tokens) return;
    const send = () => {
      at('chat-text').value = FIRST_MESSAGE;
      this.send();
    };
    at('chat-log').append(
      h('p', {}, 'Try: ', h('button', { type: 'button', onclick: send }, FIRST_MESSAGE)),
    );
  }

  #show(role, text) {
    const body = h('div', { class: 'body' }, ...(role === 'user' ? [text] : markdown(text)));
    const turn = h(
      'div',
      { class: `turn ${role}` },
      h('h3', {}, role === 'user' ? 'You' : this.agent),
      body,
    );
    at('chat-log').append(turn);
    at('chat-log').scrollTop = at('chat-log').scrollHeight;
    return turn;
  }

  /** What is sent: the new message alone, unless the agent has no memory to put it behind. */
  #request(talk, remembers) {
    const messages = remembers ? talk.slice(-1) : talk;
    return { messages, append: remembers, stream: true, max_tokens: ANSWER_TOKENS };
  }

  async send() {
    const text = at('chat-text').value.trim();
    if (!text || this.abort) return;
    const agent = this.agent;
    const known = this.talks.get(agent);
    const has_memory = this.fresh.has(agent) || (this.card_of(agent)?.tokens ?? 0) > 0;
    const remembers = has_memory && !known?.is_new_branch;
    const talk = known ?? [];
    if (!known && remembers) talk.is_partial = true; // its beginning is not known here
    talk.push({ role: 'user', content: text });
    this.talks.set(agent, talk);
    if (talk.length === 1) at('chat-log').replaceChildren();
    at('chat-text').value = '';
    this.#show('user', text);
    const answer = new Answer(this.#show('assistant', ''));
    this.#busy(new AbortController());
    try {
      const reply = await call(
        'POST',
        agent_path(agent, '/generate'),
        this.#request(talk, remembers),
        {
          signal: this.abort.signal,
        },
      );
      for await (const [name, data] of events_of(reply)) answer.hear(name, data);
    } catch (error) {
      answer.fail(error.name === 'AbortError' ? 'Stopped.' : error.message);
    }
    this.#busy(null);
    delete talk.is_new_branch;
    if (answer.done) this.fresh.add(agent);
    answer.finish();
    talk.push({ role: 'assistant', content: answer.text });
    this.#offer_fork(answer, agent, talk, talk.length);
  }

  #busy(abort) {
    this.abort = abort;
    at('chat-send').disabled = abort !== null;
    at('chat-stop').disabled = abort === null;
  }

  /** A new agent that shares all up to this answer. Behind the last answer the memory itself is
   *  forked; from an earlier one the conversation is sent again, and found in memory. */
  #offer_fork(answer, agent, talk, length) {
    const fork = async () => {
      const made = new_name();
      const is_last = talk.length === length;
      if (!is_last && talk.is_partial)
        return notice(
          'Only the last answer can be forked: the beginning is not known to this page.',
        );
      try {
        if (is_last) await call('POST', agent_path(agent, '/fork'), { agent_id: made });
      } catch (error) {
        return notice(error.message);
      }
      note_fork(made, agent);
      const copy = talk.slice(0, length);
      copy.is_partial = talk.is_partial;
      copy.is_new_branch = !is_last;
      this.talks.set(made, copy);
      if (is_last) this.fresh.add(made);
      this.choose(made);
      notice(`${made} goes on from here`);
      at('chat-text').focus();
    };
    answer.add_button('Fork', `Fork ${agent} from this answer`, fork);
  }
}

/** One answer while it is written: its text, and what it cost. */
class Answer {
  constructor(turn) {
    this.turn = turn;
    this.body = turn.querySelector('.body');
    this.usage = h('p', { class: 'usage' });
    turn.append(this.usage);
    this.text = '';
    this.thinking = '';
    this.begun = performance.now();
    this.tokens = 0;
  }

  hear(name, data) {
    if (name === 'start') this.memory = data.semantic;
    if (name === 'token') {
      this.first ??= performance.now() - this.begun;
      ++this.tokens;
      this.text += data.text;
    }
    if (name === 'thinking') this.thinking += data.text;
    if (name === 'tool_call') {
      const call = `${data.name} ${JSON.stringify(data.arguments)}`;
      this.text += `\n\n\`\`\`\n${call}\n\`\`\`\n`;
    }
    if (name === 'done') this.done = data;
    if (name === 'error') this.fail(data.error?.message ?? data.message ?? 'the answer broke off');
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = undefined;
    const log = at('chat-log');
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    const reasoning = this.thinking
      ? h('details', { class: 'thinking' }, h('summary', {}, 'Reasoning'), this.thinking)
      : null;
    this.body.replaceChildren(...[reasoning, ...markdown(this.text)].filter(Boolean));
    if (follows) log.scrollTop = log.scrollHeight;
  }

  fail(why) {
    this.turn.append(h('p', { class: 'fault' }, why));
  }

  finish() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.draw();
    const seconds = (performance.now() - this.begun - (this.first ?? 0)) / 1000;
    const parts = [];
    if (this.memory) {
      const { reused_tokens, computed_tokens } = this.memory;
      parts.push(`${count(reused_tokens)} tokens from memory, ${count(computed_tokens)} computed`);
    }
    if (this.first !== undefined) parts.push(`first after ${milliseconds(this.first)}`);
    // Of a short answer all tokens may be read from the network at once: that is no rate.
    const long_enough = 0.2;
    if (this.tokens > 1 && seconds > long_enough)
      parts.push(`${Math.round((this.tokens - 1) / seconds)} tokens/s`);
    if (this.done?.finish_reason === 'length') parts.push('cut at its limit');
    this.usage.prepend(parts.join(' · '), ' ');
  }

  add_button(text, label, act) {
    this.usage.append(h('button', { type: 'button', 'aria-label': label, onclick: act }, text));
  }
}
