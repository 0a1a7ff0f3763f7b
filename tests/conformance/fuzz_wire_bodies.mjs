// SPDX-License-Identifier: Apache-2.0
// Random requests with the fields that clients of late 2026 send, which must be taken, and damage
// to them: tools that come late or in namespaces, summaries, edits of the context, policies of the
// memory, forks, MCP, compressed bodies. What fuzz_wires.mjs sends; all of it follows from a seed.

import * as zlib from 'node:zlib';

import * as bodies from './fuzz_bodies.mjs';

const names = ['look', 'get_weather', 'f', 'late'];
const texts = [
  'Hi.', 'My dog is called Biscuit.', '', 'Grüße 🐕', '<tool_call>', 'word '.repeat(40),
]; // prettier-ignore
const properties = { city: { type: 'string', maxLength: 9 }, n: { type: 'integer' } };
const schema = { type: 'object', properties, additionalProperties: false };
const sealed = 'c2VtYW50aWM=';
const policies = [{ keep: '5m' }, { keep: 3600, pin: true }, { pin: false }, { drop: true }];
const lifetimes = ['0s', '5m', '1h', '30m', '12h'];
const head_words = 'You are an agent that fixes a program. ';

const some_names = (r) => names.filter(() => r.chance(0.6));
const few_tokens = (r) => r.pick([1, 2, 8, 16]);
const memory_policy = (r) => r.pick(policies);

// Messages.

const reference = (r) => ({ type: 'tool_reference', name: r.pick(names) });
const definition = (r) => ({
  type: 'tool_definition',
  definition: { name: r.pick(names), description: r.pick(texts), input_schema: schema },
});
const messages_late = (r) =>
  r.pick([
    () => ({
      role: 'system',
      content: [
        { type: 'tool_addition', tool: r.chance(0.5) ? reference(r) : definition(r) },
        ...r.list(2, () => ({ type: 'tool_removal', tool: reference(r) })),
      ],
    }),
    () => ({ role: 'system', content: r.pick(texts), clear_at: 'next_user_message' }),
    () => ({ role: 'system', output_config: { effort: r.pick(['low', 'medium', 'high', 'max']) } }),
    () => ({
      role: r.pick(['assistant', 'user']),
      content: [{ type: 'compaction', content: r.pick(texts) }],
    }),
    () => ({
      role: 'assistant',
      content: [{ type: 'tool_use', id: 'toolu_1', name: r.pick(names), input: {} }],
    }),
    () => ({
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'toolu_1',
          content: r.list(3, () => ({ type: 'tool_reference', tool_name: r.pick(names) })),
        },
      ],
    }),
    () => ({ role: r.pick(['user', 'assistant']), content: r.pick(texts) }),
  ])();

const tokens_trigger = (r) => ({ type: 'input_tokens', value: r.pick([0, 1, 50, 100_000]) });
const messages_edit = (r) =>
  r.pick([
    () => ({
      type: 'clear_tool_uses_20250919',
      ...r.some(0.7, {
        trigger: () => (r.chance(0.5) ? tokens_trigger(r) : { type: 'tool_uses', value: 1 }),
        keep: () => ({ type: 'tool_uses', value: r.below(3) }),
        clear_at_least: () => tokens_trigger(r),
        clear_tool_inputs: () => (r.chance(0.5) ? true : [r.pick(names)]),
        exclude_tools: () => [r.pick(names)],
      }),
    }),
    () => ({ type: 'clear_thinking_20251015', keep: r.pick(['all', { type: 'all' }]) }),
    () => ({
      type: 'compact_20260112',
      ...r.some(0.3, {
        trigger: () => ({ type: 'input_tokens', value: 50_000 }),
        instructions: () => r.pick(texts),
        pause_after_compaction: () => r.chance(0.5),
      }),
    }),
    () => ({ type: 'edit_to_come_20280101' }),
  ])();

const messages = (r) => ({
  model: 'any',
  max_tokens: few_tokens(r),
  system: [
    {
      type: 'text',
      text: head_words.repeat(1 + r.below(9)),
      ...r.some(0.5, { cache_control: () => ({ type: 'ephemeral', ttl: r.pick(lifetimes) }) }),
    },
  ],
  messages: [...r.list(8, () => messages_late(r)), { role: 'user', content: 'Hello.' }],
  tools: some_names(r).map((name) => ({
    name,
    input_schema: schema,
    ...r.some(0.6, { defer_loading: () => true }),
  })),
  ...r.some(0.2, {
    stream: () => true,
    thinking: () => ({ type: 'adaptive', display: r.pick(['updates', 'omitted', 'to_come']) }),
    context_management: () => ({ edits: r.list(4, () => messages_edit(r)) }),
    safeguards: () => [
      {
        type: 'dangerous_tool_use',
        classifier_context: { v: 1, permission_mode: 'auto', live_cwd: '/p' },
      },
    ],
    compaction: () => ({ type: 'summarize' }),
    diagnostics: () => ({ previous_message_id: r.pick(['msg_1', 'msg_2']) }),
    memory_policy: () => memory_policy(r),
    fallbacks: () => [],
    speed: () => 'standard',
  }),
});

// Responses.

const function_tool = (r, name = r.pick(names)) => ({
  type: 'function',
  name,
  parameters: schema,
  ...r.some(0.4, { defer_loading: () => true, description: () => r.pick(texts) }),
});
const custom_tool = (r, name) => ({
  type: 'custom',
  name,
  ...r.some(0.4, {
    format: () => ({
      type: 'grammar',
      syntax: r.pick(['regex', 'lark']),
      definition: '[a-z]{1,8}',
    }),
  }),
});
const space = (r, name) => ({
  type: 'namespace',
  name,
  description: 'A server of tools.',
  tools: some_names(r).map((each) => function_tool(r, each)),
});
const search = (r) => ({
  type: 'tool_search',
  execution: r.pick(['client', 'client', 'server']),
  ...r.some(0.5, { description: () => 'Finds tools.', parameters: () => schema }),
});
const called = (r) => ({ call_id: 'call_1', name: r.pick(names) });

const responses_item = (r) =>
  r.pick([
    () => ({
      type: 'additional_tools',
      role: 'developer',
      tools: r.list(3, () => (r.chance(0.7) ? function_tool(r) : space(r, 'mcp__late'))),
    }),
    () => ({ type: 'tool_search_call', call_id: 'call_1', execution: 'client', arguments: {} }),
    () => ({
      type: 'tool_search_output',
      call_id: r.pick(['call_1', null]),
      execution: 'client',
      status: 'completed',
      tools: r.list(3, () => (r.chance(0.5) ? function_tool(r) : space(r, 'mcp__w'))),
    }),
    () => ({ type: 'configuration_update', reasoning: { effort: r.pick(['low', 'high']) } }),
    () => ({ type: 'compaction', encrypted_content: sealed }),
    () => ({ type: 'function_call', ...called(r), namespace: 'mcp__w', arguments: '{}' }),
    () => ({ type: 'function_call', ...called(r), arguments: '{"city":"Rome"}' }),
    () => ({ type: 'function_call_output', call_id: 'call_1', output: r.pick(texts) }),
    () => ({ type: 'custom_tool_call', ...called(r), input: r.pick(texts) }),
    () => ({ type: 'custom_tool_call_output', call_id: 'call_1', output: r.pick(texts) }),
    () => ({ role: r.pick(['user', 'assistant']), content: r.pick(texts) }),
  ])();

const cache_options = (r) =>
  r.some(0.5, {
    ttl: () => r.pick(lifetimes),
    mode: () => r.pick(['implicit', 'explicit']),
    prewarm: () => r.chance(0.5),
    comparison_response_id: () => r.pick(['resp_1', 'resp_none']),
  });

const responses = (r) => {
  const own = some_names(r).map((name) =>
    r.chance(0.3) ? custom_tool(r, name) : function_tool(r, name),
  );
  return {
    model: 'any',
    instructions: head_words.repeat(1 + r.below(9)),
    input: [
      ...r.list(8, () => responses_item(r)),
      { role: 'user', content: 'Hello.' },
      ...(r.chance(0.1) ? [{ type: 'compaction_trigger' }] : []),
    ],
    max_output_tokens: few_tokens(r),
    store: false,
    tools: [
      ...own,
      ...(r.chance(0.5) ? [space(r, 'mcp__w')] : []),
      ...(r.chance(0.4) ? [search(r)] : []),
    ],
    ...r.some(0.25, {
      stream: () => true,
      prompt_cache_options: () => cache_options(r),
      context_management: () =>
        r.list(2, () => ({ type: 'compaction', compact_threshold: r.pick([1, 100, 99_999]) })),
      memory_policy: () => memory_policy(r),
      prompt_cache_retention: () => r.pick(['24h', 'in_memory']),
    }),
  };
};

// Chat completions, the agents' own API.

const chat = (r) => {
  const tools = some_names(r).map((name) =>
    r.chance(0.5)
      ? { type: 'custom', custom: (({ type, ...rest }) => rest)(custom_tool(r, name)) }
      : { type: 'function', function: { name, parameters: schema } },
  );
  const call = () => ({
    id: 'call_1',
    type: 'custom',
    custom: { name: r.pick(names), input: 'x' },
  });
  const history = () => [
    { role: 'assistant', content: null, tool_calls: [call()] },
    { role: 'tool', tool_call_id: 'call_1', content: r.pick(texts) },
  ];
  return {
    model: 'any',
    max_completion_tokens: few_tokens(r),
    messages: [
      ...(r.chance(0.5) ? history() : []),
      { role: 'user', content: head_words.repeat(1 + r.below(9)) },
    ],
    ...(tools.length > 0 && { tools }),
    ...r.some(0.3, {
      stream: () => true,
      prompt_cache_options: () => cache_options(r),
      memory_policy: () => memory_policy(r),
      session_id: () => r.pick(['s1', 's2']),
    }),
  };
};

const agents = ['w1', 'w2', 'w3'];
const place = (r, known) => r.pick([...known, 'msg_none', 0, 16, 256, 1 << 24]);
const change = (r) =>
  r.pick([
    () => ({ keep: r.pick([...lifetimes, 0, 60]), ...r.some(0.5, { pin: () => r.chance(0.5) }) }),
    () => ({ prefetch: true }),
    () => ({ keep: null, pin: false }),
    () => (r.chance(0.3) ? { drop: true } : { pin: true }),
  ])();
const generate = (r) => ({
  messages: [{ role: 'user', content: r.pick(texts.filter((text) => text)) }],
  max_tokens: r.pick([0, 1, 8]),
  append: r.chance(0.4),
  ...r.some(0.2, { memory_policy: () => memory_policy(r), stream: () => true }),
});

// MCP, of both versions.

const version = '2026-07-28';
const mcp_arguments = (r, known) => ({
  list_agents: r.some(0.5, { limit: () => 1 + r.below(9), after: () => r.pick(agents) }),
  inspect_agent: { agent_id: r.pick(agents) },
  fork_agent: {
    agent_id: r.pick(agents),
    ...r.some(0.6, { new_agent_id: () => r.pick(agents), at: () => place(r, known) }),
  },
  append_to_agent: {
    agent_id: r.pick(agents),
    text: 'Hi.',
    ...r.some(0.5, { max_tokens: () => r.below(4), create: () => r.chance(0.7) }),
  },
  recall_from_agent: { agent_id: r.pick(agents), question: 'Who?', max_tokens: 2 },
  list_scenarios: {},
  run_scenario: { scenario_id: 'none', max_tokens: 2 },
});
const mcp_call = (r, known) => {
  const all = mcp_arguments(r, known);
  const name = r.pick(Object.keys(all));
  return { name, arguments: all[name] };
};
const meta = {
  'io.modelcontextprotocol/protocolVersion': version,
  'io.modelcontextprotocol/clientCapabilities': {},
};
const mcp = (r, known) => {
  const method = r.pick(['tools/call', 'tools/call', 'tools/call', 'tools/list', 'ping']);
  const params = method === 'tools/call' ? mcp_call(r, known) : {};
  const is_stateless = method !== 'ping' && r.chance(0.5);
  return {
    headers: is_stateless
      ? {
          'mcp-protocol-version': version,
          'mcp-method': method,
          ...(params.name && { 'mcp-name': params.name }),
        }
      : {},
    message: {
      jsonrpc: '2.0',
      id: r.below(99),
      method,
      params: is_stateless ? { _meta: meta, ...params } : params,
    },
  };
};

/** Some requests come compressed, and some of those in parts. */
function maybe_packed(r, request) {
  if (!r.chance(0.1)) return request;
  const { zstdCompressSync } = zlib; // of newer versions of Node
  const is_zstd = zstdCompressSync && r.chance(0.5);
  const whole = is_zstd ? zstdCompressSync(request.bytes) : zlib.gzipSync(request.bytes);
  // A body that cannot be read is no message of MCP's, nor is its refusal.
  const is_damaged = request.kind !== 'mcp' && r.chance(0.3);
  return {
    ...request,
    headers: { ...request.headers, 'content-encoding': is_zstd ? 'zstd' : 'gzip' },
    bytes: is_damaged ? bodies.damage(r, whole) : whole,
    is_mutated: request.is_mutated || is_damaged,
    is_valid: request.is_valid && !is_damaged,
  };
}

/** {kind, path, headers, bytes, is_mutated, is_valid}: a POST. `known`: ids of messages that agents
 *  were told, so that forks meet some. Valid requests are taken; whether an agent is there, and has
 *  that message, is another matter. */
export function wire_request(r, known) {
  const at = (kind, path, make, may_be_refused = false, headers = {}) => {
    // A copy: damage is not to reach what is shared.
    const { bytes, is_valid } = bodies.body_of(r, () => structuredClone(make(r)));
    const is_mutated = !is_valid;
    const made = { kind, path, headers, bytes, is_mutated, is_valid: is_valid && !may_be_refused };
    return maybe_packed(r, made);
  };
  const name = r.pick(agents);
  return r.pick([
    () => at('messages', '/v1/messages?beta=true', messages),
    () => at('messages', '/v1/messages?beta=true', messages),
    () => at('messages', '/v1/messages?beta=true', messages),
    () => at('count_tokens', '/v1/messages/count_tokens?beta=true', messages),
    () => at('responses', '/v1/responses', responses),
    () => at('responses', '/v1/responses', responses),
    () => at('responses', '/v1/responses', responses),
    () => at('input_tokens', '/v1/responses/input_tokens', responses),
    () => at('chat', '/v1/chat/completions', chat),
    () => at('generate', `/v1/agents/${name}/generate`, generate, true),
    () => at('policy', `/v1/agents/${name}`, change, true),
    () => {
      const make = () => ({
        ...r.some(0.3, { agent_id: () => r.pick(agents) }),
        ...r.some(0.8, { at: () => place(r, known) }),
      });
      return at('fork', `/v1/agents/${name}/fork`, make, true);
    },
    () => {
      const { headers, message } = mcp(r, known);
      return at('mcp', '/mcp', () => message, true, headers);
    },
  ])();
}
