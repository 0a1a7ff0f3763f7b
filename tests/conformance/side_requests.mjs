// SPDX-License-Identifier: Apache-2.0
// What agent clients ask beside their agents' turns: titles, summaries, probes, detours without
// tools or into a form. Each client's shape of traffic is replayed with such a request between any
// two turns: from the second turn on at least 95 % of the agent's prompt come from memory, and
// never fewer tokens than were remembered when the turn before had ended.

import assert from 'node:assert/strict';

import { main, make_folder, Server } from './harness.mjs';

const reused_least = 0.95;
const server = await Server.start({ cache: make_folder(), args: ['--cache-budget-mb', '1024'] });

const opening =
  'You are a coding agent. You work in the folder of a project, read and change its files with ' +
  'your tools, and say in few words what you have done. '.repeat(12);
const lines = [
  'My dog is called Biscuit.', 'I was born in Perth, by the way.', 'My cat is called Pickle.',
  'I like long walks.', 'What is my dog called?',
]; // prettier-ignore
const parameters = {
  type: 'object',
  properties: { path: { type: 'string', description: 'The file' } },
  required: ['path'],
};
const names = ['read_file', 'write_file', 'list_folder', 'run_command'];
const described = names.map((name) => ({ name, description: `Use it to ${name}.`, parameters }));
const title = 'Give this conversation a title of at most five words.';
const schema = {
  type: 'object',
  properties: { done: { type: 'boolean' } },
  required: ['done'],
  additionalProperties: false,
};

/** Resolves with the answer's text and the server's own count of its prompt. */
async function post(path, body, headers, text_of) {
  const answer = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(120_000),
  });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  const count = (name) => Number(answer.headers.get(`x-semantic-${name}-tokens`));
  return { text: text_of(JSON.parse(text)), prompt: count('prompt'), reused: count('reused') };
}

/** Each wire: how a turn is asked, with the tools and headers that there are. */
const wires = {
  chat: {
    ask: ({ system, history, tools, form, limit = 24, headers }) =>
      post(
        '/v1/chat/completions',
        {
          model: 'any', temperature: 0, max_tokens: limit,
          messages: [...(system ? [{ role: 'system', content: system }] : []), ...history],
          ...(tools ? { tools: tools.map((f) => ({ type: 'function', function: f })) } : {}),
          ...(tools ? { tool_choice: 'none' } : {}),
          ...(form
            ? { response_format: { type: 'json_schema', json_schema: { name: 'f', schema: form } } }
            : {}),
        },
        headers, (body) => body.choices[0].message.content,
      ), // prettier-ignore
  },
  messages: {
    ask: ({ system, history, tools, limit = 24, headers }) =>
      post(
        '/v1/messages',
        {
          model: 'any', temperature: 0, max_tokens: limit, messages: history,
          ...(system ? { system } : {}),
          ...(tools
            ? {
                tools: tools.map(({ parameters: input_schema, ...f }) => ({ ...f, input_schema })),
                tool_choice: { type: 'none' },
              }
            : {}),
        },
        headers, (body) => body.content.map((block) => block.text ?? '').join(''),
      ), // prettier-ignore
  },
  responses: {
    ask: ({ system, history, tools, form, limit = 24, headers, store = false }) =>
      post(
        '/v1/responses',
        {
          model: 'any', temperature: 0, max_output_tokens: limit, store,
          input: [...(system ? [{ role: 'developer', content: system }] : []), ...history],
          ...(tools
            ? {
                tools: [
                  ...tools.map((f) => ({ type: 'function', strict: false, ...f })),
                  { type: 'web_search' },
                ],
                tool_choice: 'none',
              }
            : {}),
          ...(form ? { text: { format: { type: 'json_schema', name: 'f', schema: form } } } : {}),
        },
        headers,
        (body) =>
          body.output
            .flatMap((item) => item.content ?? [])
            .map((part) => part.text)
            .join(''),
      ), // prettier-ignore
  },
  ollama: {
    ask: ({ system, history, tools, form, limit = 24, headers }) =>
      post(
        '/api/chat',
        {
          model: 'any', stream: false, options: { temperature: 0, num_predict: limit },
          messages: [...(system ? [{ role: 'system', content: system }] : []), ...history],
          ...(tools ? { tools: tools.map((f) => ({ type: 'function', function: f })) } : {}),
          ...(form ? { format: form } : {}),
        },
        headers, (body) => body.message.content,
      ), // prettier-ignore
  },
};

const user = (content) => ({ role: 'user', content });

/** What is asked beside turns, by what clients ask it for. */
const detours = {
  title: ({ ask, history, headers }) =>
    ask({ system: title, history: [history[0]], headers, limit: 8 }),
  summary: ({ ask, system, history, headers }) =>
    ask({ system, history: [...history, user('Summarize what was said.')], headers }),
  probe: ({ ask, headers }) => ask({ history: [user('quota')], headers, limit: 1 }),
  speaker: ({ ask, system, history, headers }) =>
    ask({ system, history: [...history, user('Is it done?')], headers, form: schema }),
  search: ({ ask, history, headers }) =>
    ask({ system: 'You search.', history: [history[0]], tools: described.slice(0, 1), headers }),
};

const uuid = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6';
/** Client → its wire, what it calls its conversation, and what it asks beside. */
const clients = {
  'Claude Code': ['messages', { 'x-claude-code-session-id': uuid }, ['title', 'probe']],
  Codex: ['responses', { 'session-id': uuid, 'thread-id': uuid }, ['title', 'summary', 'speaker']],
  opencode: ['chat', { 'x-session-id': 'ses_1' }, ['title', 'summary']],
  pi: ['chat', {}, ['summary']],
  'Qwen Code': ['chat', {}, ['speaker', 'summary', 'title']],
  'Vercel AI SDK': ['responses', {}, ['title', 'speaker']],
  'OpenAI Agents SDK': ['responses', {}, ['speaker', 'search']],
  'Pydantic AI': ['chat', {}, ['speaker', 'search']],
  LangGraph: ['chat', {}, ['summary', 'search']],
  LiteLLM: ['chat', {}, ['title', 'probe']],
  llm: ['chat', {}, ['title']],
  Ollama: ['ollama', {}, ['title', 'speaker']],
};

async function replay(name) {
  const [wire, headers, asides] = clients[name];
  const { ask } = wires[wire];
  // Each client's agent is its own.
  const system = `${opening} The client is ${name}.`;
  const history = [];
  let [known, least] = [0, 1];
  for (const [i, line] of lines.entries()) {
    history.push(user(line));
    const turn = await ask({ system, history, tools: described, headers });
    if (i > 0) {
      const share = turn.reused / turn.prompt;
      least = Math.min(least, share);
      assert.ok(share >= reused_least, `turn ${i + 1}: ${turn.reused} of ${turn.prompt}`);
      assert.ok(turn.reused >= known, `turn ${i + 1}: ${turn.reused} of ${known} known tokens`);
    }
    known = turn.prompt - 1;
    history.push({ role: 'assistant', content: turn.text });
    const aside = asides[i % asides.length];
    await detours[aside]({ ask, system, history, headers });
  }
  console.log(`        ${name}: at least ${(100 * least).toFixed(1)} % from memory`);
}

await main(
  Object.fromEntries(
    Object.keys(clients).map((name) => [
      `${name}: what is asked beside never costs the agent its memory`,
      () => replay(name),
    ]),
  ),
  240_000,
);
