// SPDX-License-Identifier: Apache-2.0
// Text for the conversations, the same on every run.

const subjects = [
  'The miller',
  'A small owl',
  'The old bridge',
  'A lamp',
  'Every tram',
  'Our baker',
];
const verbs = [
  'stood beside',
  'was painted near',
  'waited for',
  'belonged to',
  'was seen from',
  'carried',
];
const objects = [
  'the quiet river',
  'a wooden gate',
  'the second harbour',
  'seven baskets',
  'the north hill',
];

/** About `tokens` tokens of plain sentences, no two paragraphs alike. */
export function paste(tokens) {
  let state = 12345;
  const pick = (list) => {
    // A linear congruential generator: the same words everywhere, for ever.
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return list[(state >> 8) % list.length];
  };
  const sentences = [];
  for (let words = 0; words < tokens * 0.55; words += 8) {
    sentences.push(
      `${pick(subjects)} ${pick(verbs)} ${pick(objects)} at ${pick([6, 7, 8, 9])} o'clock.`,
    );
  }
  return sentences.join(' ');
}

/** A conversation over several turns; the long paste stands between the facts and the questions. */
export const lines = [
  'My dog is called Biscuit.',
  `Here is a text for you:\n\n${paste(3000)}`,
  'I was born in Perth, by the way.',
  'What is my dog called?',
  'Where was I born?',
];
