// SPDX-License-Identifier: Apache-2.0
// A session shaped like Claude Code's: tools and a system text that fill most of the context, a
// billing line that changes with every request, reminders as system messages, two sub-agents, side
// questions under the main agent's session. What was said once is not read again.

import assert from 'node:assert/strict';

import {
  far_sighted_model,
  main,
  make_folder,
  prompt_tokens,
  require_sdk,
  Server,
  stored_tokens,
} from './harness.mjs';
import { paste } from './text.mjs';

const sdk = require_sdk('@anthropic-ai/sdk');

// As much as leaves room for thirty turns in the 16,384 tokens that the embedded model sees. A real
// session's 25,000 are asked for with SESSION_OPENING_TOKENS=25000.
const opening_tokens = Number(process.env.SESSION_OPENING_TOKENS ?? 12000);
const turns = 30;

const tool = (name, parameter, values, description) => ({
  name,
  description,
  input_schema: {
    type: 'object',
    properties: { [parameter]: { type: 'string', enum: values } },
    required: [parameter],
  },
});
const tools = [
  tool('Bash', 'command', ['ls', 'pwd'], `Runs a command. ${paste(opening_tokens * 0.3)}`),
  tool('Read', 'file', ['README.md', 'main.cpp'], `Reads a file. ${paste(opening_tokens * 0.2)}`),
];
const claude = 'You are Claude Code, a helper for programmers.';
const main_system = `${claude} ${paste(opening_tokens * 0.5)}`;
const sub_system = `You search through files. ${paste(600)}`;

const hex = () => Math.floor(Math.random() * 0x100000).toString(16).padStart(5, '0');
const billing = () =>
  `x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch=${hex()};`;
const text = (value, more = {}) => ({ type: 'text', text: value, ...more });
const cached = { cache_control: { type: 'ephemeral' } };

/** One agent of the session: its messages, and how much of each request had to be computed. */
class Agent {
  constructor(client, session, system, its_tools, headers = {}) {
    Object.assign(this, { client, session, system, tools: its_tools, headers });
    Object.assign(this, { messages: [], answers: [] });
  }

  /** Sends what is new; tools are called for when `calls` is set. */
  async turn(fresh, calls) {
    this.messages.push(...fresh);
    const stream = this.client.beta.messages.stream(
      {
        model: 'claude-of-the-day',
        max_tokens: 48,
        temperature: 0,
        system: [text(billing()), text(this.system, cached)],
        tools: this.tools,
        ...(calls ? { tool_choice: { type: 'any', disable_parallel_tool_use: true } } : {}),
        messages: this.messages,
        metadata: { user_id: `user_x_account__session_${this.session}` },
        thinking: { type: 'adaptive', display: 'omitted' },
        context_management: { edits: [] },
        diagnostics: { previous_message_id: this.answers.at(-1)?.id ?? null },
      },
      { headers: { 'x-claude-code-session-id': this.session, ...this.headers } },
    );
    const answer = await stream.finalMessage();
    this.answers.push(answer);
    this.messages.push({ role: 'assistant', content: answer.content });
    return answer;
  }

  /** Turns as a user and their tools make them. */
  async work(count) {
    let fresh = [{ role: 'user', content: [text('Where is the miller?')] }];
    for (let i = 0; i < count; ++i) {
      const answer = await this.turn(fresh, i % 3 === 0);
      const call = answer.content.find((block) => block.type === 'tool_use');
      const left = {
        role: 'system',
        content: `<total_tokens>${90000 - 317 * i} tokens left</total_tokens>`,
      };
      const said = call
        ? [{ type: 'tool_result', tool_use_id: call.id, content: `${i} files. ${paste(30)}` }]
        : [text(`Step ${i}: what stood beside the old bridge?`)];
      fresh = [{ role: 'user', content: said }, ...(call ? [left] : [])];
    }
  }
}

const computed = ({ usage }) => usage.input_tokens + usage.cache_creation_input_tokens;

/** No turn computes more than what it adds: the prompt beyond what the turn before had stored. */
function expect_nothing_read_again(agent, name) {
  agent.answers.forEach((answer, i) => {
    if (i === 0) return;
    // The last token of an answer ended it and was not run.
    const fresh = prompt_tokens(answer) - stored_tokens(agent.answers[i - 1]);
    assert.equal(answer.diagnostics.cache_miss_reason, null);
    assert.ok(
      computed(answer) <= fresh + 1,
      `${name}, turn ${i}: ${computed(answer)} computed, ${fresh} new`,
    );
  });
}

await main(
  {
    async 'thirty turns, two sub-agents and side questions read at least 95 % from memory'() {
      const args = opening_tokens > 12000 ? ['--model', far_sighted_model()] : [];
      const server = await Server.start({ cache: make_folder(), args });
      const client = new sdk.Anthropic({ apiKey: 'none', baseURL: server.url, maxRetries: 0 });
      const session = '0b7e5c1e-90ab-4cde-8f01-23456789abcd';
      const side = [];
      const ask_aside = async (question) => {
        const answer = await client.beta.messages.create(
          {
            model: 'claude-haiku-of-the-day',
            max_tokens: 12,
            temperature: 0,
            system: [text(billing()), text('Give the conversation a title of three words.')],
            messages: [{ role: 'user', content: question }],
          },
          { headers: { 'x-claude-code-session-id': session } },
        );
        side.push(answer);
      };

      const chief = new Agent(client, session, main_system, tools);
      const subs = ['explore-1', 'explore-2'].map(
        (id) =>
          new Agent(client, session, sub_system, [tools[1]], {
            'x-claude-code-agent-id': id,
            'x-claude-code-parent-agent-id': 'main',
          }),
      );
      await ask_aside('Where is the miller?');
      const working = chief.work(turns);
      for (const agent of subs) await agent.work(4);
      await ask_aside('What is this?');
      await working;
      await ask_aside('Summarise what was done.');

      assert.equal(chief.answers.length, turns);
      assert.ok(chief.answers.some((answer) => answer.stop_reason === 'tool_use'));
      assert.ok(prompt_tokens(chief.answers[0]) > opening_tokens * 0.8, 'the opening is too small');
      expect_nothing_read_again(chief, 'the main agent');
      subs.forEach((agent, i) => expect_nothing_read_again(agent, `sub-agent ${i}`));
      const begun = subs[1].answers[0];
      assert.ok(computed(begun) < prompt_tokens(begun) / 10, 'it began anew');
      const all = [...chief.answers, ...subs.flatMap((agent) => agent.answers), ...side];
      const prompts = all.reduce((sum, answer) => sum + prompt_tokens(answer), 0);
      const read = all.reduce((sum, answer) => sum + answer.usage.cache_read_input_tokens, 0);
      console.log(
        `${all.length} requests, ${prompts} prompt tokens, of them ` +
          `${((100 * read) / prompts).toFixed(2)} % from memory; the opening has ` +
          `${prompt_tokens(chief.answers[0])}`,
      );
      assert.ok(read / prompts >= 0.95, `${read} of ${prompts}`);

      // The side questions left the main agent where it was.
      const kept = await (await fetch(`${server.url}/v1/agents/cc_${session}`)).json();
      assert.equal(kept.tier, 'hot');
      assert.equal(kept.tokens, stored_tokens(chief.answers.at(-1)));
      await server.stop();
    },

    async 'a prewarmed prompt is read from memory, and what changed has a name'() {
      const server = await Server.start({ cache: make_folder() });
      const client = new sdk.Anthropic({ apiKey: 'none', baseURL: server.url, maxRetries: 0 });
      const ask = (more) =>
        client.beta.messages.create(
          {
            model: 'claude-of-the-day',
            max_tokens: 8,
            temperature: 0,
            system: [text(billing()), text('Be brief.')],
            messages: [{ role: 'user', content: paste(300) }],
            diagnostics: { previous_message_id: null },
            ...more,
          },
          { headers: { 'X-Session-ID': 'prewarmed' } },
        );
      const warm = await ask({ max_tokens: 0 });
      assert.deepEqual([warm.content, warm.stop_reason], [[], 'max_tokens']);
      const real = await ask({});
      assert.equal(real.usage.input_tokens, 1);
      assert.equal(real.usage.cache_read_input_tokens, prompt_tokens(warm) - 1);
      const changed = await ask({
        system: 'Be verbose.',
        diagnostics: { previous_message_id: real.id },
      });
      assert.equal(changed.diagnostics.cache_miss_reason.type, 'system_changed');
      assert.ok(changed.diagnostics.cache_miss_reason.cache_missed_input_tokens > 100);
      await server.stop();
    },
  },
  240_000,
);
