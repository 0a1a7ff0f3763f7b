// SPDX-License-Identifier: Apache-2.0
// The same conversation, greedy, must read the same however its memory came about: computed at
// once, kept hot, restored after kill -9, shared, batched, computed in small chunks, or by more or
// fewer threads.

import assert from 'node:assert/strict';

import { converse, main, make_folder, prompt_tokens, Server, text_of } from './harness.mjs';
import { lines } from './text.mjs';

async function hot(args = []) {
  const server = await Server.start({ cache: make_folder(), args });
  const talk = await converse(server, 'exact', lines);
  await server.stop();
  return talk;
}

const reference = await hot();

await main({
  async 'the reference conversation is long and right'() {
    assert.ok(
      prompt_tokens(reference.answers[1]) > 2500,
      `${prompt_tokens(reference.answers[1])} tokens`,
    );
    assert.match(reference.texts[3], /Biscuit/);
    assert.match(reference.texts[4], /Perth/);
    const reused = reference.answers[3].usage.cache_read_input_tokens;
    assert.ok(reused > 2500, `only ${reused} tokens were reused hot`);
  },

  async 'cold: each prompt on a server that has seen nothing'() {
    for (let turn = 0; turn < lines.length; ++turn) {
      const server = await Server.start({ cache: make_folder() });
      const answer = await server.ask('exact', reference.messages.slice(0, 2 * turn + 1));
      assert.equal(answer.usage.cache_read_input_tokens, 0);
      assert.equal(text_of(answer), reference.texts[turn], `turn ${turn + 1}`);
      await server.stop();
    }
  },

  async 'restored: kill -9 before every turn'() {
    const cache = make_folder();
    const { texts, answers, server } = await converse(
      await Server.start({ cache }),
      'exact',
      lines,
      {
        between: async (old) => {
          await old.kill();
          return Server.start({ cache });
        },
      },
    );
    assert.deepEqual(texts, reference.texts);
    assert.ok(answers[3].usage.cache_read_input_tokens > 2500, JSON.stringify(answers[3].usage));
    await server.stop();
  },

  async 'shared: another agent starts from the memory of the first'() {
    const server = await Server.start({ cache: make_folder() });
    await converse(server, 'first', lines);
    const answer = await server.ask('second', reference.messages.slice(0, 9));
    assert.equal(text_of(answer), reference.texts[4]);
    assert.ok(answer.usage.cache_read_input_tokens > 2500, JSON.stringify(answer.usage));
    await server.stop();
  },

  async 'together: five agents in one batch, each some turns apart'() {
    const server = await Server.start({ cache: make_folder() });
    const talks = lines.map((line, i) => converse(server, `agent-${i}`, lines.slice(0, 5 - i)));
    for (const { texts } of await Promise.all(talks)) {
      assert.deepEqual(texts, reference.texts.slice(0, texts.length));
    }
    await server.stop();
  },

  async 'small prefill chunks'() {
    const chunk = ['--prefill-min-chunk', '64', '--prefill-max-chunk', '256'];
    assert.deepEqual(
      (await hot([...chunk, '--chunked-prefill-threshold', '256'])).texts,
      reference.texts,
    );
  },

  async 'one compute thread'() {
    assert.deepEqual((await hot(['--compute-threads', '1'])).texts, reference.texts);
  },

  async 'two compute threads'() {
    assert.deepEqual((await hot(['--compute-threads', '2'])).texts, reference.texts);
  },
});
