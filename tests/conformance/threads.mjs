// SPDX-License-Identifier: Apache-2.0
// Message threads through the vendor's JavaScript SDK: only what is new is sent, and the server
// goes on from its memory, also when it was ended or killed in between.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  converse,
  endless,
  main,
  make_folder,
  prompt_tokens,
  require_sdk,
  Server,
  stored_tokens,
  text_of,
  user,
} from './harness.mjs';

const sdk = require_sdk('@anthropic-ai/sdk');

// Answers are on disk before they end, however busy the machine is.
const args = ['--save-wait-ms', '30000'];
const system = 'Be brief.';
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const lines = [
  'My dog is called Biscuit.',
  'I was born in Perth, by the way.',
  'What is my dog called?',
];
const body = (messages, more) => ({
  model: 'any',
  max_tokens: 60,
  temperature: 0,
  messages,
  ...more,
});
const create = { type: 'create' };
const go_on = ({ id }) => ({ type: 'continue', previous_message_id: id });

/** A server that may be replaced, and a client that does not notice; `sent` is what it sent. */
class Changing {
  constructor(more_args = []) {
    this.cache = make_folder();
    this.args = [...args, ...more_args];
    this.sent = [];
  }
  async start() {
    this.server = await Server.start({ cache: this.cache, args: this.args });
    return this;
  }
  client(apiKey = 'none') {
    const through = (url, init) => {
      this.sent.push(JSON.parse(init.body));
      return fetch(String(url).replace('http://changing', this.server.url), init);
    };
    const options = { apiKey, baseURL: 'http://changing', fetch: through, maxRetries: 0 };
    return new sdk.Anthropic(options);
  }
}

/** A question that takes one call; `between` happens while the tool runs. */
async function run_tools(on, between, stream) {
  const tool = {
    name: 'get_weather',
    description: 'The weather of a city.',
    input_schema: schema,
    parse: (input) => input,
    run: async ({ city }) => {
      assert.equal(city, 'Perth');
      await between();
      return 'sunny, 21 degrees';
    },
  };
  const asked = body([user('What is the weather in Perth?')], { system, tools: [tool], stream });
  const runner = on.client().beta.messages.toolRunner(asked);
  const messages = [];
  for await (const turn of runner) messages.push(stream ? await turn.finalMessage() : turn);
  return messages;
}

/** What the runner must have sent: all once, and then only the result. */
function check_run(on, [called, answered]) {
  assert.equal(called.stop_reason, 'tool_use');
  assert.match(text_of(answered), /Perth is sunny/);
  assert.deepEqual(
    on.sent.map(({ thread, messages, system: told, tools }) => [
      thread.type, messages.length, told !== undefined, tools !== undefined,
    ]),
    [['create', 1, true, true], ['continue', 1, false, false]],
  ); // prettier-ignore
  assert.equal(on.sent[1].thread.previous_message_id, called.id);
  // All that was stored is taken up; the token that ended the turn was not run.
  const stored = stored_tokens(called);
  const read = answered.usage.cache_read_input_tokens;
  assert.ok(read === stored || read === stored + 1, `${read} read, ${stored} or one more stored`);
}

const refused = (promise, type, code) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.error.error.details?.error_code, code, error.message);
    return true;
  });

await main({
  async 'the tool runner sends only what is new'() {
    const on = await new Changing().start();
    check_run(on, await run_tools(on, async () => {}, false));
    await on.server.stop();
  },

  async 'the tool runner goes on across a restart in the middle'() {
    const on = await new Changing().start();
    const restart = async () => {
      await on.server.stop();
      await on.start();
    };
    const [, answered] = await run_tools(on, restart, true).then((messages) => {
      check_run(on, messages);
      return messages;
    });
    assert.ok(answered.semantic.restored_tokens > 0, 'nothing came from disk');
    await on.server.stop();
  },

  async 'the tool runner goes on across kill -9 in the middle'() {
    const on = await new Changing().start();
    const restart = async () => {
      await on.server.kill();
      await on.start();
    };
    check_run(on, await run_tools(on, restart, false));
    await on.server.stop();
  },

  async 'a thread says what the whole conversation says, and counts the same tokens'() {
    const on = await new Changing().start();
    const whole = await converse(on.server, 'whole', lines, { max_tokens: 60, system });
    const client = on.client();
    let previous;
    for (const [i, line] of lines.entries()) {
      const thread = previous ? go_on(previous) : create;
      const asked = body([user(line)], { thread, ...(previous ? {} : { system }) });
      const { max_tokens, temperature, ...counted } = asked;
      const count = await client.post('/v1/messages/count_tokens', { body: counted });
      previous = await client.post('/v1/messages', { body: asked });
      assert.equal(text_of(previous), whole.texts[i]);
      assert.equal(prompt_tokens(previous), prompt_tokens(whole.answers[i]));
      assert.equal(count.input_tokens, prompt_tokens(previous));
    }
    assert.match(text_of(previous), /Biscuit/);
    await on.server.stop();
  },

  async 'what cannot be continued is refused with the code that its clients know'() {
    const on = await new Changing(['--api-key', 'one,two']).start();
    const client = on.client('one');
    const post = (more, by = client) =>
      by.post('/v1/messages', { body: body([user('Hi.')], more) });
    const stranger = on.client('two');
    const { BadRequestError, NotFoundError } = sdk;
    const first = await post({ thread: create });
    await refused(post({ thread: go_on({ id: 'msg_none' }) }), NotFoundError, 'thread_not_found');
    await refused(post({ thread: go_on(first) }, stranger), NotFoundError, 'thread_not_found');
    for (const more of [{ system }, { tools: [] }, { messages: [] }])
      await refused(post({ thread: go_on(first), ...more }), BadRequestError, undefined);
    const second = await post({ thread: go_on(first) });
    const third = await post({ thread: go_on(second) });
    await refused(post({ thread: go_on(first) }), BadRequestError, 'thread_already_continued');
    await post({ thread: go_on(third) });
    const alone = await post({});
    await refused(post({ thread: go_on(alone) }), NotFoundError, 'thread_not_found');
    await on.server.stop();
  },

  async 'one turn at a time, and one that its client left can be asked again'() {
    const on = await new Changing().start();
    const client = on.client();
    const opening = body([user('Hi.')], { thread: create });
    const first = await client.post('/v1/messages', { body: opening });
    const thread = go_on(first);
    const stream = client.messages.stream(body([user('Hi.')], { thread, ...endless }));
    await new Promise((resolve) => stream.on('text', resolve));
    const again = () => client.post('/v1/messages', { body: body([user(lines[0])], { thread }) });
    await refused(again(), sdk.BadRequestError, 'thread_continue_in_flight');
    stream.abort();
    await assert.rejects(stream.finalMessage(), sdk.APIUserAbortError);
    let second;
    for (let tries = 0; !second; ++tries) {
      assert.ok(tries < 200, 'the turn that was left is still in flight');
      second = await again().catch(() => sleep(50));
    }
    assert.equal(second.stop_reason, 'end_turn');
    assert.equal(second.semantic.agent, first.semantic.agent);
    // Its answer may have been lost on the way: it is asked again, also behind a kill, and the new
    // answer stands in the place of the lost one.
    await on.server.kill();
    await on.start();
    assert.equal(text_of(await again()), text_of(second));
    const lost = client.post('/v1/messages', {
      body: body([user('Hi.')], { thread: go_on(second) }),
    });
    await refused(lost, sdk.NotFoundError, 'thread_not_found');
    await on.server.stop();
  },

  async 'the tools of a thread are held to after a restart'() {
    const on = await new Changing().start();
    const client = on.client();
    const tools = [{ name: 'note', input_schema: schema, strict: true }];
    const ask = (more) => client.post('/v1/messages', { body: body([user('Hi.')], more) });
    const first = await ask({ thread: create, tools });
    await on.server.kill();
    await on.start();
    const forced = await ask({ thread: go_on(first), tool_choice: { type: 'tool', name: 'note' } });
    assert.equal(forced.stop_reason, 'tool_use');
    assert.equal(typeof forced.content.at(-1).input.city, 'string');
    const unknown = ask({ thread: go_on(forced), tool_choice: { type: 'tool', name: 'other' } });
    await refused(unknown, sdk.BadRequestError, undefined);
    await on.server.stop();
  },
});
