// SPDX-License-Identifier: Apache-2.0
// Reasoning through the vendors' JavaScript SDKs. The embedded model knows none; a template that
// opens it and a budget that ends it make one.

import assert from 'node:assert/strict';

import {
  main,
  make_folder,
  prompt_tokens,
  require_sdk,
  Server,
  text_of,
  user,
} from './harness.mjs';

const Anthropic = require_sdk('@anthropic-ai/sdk').Anthropic;
const OpenAI = require_sdk('openai').OpenAI;

const server = await Server.start({
  cache: make_folder(),
  args: ['--chat-template', 'qwen3-thinking'],
});
const anthropic = new Anthropic({ apiKey: 'none', baseURL: server.url, maxRetries: 0 });
const openai = new OpenAI({ apiKey: 'none', baseURL: `${server.url}/v1`, maxRetries: 0 });

const body = (messages, more = {}) => ({
  model: 'any',
  max_tokens: 40,
  temperature: 0,
  thinking: { type: 'enabled', budget_tokens: 4 },
  messages,
  ...more,
});
const types_of = (message) => message.content.map((block) => block.type).join(' ');

await main({
  async 'a thinking block streams apart from the text and carries its signature'() {
    const deltas = [];
    const stream = anthropic.messages.stream(body([user('What is 2 plus 3?')]));
    stream.on('streamEvent', (event) => {
      if (event.type === 'content_block_delta') deltas.push(event.delta.type);
    });
    const streamed = await stream.finalMessage();
    assert.match(types_of(streamed), /^thinking( text)?$/);
    const [thought] = streamed.content;
    assert.ok(thought.thinking.length > 0);
    assert.ok(!thought.thinking.includes('</think>'));
    assert.match(thought.signature, /^semantic-1-[0-9a-f]{16}$/);
    const last = deltas.lastIndexOf('thinking_delta');
    assert.equal(deltas[last + 1], 'signature_delta');
    const whole = await anthropic.messages.create(body([user('What is 2 plus 3?')]));
    assert.equal(types_of(whole), types_of(streamed));
    assert.equal(whole.content[0].thinking, thought.thinking);
    assert.equal(whole.content[0].signature, thought.signature);
    assert.equal(text_of(whole), text_of(streamed));
  },

  async 'a block comes back unchanged or not at all'() {
    const messages = [user('My dog is called Biscuit.')];
    const first = await anthropic.messages.create(body(messages));
    messages.push({ role: 'assistant', content: first.content }, user('What is my dog called?'));
    const second = await anthropic.messages.create(body(messages));
    assert.ok(second.usage.cache_read_input_tokens > 0);
    assert.ok(prompt_tokens(second) > second.usage.cache_read_input_tokens);
    messages[1].content[0].thinking += '!';
    await assert.rejects(anthropic.messages.create(body(messages)), { status: 400 });
  },

  async 'who does not ask for thinking gets none'() {
    const answer = await anthropic.messages.create(
      body([user('What is 2 plus 3?')], { thinking: { type: 'disabled' } }),
    );
    assert.ok(!types_of(answer).includes('thinking'));
  },

  async 'tokens are counted as a request then reports them'() {
    const tools = [{ name: 'look', description: 'Looks.', input_schema: { type: 'object' } }];
    const called = { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: [1, 'x'] } };
    const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'a dog' };
    const thought = { type: 'thinking', thinking: 'hm', signature: '' };
    const history = [
      user('What is there?'),
      { role: 'assistant', content: [thought, called] },
      user([result, { type: 'text', text: 'So?' }]),
    ];
    for (const more of [
      {},
      { thinking: { type: 'disabled' } },
      { tools, system: 'Be brief.' },
      { tools, tool_choice: { type: 'none' }, thinking: { type: 'adaptive' }, messages: history },
    ]) {
      const asked = body([user('What is 2 plus 3?')], more);
      const { max_tokens, temperature, ...counted } = asked;
      const { input_tokens } = await anthropic.messages.countTokens(counted);
      assert.equal(prompt_tokens(await anthropic.messages.create(asked)), input_tokens);
    }
  },

  async 'the other dialect has it in reasoning_content'() {
    const asked = {
      model: 'any',
      max_tokens: 12,
      temperature: 0,
      messages: [user('What is 2 plus 3?')],
    };
    const whole = await openai.chat.completions.create(asked);
    const [{ message }] = whole.choices;
    assert.ok(message.reasoning_content.length > 0);
    assert.equal(message.content, '');
    assert.ok(whole.usage.completion_tokens_details.reasoning_tokens > 0);
    let streamed = '';
    for await (const chunk of await openai.chat.completions.create({ ...asked, stream: true }))
      streamed += chunk.choices[0]?.delta.reasoning_content ?? '';
    assert.equal(streamed, message.reasoning_content);
    const again = await openai.chat.completions.create({
      ...asked,
      messages: [...asked.messages, message, user('And 3 plus 4?')],
    });
    assert.ok(again.usage.prompt_tokens_details.cached_tokens > 0);
  },

  async 'the server ends cleanly'() {
    assert.equal((await server.stop()).code, 0);
  },
});
