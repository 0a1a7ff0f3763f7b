// SPDX-License-Identifier: Apache-2.0
// The tiles: what the server does now, and charts of up to an hour. Counters come with /ws; each
// second the difference to the second before makes a point.

import { at, bytes, count, h, milliseconds, set_text, several } from './dom.js';

const SECONDS_SHOWN = 300; // at first; later each point is the mean of several
const SECONDS_KEPT = 3600;
const PATIENCE_MAX_MS = 12_000;
const SVG = 'http://www.w3.org/2000/svg';

const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

/** A line of up to an hour, with what its height and width mean; gaps where nothing was measured
 *  are left out. `unit` writes a value with its unit. */
class Chart {
  constructor(id, label, unit) {
    this.svg = at(id);
    this.label = label;
    this.unit = unit;
    this.points = [];
    this.svg.setAttribute('viewBox', `0 0 ${SECONDS_SHOWN} 100`);
    this.svg.setAttribute('preserveAspectRatio', 'none');
    const ground = document.createElementNS(SVG, 'path');
    ground.setAttribute('d', `M0 1 H${SECONDS_SHOWN} M0 99 H${SECONDS_SHOWN}`);
    this.line = document.createElementNS(SVG, 'polyline');
    this.svg.append(ground, this.line);
    this.top = h('p', { class: 'axis', 'aria-hidden': 'true' }, '\u00a0');
    this.since = h('span', {}, '5 min ago');
    const now = h('span', {}, 'now');
    const below = h('p', { class: 'axis', 'aria-hidden': 'true' }, this.since, now);
    this.svg.before(this.top);
    this.svg.after(below);
    this.svg.setAttribute('aria-label', `${label}: nothing measured yet`);
  }

  repeat() {
    if (this.points.length) this.add(this.points.at(-1), this.shown);
  }

  add(value, shown) {
    this.shown = shown;
    this.points.push(value);
    if (this.points.length > SECONDS_KEPT) this.points.shift();
    const each_is = Math.ceil(this.points.length / SECONDS_SHOWN); // seconds
    const drawn = this.#thinned(each_is);
    const most = Math.max(...drawn.filter((each) => each !== null), 1e-9);
    const left = SECONDS_SHOWN - drawn.length;
    const places = drawn.flatMap((each, i) =>
      each === null ? [] : [`${left + i},${(97 - (each / most) * 94).toFixed(1)}`],
    );
    this.line.setAttribute('points', places.join(' '));
    const minutes = (each_is * SECONDS_SHOWN) / 60;
    set_text(this.since, `${minutes} min ago`);
    const top = places.length ? this.unit(most) : '\u00a0';
    set_text(this.top, top);
    this.svg.setAttribute(
      'aria-label',
      `${this.label}, last ${minutes} minutes: now ${shown}, at most ${top}`,
    );
  }

  /** One value for each `size` points: their mean, or null where none of them has been measured. */
  #thinned(size) {
    if (size === 1) return this.points;
    const drawn = [];
    for (let from = 0; from < this.points.length; from += size) {
      const measured = this.points.slice(from, from + size).filter((each) => each !== null);
      drawn.push(measured.length ? mean(measured) : null);
    }
    return drawn;
  }
}

/** Mean of all that a histogram has; null where it has nothing. */
const mean_of = (histogram) => (histogram.count > 0 ? histogram.sum_ms / histogram.count : null);

/** Mean of what a histogram got since `before`; null where it got nothing. */
function mean_since(before, now) {
  const added = now.count - before.count;
  return added > 0 ? (now.sum_ms - before.sum_ms) / added : null;
}

export class NumbersView {
  constructor(state) {
    this.state = state;
    const per_second = (rate) => `${count(rate)} tokens/s`;
    this.rate = new Chart('rate-chart', 'Tokens a second', per_second);
    this.first = new Chart('first-chart', 'Time to the first token', milliseconds);
    this.inter = new Chart('inter-chart', 'Time between tokens', milliseconds);
    this.patience_ms = 0;
    this.without_drafts = '';
    setInterval(() => this.#sample(), 1000);
  }

  #sample() {
    const now = this.state.gauges;
    if (!now) return (this.before = null);
    const before = this.before;
    const at_ms = performance.now();
    const took_ms = at_ms - this.before_ms;
    if (now === before && took_ms < this.patience_ms) return this.#repeat();
    // A restart or another model begins its counters again.
    if (before && now.steps >= before.steps) {
      const rate = ((now.tokens_decoded - before.tokens_decoded) * 1000) / took_ms;
      set_text(at('rate'), count(rate));
      this.rate.add(rate, count(rate));
      const taken = ((now.drafts_taken - before.drafts_taken) * 1000) / took_ms;
      this.without_drafts = taken > 0 ? `; ${count(rate - taken)} a second without them` : '';
      this.#show_mean('first', this.first, mean_since(before.first_token, now.first_token));
      this.#show_mean('inter', this.inter, mean_since(before.inter_token, now.inter_token));
      if (now !== before) this.patience_ms = Math.min(2.5 * took_ms, PATIENCE_MAX_MS);
    } else {
      this.without_drafts = '';
    }
    this.before = now;
    this.before_ms = at_ms;
  }

  /** Where many watch the server tells less often: what it has not told yet has not become 0. */
  #repeat() {
    for (const chart of [this.rate, this.first, this.inter]) chart.repeat();
  }

  #show_mean(id, chart, mean) {
    if (mean !== null) set_text(at(id), milliseconds(mean));
    chart.add(mean, at(id).textContent);
  }

  draw() {
    const { gauges } = this.state;
    if (!gauges) return;
    const waiting = gauges.waiting ? `, ${count(gauges.waiting)} waiting` : '';
    set_text(at('running'), `${count(gauges.running)}${waiting}`);
    const { tokens_decoded, tokens_drafted, drafts_taken } = gauges;
    const drafts = tokens_drafted
      ? `, ${count(drafts_taken)} by drafts of ${count(tokens_drafted)}${this.without_drafts}`
      : '';
    set_text(at('rate-hint'), `${several(tokens_decoded, 'token')} since the start${drafts}`);
    this.#draw_mean('first', gauges.first_token, 'answer');
    this.#draw_mean('inter', gauges.inter_token, 'token');
    const reused = gauges.tokens_reused_ram + gauges.tokens_reused_disk;
    const all = reused + gauges.tokens_computed;
    set_text(at('reused'), all ? `${((100 * reused) / all).toFixed(1)} %` : '–');
    set_text(
      at('reused-hint'),
      `${count(gauges.tokens_reused_ram)} prompt tokens from RAM, ` +
        `${count(gauges.tokens_reused_disk)} from disk, ${count(gauges.tokens_computed)} computed`,
    );
    this.#meter('pool', gauges.pool_held_bytes, gauges.pool_bytes);
    const states = gauges.pool_state_bytes;
    set_text(at('pool-hint'), states ? `${bytes(states)} of the pool are recurrent states` : '');
    this.#meter('disk', gauges.disk_bytes, gauges.disk_budget_bytes);
  }

  /** What was measured before this page came is a mean, too, until it sees something itself. */
  #draw_mean(id, histogram, name) {
    const mean = mean_of(histogram);
    if (mean === null) return;
    if (at(id).textContent === '–') set_text(at(id), milliseconds(mean));
    const all = several(histogram.count, name);
    set_text(at(`${id}-hint`), `${milliseconds(mean)} is the mean of ${all} since the start`);
  }

  #meter(id, held, most) {
    at(id).value = most ? held / most : 0;
    set_text(at(`${id}-text`), `${bytes(held)} of ${bytes(most)}`);
  }

  draw_step() {
    const { step } = this.state;
    if (!step) return;
    const names = step.decoding.map((each) => each.agent);
    const parts = [];
    const more = names.length > 3 ? ` and ${names.length - 3} more` : '';
    if (names.length) parts.push(`${names.slice(0, 3).join(', ')}${more} decode`);
    if (step.chunk) parts.push(`${count(step.chunk.tokens)} prompt tokens of ${step.chunk.agent}`);
    if (step.others) parts.push(`${step.others} of others`);
    set_text(at('step'), `Last step, ${milliseconds(step.took_ms)}: ${parts.join('; ')}`);
  }
}
