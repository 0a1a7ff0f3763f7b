// SPDX-License-Identifier: Apache-2.0
// What happens, as a list, and why memories missed, with both texts side by side.

import { at, bytes, clock, count, h, milliseconds, several } from './dom.js';

const LINES_MAX = 100;
const MISSES_MAX = 20;

export const WHY = {
  model_changed: 'another model',
  system_changed: 'the system text changed',
  tools_changed: 'the tools changed',
  messages_changed: 'earlier messages changed',
  evicted: 'it was removed from disk',
  corrupt: 'its files are damaged',
  incompatible: 'it is of another form',
  too_short: 'too little is shared',
};

const SENTENCES = {
  queued: (e) => `${e.agent ?? 'a request'} asks${e.ahead ? `, ${count(e.ahead)} ahead` : ''}`,
  admitted: (e) =>
    `${e.agent} begins: ${e.match}, ` +
    `${count(e.reused_tokens)} of ${count(e.prompt_tokens)} prompt tokens from memory` +
    (e.restored_tokens ? ` (${count(e.restored_tokens)} from disk)` : '') +
    (e.miss_reason ? `; ${WHY[e.miss_reason] ?? e.miss_reason}` : ''),
  first_token: (e) => `${e.agent}: first token after ${milliseconds(e.after_ms)}`,
  finished: (e) =>
    `${e.agent} ends: ${e.why}, ${several(e.output_tokens, 'token')}${e.saved ? ', saved' : ''}`,
  failed: (e) => `${e.agent ?? 'a request'} failed: ${e.why}`,
  saved: (e) =>
    e.fault
      ? `${e.agent} could not be saved: ${e.fault}`
      : `${e.agent} saved: ${bytes(e.bytes)} in ${milliseconds(e.took_ms)}`,
  restored: (e) =>
    `${e.agent} read from disk: ${count(e.tokens_read)} tokens in ${milliseconds(e.took_ms)}`,
  evicted: (e) => `${e.agent} left RAM; it is on disk`,
  lost: (e) => `${e.agent} is lost: the disk did not take it`,
  removed: (e) => `${e.agent} left the disk to keep the budget`,
  created: (e) => `${e.agent} was made`,
  forked: (e) => `${e.agent} was forked from ${e.parent}`,
  erased: (e) => `${e.agent} was deleted`,
  imported: (e) => `${e.agent} was imported`,
};

const time_of = (event) =>
  h('time', { datetime: new Date(event.at).toISOString() }, clock(event.at));

export class EventsView {
  constructor(state) {
    this.state = state;
    this.latest = null;
  }

  /** Starts again, after a snapshot. */
  reset() {
    at('event-list').replaceChildren(
      h('li', { class: 'hint' }, 'Nothing yet: each request shows here, step by step.'),
    );
    at('miss-list').replaceChildren();
    this.latest = null;
  }

  draw() {
    const { events } = this.state;
    const from = this.latest ? events.lastIndexOf(this.latest) + 1 : 0;
    for (const event of events.slice(from)) {
      this.#add(at('event-list'), this.#line(event), LINES_MAX);
      if (event.miss_reason) this.#add(at('miss-list'), this.#miss(event), MISSES_MAX);
    }
    this.latest = events.at(-1) ?? null;
  }

  #add(list, line, most) {
    if (list.firstChild?.classList.contains('hint')) list.replaceChildren();
    list.prepend(line);
    while (list.children.length > most) list.lastChild.remove();
  }

  #line(event) {
    const sentence = SENTENCES[event.event]?.(event) ?? event.event;
    const kind = event.fault ? 'failed' : event.event;
    return h('li', { 'data-kind': kind }, time_of(event), sentence);
  }

  #miss(event) {
    const reused = `${count(event.reused_tokens)} of ${count(event.prompt_tokens)} tokens reused`;
    const miss = h(
      'div',
      { class: 'miss' },
      h(
        'p',
        {},
        time_of(event),
        h('strong', {}, event.agent),
        `: ${WHY[event.miss_reason] ?? event.miss_reason}; ${reused}`,
      ),
    );
    if (!event.difference) {
      if (event.detail) miss.append(h('p', { class: 'hint' }, event.detail));
      return miss;
    }
    const { remembered, sent, at_byte, excerpt_from_byte } = event.difference;
    const place = at_byte - excerpt_from_byte;
    miss.append(
      h('p', { class: 'hint' }, `They part at byte ${count(at_byte)}.`),
      h(
        'div',
        { class: 'sides' },
        h('div', {}, h('h3', {}, 'Remembered'), marked('remembered', remembered, place)),
        h('div', {}, h('h3', {}, 'Sent'), marked('sent', sent, place)),
      ),
    );
    return miss;
  }

  draw_counts() {
    const misses = Object.entries(this.state.gauges?.misses ?? {}).filter(([, number]) => number);
    const items = misses.map(([why, number]) =>
      h('li', {}, `${WHY[why] ?? why}: ${count(number)}`),
    );
    at('miss-counts').replaceChildren(
      ...(items.length
        ? items
        : [
            h(
              'li',
              { class: 'hint' },
              'None since the model was loaded. Where an agent is asked with another beginning ' +
                'than it remembers, both texts are shown here.',
            ),
          ]),
    );
  }
}

/** The text, marked from where the two differ. `place` counts bytes, as the server does. */
function marked(kind, text, place) {
  const same = new TextDecoder().decode(new TextEncoder().encode(text).slice(0, place));
  return h('pre', { class: kind, tabindex: '0' }, same, h('mark', {}, text.slice(same.length)));
}
