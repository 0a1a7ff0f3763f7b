// SPDX-License-Identifier: Apache-2.0
// What models write, as elements: headings, lists, code, emphasis. No links and no images, so that
// an answer makes the browser fetch nothing. Every piece of text becomes a text node.

import { h } from './dom.js';

const FENCE = /^\s*(```|~~~)/;
const ITEM = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;
const HEADING = /^#{1,6}\s+(.*)$/;

/** `code`, **strong** and *emphasis* of one line. */
function inline(text) {
  const pieces = [];
  const pattern = /(`+)(.+?)\1|\*\*(.+?)\*\*|\*([^\s*](?:.*?[^\s*])?)\*/s;
  for (let rest = text; rest;) {
    const found = pattern.exec(rest);
    if (!found) return [...pieces, rest];
    if (found.index > 0) pieces.push(rest.slice(0, found.index));
    const [whole, , code, strong, emphasis] = found;
    if (code !== undefined) pieces.push(h('code', {}, code));
    else if (strong !== undefined) pieces.push(h('strong', {}, ...inline(strong)));
    else pieces.push(h('em', {}, ...inline(emphasis)));
    rest = rest.slice(found.index + whole.length);
  }
  return pieces;
}

/** Lines of a paragraph, with breaks where the text has them. */
function paragraph(lines) {
  return h('p', {}, ...lines.flatMap((line, i) => (i ? [h('br'), ...inline(line)] : inline(line))));
}

function take_code(lines) {
  const fence = FENCE.exec(lines.shift())[1];
  const code = [];
  while (lines.length && !lines[0].trim().startsWith(fence)) code.push(lines.shift());
  lines.shift(); // its end, which is not there while the answer is being written
  return h('pre', { tabindex: '0' }, h('code', {}, code.join('\n')));
}

function take_list(lines) {
  const first = ITEM.exec(lines[0]);
  const list = h(first[1] ? 'ol' : 'ul', first[1] ? { start: first[1] } : {});
  while (lines.length && ITEM.test(lines[0]))
    list.append(h('li', {}, ...inline(ITEM.exec(lines.shift())[2])));
  return list;
}

const begins_block = (line) => FENCE.test(line) || ITEM.test(line) || HEADING.test(line);

/** Returns: elements that show the text. */
export function markdown(text) {
  const lines = text.split('\n');
  const blocks = [];
  while (lines.length) {
    if (!lines[0].trim()) lines.shift();
    else if (FENCE.test(lines[0])) blocks.push(take_code(lines));
    else if (ITEM.test(lines[0])) blocks.push(take_list(lines));
    else if (HEADING.test(lines[0]))
      blocks.push(h('h4', {}, ...inline(HEADING.exec(lines.shift())[1])));
    else {
      const these = [lines.shift()];
      while (lines.length && lines[0].trim() && !begins_block(lines[0])) these.push(lines.shift());
      blocks.push(paragraph(these));
    }
  }
  return blocks;
}
