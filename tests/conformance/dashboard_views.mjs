// SPDX-License-Identifier: Apache-2.0
// What dashboard.mjs has the dashboard's own modules compute, in the page.

/** In the page: what a chart shows of more than an hour: since when, its width, and how many points
 *  it draws. */
export async function points_of_an_hour() {
  const { NumbersView } = await import('/dashboard/numbers_view.js');
  const later = window.setInterval;
  window.setInterval = () => {};
  const chart = new NumbersView({}).rate;
  window.setInterval = later;
  for (let second = 0; second < 4000; ++second) chart.add(second % 7, String(second));
  const places = chart.line.getAttribute('points').split(' ');
  return [chart.since.textContent, chart.svg.viewBox.baseVal.width, places.length];
}

/** In the page: the rate shown second by second, of a server that makes 100 tokens in each, tells
 *  it in every other one, and ends behind the eighth. */
export async function rates_of_a_busy_server() {
  const { NumbersView } = await import('/dashboard/numbers_view.js');
  const [now, later] = [performance.now, window.setInterval];
  let second = 0;
  let sample;
  performance.now = () => 1000 * second;
  window.setInterval = (each_second) => (sample = each_second);
  const none = { count: 0, sum_ms: 0 };
  const state = {};
  new NumbersView(state);
  const rates = [];
  for (; second < 20; ++second) {
    if (second % 2 === 0 && second <= 8)
      state.gauges = {
        steps: second,
        tokens_decoded: 100 * second,
        first_token: none,
        inter_token: none,
      };
    sample();
    rates.push(document.getElementById('rate').textContent);
  }
  [performance.now, window.setInterval] = [now, later];
  return rates;
}

/** In the page: what is said of drafts of a server of whose 100 tokens a second 60 come by them. */
export async function hint_of_drafts() {
  const { NumbersView } = await import('/dashboard/numbers_view.js');
  const [now, later] = [performance.now, window.setInterval];
  let second = 0;
  let sample;
  performance.now = () => 1000 * second;
  window.setInterval = (each_second) => (sample = each_second);
  const none = { count: 0, sum_ms: 0 };
  const state = {};
  const view = new NumbersView(state);
  const hints = [];
  for (const has_drafts of [false, true]) {
    for (let i = 0; i < 2; ++i, ++second) {
      state.gauges = {
        steps: second,
        tokens_decoded: 100 * second,
        tokens_drafted: has_drafts ? 80 * i + 20 : 0,
        drafts_taken: has_drafts ? 60 * i : 0,
        first_token: none,
        inter_token: none,
        misses: {},
      };
      sample();
    }
    view.draw();
    hints.push(document.getElementById('rate-hint').textContent);
  }
  [performance.now, window.setInterval] = [now, later];
  return hints;
}

/** In the page: the families of agents that a list of names and of forks makes. */
export async function families() {
  const { family_of, note_fork } = await import('/dashboard/lineage.js');
  const kept = sessionStorage.getItem('forks');
  const told = (name, names) =>
    family_of(name, names).map((each) => `${each.depth} ${each.name} ${each.relation}`.trim());
  note_fork('b', 'a');
  note_fork('c', 'b');
  note_fork('d', 'a');
  const names = ['c', 'cc_1', 'cc_1:x', 'cc_2', 'd', 'x'];
  const tree = told('c', names);
  note_fork('a', 'c'); // the name of one that is gone is used again
  const reused = told('a', names);
  for (let i = 0; i < 600; ++i) note_fork(`n${i + 1}`, `n${i}`);
  const long = family_of('n600', names);
  const seen = [told('cc_1:x', names), told('x', names)];
  sessionStorage.setItem('forks', kept);
  return [tree, ...seen, reused, [long.length, long[99].depth]];
}
export const expected_families = [
  ['0 a', '1 b fork', '2 c fork', '1 d fork'],
  ['0 cc_1', '1 cc_1:x sub-agent'],
  [],
  ['0 b', '1 c fork', '2 a fork'],
  [100, 12],
];
