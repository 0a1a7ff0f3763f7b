// SPDX-License-Identifier: Apache-2.0
// How refusals look in each dialect: what the tests with random requests hold replies to.

import assert from 'node:assert/strict';

/** A refusal as the vendor's SDK reads it. */
export const refusals = {
  anthropic({ headers, text }) {
    const { type, error, request_id } = JSON.parse(text);
    assert.equal(type, 'error');
    assert.match(error.type, /_error$|^request_too_large$/);
    assert.ok(error.message.length > 0);
    assert.equal(request_id, headers['request-id']);
  },
  native({ text }) {
    const { error } = JSON.parse(text);
    assert.ok(error.message.length > 0);
    assert.match(error.type, /_error$|^request_too_large$/);
  },
  openai({ text }) {
    const { error } = JSON.parse(text);
    assert.ok(error.message.length > 0);
    assert.match(error.type, /_error$/);
    assert.ok('param' in error && 'code' in error);
  },
  ollama({ text }) {
    assert.ok(JSON.parse(text).error.length > 0);
  },
};
