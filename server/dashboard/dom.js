// SPDX-License-Identifier: Apache-2.0
// Making elements. Whatever comes from the server or a model becomes a text node: nothing in this
// page ever parses text as markup.

/** h('p', { class: 'x', onclick: f }, 'text', child): attributes, handlers (on…), children. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null && child !== ''));
  return made;
}

export const at = (id) => document.getElementById(id);

/** Sets text only where it differs, so that screen readers are not told what they know. */
export function set_text(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Says it for a few seconds. */
export function notice(text) {
  const place = at('notice');
  place.textContent = text;
  clearTimeout(notice.timer);
  notice.timer = setTimeout(() => (place.textContent = ''), 6000);
}

export const count = (number) => Math.round(number).toLocaleString('en');

/** "1 agent", "2 agents". */
export const several = (number, name) => `${count(number)} ${name}${number === 1 ? '' : 's'}`;

export function bytes(number) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (number >= 1024 && unit + 1 < units.length) {
    number /= 1024;
    ++unit;
  }
  return `${number >= 10 || unit === 0 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

export function milliseconds(number) {
  if (number < 10) return `${number.toFixed(1)} ms`;
  return number < 1000 ? `${Math.round(number)} ms` : `${(number / 1000).toFixed(1)} s`;
}

/** How long ago, in words. `at_ms`: since 1970. */
export function ago(at_ms, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - at_ms) / 1000));
  if (seconds < 5) return 'just now';
  if (seconds < 90) return `${seconds} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

export const clock = (at_ms) => new Date(at_ms).toLocaleTimeString('en-GB');
