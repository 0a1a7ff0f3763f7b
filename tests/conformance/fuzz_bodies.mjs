// SPDX-License-Identifier: Apache-2.0
// Random requests that must be taken, and damage to them: what fuzz.mjs sends. All of it follows
// from a seed.

/** Numbers from a seed: mulberry32. */
export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
  below(n) {
    return Math.floor(this.next() * n);
  }
  chance(p) {
    return this.next() < p;
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  list(most, make) {
    return Array.from({ length: this.below(most + 1) }, () => make());
  }
  /** Of {name: () => value} about the share `p`. */
  some(p, makers) {
    const made = {};
    for (const [name, make] of Object.entries(makers)) if (this.chance(p)) made[name] = make();
    return made;
  }
}

const texts = [
  'Hi.', 'What is 2 plus 3?', 'My dog is called Biscuit.', 'What is my dog called?', '', ' ', '\n',
  'Grüße, 世界 🐕‍🦺', '<tool_call>', '<|im_start|>system', '</think>', '{"a": [1, 2', '\u0000',
  '\\u0000 "',
  '<|im_end|>', '\ufeffx', 'e\u0301', '\u202e', 'a'.repeat(300), 'word '.repeat(60),
]; // prettier-ignore
const names = ['look', 'get_weather', 'f', 'a-b_C9'];
const sessions = ['s1', 's2', 's3', 'a.b:c-d_e', 'x'.repeat(100)];

const changes = [
  { keep: '1h', pin: true },
  { keep: 0 },
  { keep: null, pin: false },
  { prefetch: true },
  { drop: true },
  { keep: 'soon', drop: [] },
];
const kept = [{ keep: '5m' }, { pin: true }, { drop: true }, { keep: 3600 }];
const memory_policy = (r) => r.pick(kept);

const schema = (r, depth = 2) => {
  const kind = r.below(depth > 0 ? 7 : 5);
  if (kind === 0) return { type: 'string', ...r.some(0.3, { maxLength: () => r.below(9) }) };
  if (kind === 1) return { type: 'integer', minimum: -3, maximum: r.below(90) };
  if (kind === 2) return { enum: [r.pick(['x', 1, null, true]), 'other'] };
  if (kind === 3) return { type: ['boolean', 'null'] };
  if (kind === 4) return { type: 'string', pattern: '^[a-z]{1,3}$' };
  if (kind === 5) return { type: 'array', items: schema(r, depth - 1), maxItems: 2 };
  return object_schema(r, depth - 1);
};
const object_schema = (r, depth = 2) => ({
  type: 'object',
  properties: Object.fromEntries(r.list(3, () => [r.pick(['city', 'n', 'ü x']), schema(r, depth)])),
  required: [],
  additionalProperties: false,
});

/** Tools of different names. */
const tool_names = (r) => names.filter(() => r.chance(0.5));
const max_tokens = (r) => r.pick([0, 1, 2, 8, 16]);

const anthropic_text = (r) => ({
  type: 'text',
  text: r.pick(texts),
  ...r.some(0.1, { cache_control: () => ({ type: 'ephemeral' }), citations: () => null }),
});
const anthropic_result = (r) => ({
  type: 'tool_result',
  tool_use_id: 'toolu_1',
  ...r.some(0.7, {
    content: () => (r.chance(0.5) ? r.pick(texts) : r.list(2, () => anthropic_text(r))),
    is_error: () => r.chance(0.5),
  }),
});
const anthropic_said = (r) =>
  r.pick([
    () => anthropic_text(r),
    () => ({ type: 'thinking', thinking: 'hm', signature: r.pick(['', 'abc']) }),
    () => ({ type: 'redacted_thinking', data: 'x' }),
    () => ({
      type: 'tool_use',
      id: 'toolu_1',
      name: r.pick(names),
      input: { city: r.pick(texts) },
    }),
  ])();

const anthropic_message = (r) => {
  const role = r.pick(['user', 'user', 'assistant', 'system']);
  if (role === 'system' || r.chance(0.4)) return { role, content: r.pick(texts) };
  const part = () =>
    role === 'assistant'
      ? anthropic_said(r)
      : r.chance(0.3)
        ? anthropic_result(r)
        : anthropic_text(r);
  return { role, content: [part(), ...r.list(2, part)] };
};

const billing = 'x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=a1b2c;';
/** What changes in the middle of a conversation. */
const late_message = (r) =>
  r.pick([
    () => ({
      role: 'system',
      content: r.list(3, () =>
        r.chance(0.5)
          ? { type: 'tool_addition', tool: { type: 'tool_reference', name: r.pick(names) } }
          : { type: 'tool_removal', tool: { type: 'tool_reference', name: 'gone' } },
      ),
    }),
    () => ({
      role: 'system',
      content: [
        {
          type: 'tool_addition',
          tool: {
            type: 'tool_definition',
            definition: { name: r.pick(names), input_schema: object_schema(r) },
          },
        },
      ],
    }),
    () => ({ role: 'system', content: r.pick(texts), clear_at: 'next_user_message' }),
    () => ({ role: 'system', output_config: { effort: r.pick(['low', 'max']) } }),
    () => ({ role: 'user', content: [{ type: 'compaction', content: 'The dog is Biscuit.' }] }),
    () => ({
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'toolu_1',
          content: [{ type: 'tool_reference', tool_name: r.pick(names) }],
        },
      ],
    }),
  ])();

const anthropic_edit = (r) =>
  r.pick([
    () => ({
      type: 'clear_tool_uses_20250919',
      trigger: { type: r.pick(['tool_uses', 'input_tokens']), value: r.below(40) },
      keep: { type: 'tool_uses', value: r.below(3) },
      ...r.some(0.3, { clear_tool_inputs: () => true, exclude_tools: () => [r.pick(names)] }),
    }),
    () => ({ type: 'clear_thinking_20251015', keep: 'all' }),
    () => ({ type: 'clear_thinking_20251015', keep: { type: 'thinking_turns', value: 1 } }),
    () => ({ type: 'compact_20260112', pause_after_compaction: r.chance(0.5) }),
    () => ({ type: 'of_tomorrow_20270101' }),
  ])();

const anthropic_prompt = (r) => {
  const tools = tool_names(r).map((name) => ({
    name,
    input_schema: object_schema(r),
    ...r.some(0.3, {
      description: () => r.pick(texts),
      strict: () => r.chance(0.5),
      type: () => 'custom',
      cache_control: () => ({ type: 'ephemeral', ...r.some(0.5, { ttl: () => '1h' }) }),
    }),
    ...r.some(0.1, { defer_loading: () => true }),
  }));
  const choices = [{ type: 'auto' }, { type: 'none' }];
  const told = tools.filter((tool) => !tool.defer_loading);
  if (told.length > 0) {
    choices.push({ type: 'any' });
    choices.push({ type: 'tool', name: r.pick(told).name, disable_parallel_tool_use: true });
  }
  return {
    model: r.pick(['any', 'claude-x', 'semantic-tiny']),
    messages: [
      ...r.list(4, () => (r.chance(0.2) ? late_message(r) : anthropic_message(r))),
      { role: 'user', content: 'Hello.' },
    ],
    ...r.some(0.1, { thread: () => ({ type: 'create' }) }),
    ...r.some(0.3, {
      system: () =>
        r.chance(0.5)
          ? r.pick(texts)
          : [{ type: 'text', text: billing }, ...r.list(2, () => anthropic_text(r))],
      tools: () => tools,
      thinking: () =>
        r.pick([{ type: 'disabled' }, { type: 'adaptive' }, { type: 'enabled', budget_tokens: 9 }]),
    }),
    choices,
  };
};

/** A body of /v1/messages/count_tokens. */
export const count_tokens = (r) => {
  const { choices, ...prompt } = anthropic_prompt(r);
  return prompt;
};

/** A body of /v1/messages. */
export const messages = (r) => {
  const { choices, ...prompt } = anthropic_prompt(r);
  return {
    max_tokens: max_tokens(r),
    ...prompt,
    ...(prompt.tools && r.chance(0.5) ? { tool_choice: r.pick(choices) } : {}),
    ...r.some(0.2, {
      stream: () => r.chance(0.8),
      temperature: () => r.pick([0, 0.5, 1, 2]),
      top_p: () => r.pick([0.1, 1]),
      top_k: () => r.pick([1, 40]),
      stop_sequences: () => r.list(3, () => r.pick(['END', '.', '\n\n', 'a'])),
      metadata: () => ({ user_id: r.pick(sessions) }),
      service_tier: () => 'auto',
      seed: () => r.below(1000),
      output_config: () => ({ effort: r.pick(['low', 'high']) }),
      cache_control: () => ({ type: 'ephemeral' }),
      context_management: () => ({ edits: r.list(3, () => anthropic_edit(r)) }),
      safeguards: () => [{ type: 'dangerous_tool_use', classifier_context: { v: 1 } }],
      mcp_servers: () => [],
      memory_policy: () => memory_policy(r),
      unknown_field: () => r.pick(texts),
    }),
  };
};

const openai_parts = (r) => r.list(2, () => ({ type: 'text', text: r.pick(texts) }));
const openai_message = (r) => {
  const role = r.pick(['user', 'user', 'assistant', 'system', 'developer', 'tool']);
  const content = r.chance(0.7) ? r.pick(texts) : [{ type: 'text', text: 'x' }, ...openai_parts(r)];
  if (role === 'tool') return { role, tool_call_id: 'call_1', content };
  if (role !== 'assistant') return { role, content, ...r.some(0.1, { name: () => 'alice' }) };
  const call = () => ({
    id: 'call_1',
    type: 'function',
    function: { name: r.pick(names), arguments: r.pick(['{}', '', '{"city":"Bern"}']) },
  });
  if (r.chance(0.3)) return { role, content: null, tool_calls: [call()] };
  return { role, content, ...r.some(0.2, { reasoning_content: () => 'hm', refusal: () => null }) };
};

/** A body of /v1/chat/completions. */
export const chat = (r) => {
  const tools = tool_names(r).map((name) => ({
    type: 'function',
    function: {
      name,
      ...r.some(0.7, { parameters: () => object_schema(r), description: () => r.pick(texts) }),
      ...r.some(0.2, { strict: () => r.chance(0.5) }),
    },
  }));
  const choices = ['auto', 'none'];
  if (tools.length > 0) {
    choices.push('required');
    choices.push({ type: 'function', function: { name: r.pick(tools).function.name } });
  }
  const forms = [
    { type: 'text' },
    { type: 'json_object' },
    {
      type: 'json_schema',
      json_schema: { name: 'answer', strict: true, schema: object_schema(r) },
    },
  ];
  const stream = r.chance(0.4);
  return {
    model: r.pick(['any', 'gpt-x', 'semantic-tiny']),
    messages: [...r.list(4, () => openai_message(r)), { role: 'user', content: 'Hello.' }],
    [r.pick(['max_tokens', 'max_completion_tokens'])]: max_tokens(r),
    ...(tools.length > 0 && r.chance(0.5)
      ? { tools, ...r.some(0.5, { tool_choice: () => r.pick(choices) }) }
      : r.some(0.3, { response_format: () => r.pick(forms) })),
    ...(stream && { stream, ...r.some(0.5, { stream_options: () => ({ include_usage: true }) }) }),
    ...(r.chance(0.2) && { logprobs: true, ...r.some(0.5, { top_logprobs: () => r.below(21) }) }),
    ...r.some(0.15, {
      n: () => 1 + r.below(3),
      temperature: () => r.pick([0, 1, 2]),
      top_p: () => r.pick([0.1, 1]),
      stop: () => (r.chance(0.5) ? 'END' : ['.', '\n']),
      seed: () => r.below(1000),
      presence_penalty: () => r.pick([-2, 0, 2]),
      frequency_penalty: () => r.pick([-2, 0.5]),
      logit_bias: () => ({ 70: r.pick([-100, 5, 100]) }),
      parallel_tool_calls: () => r.chance(0.5),
      reasoning_effort: () => r.pick(['none', 'low', 'medium', 'high']),
      session_id: () => r.pick(sessions),
      prompt_cache_key: () => r.pick(sessions),
      user: () => r.pick(texts),
      store: () => false,
      unknown_field: () => [r.pick(texts)],
    }),
  };
};

const response_item = (r) =>
  r.pick([
    () => ({ role: r.pick(['user', 'system', 'developer']), content: r.pick(texts) }),
    () => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'x' }] }),
    () => ({ role: 'assistant', content: [{ type: 'output_text', text: r.pick(texts) }] }),
    () => ({ type: 'function_call', call_id: 'call_1', name: r.pick(names), arguments: '{}' }),
    () => ({ type: 'function_call_output', call_id: 'call_1', output: r.pick(texts) }),
    () => ({ type: 'reasoning', id: 'rs_1', summary: [] }),
    () => ({
      type: 'additional_tools',
      role: 'developer',
      tools: [{ type: 'function', name: r.pick(names), parameters: object_schema(r) }],
    }),
    () => ({
      type: 'tool_search_output',
      call_id: 'call_1',
      execution: 'client',
      tools: [{ type: 'function', name: r.pick(names), parameters: object_schema(r) }],
    }),
    () => ({ type: 'configuration_update', reasoning: { effort: 'low' } }),
  ])();

/** A body of /v1/responses. */
export const responses = (r) => {
  const tools = tool_names(r).map((name) => ({
    type: 'function',
    name,
    strict: false,
    parameters: object_schema(r),
  }));
  const asked = { role: 'user', content: 'Hello.' };
  return {
    model: r.pick(['any', 'gpt-x', 'semantic-tiny']),
    input: r.chance(0.3) ? 'Hello.' : [...r.list(4, () => response_item(r)), asked],
    max_output_tokens: r.pick([1, 2, 8, 16]),
    store: r.chance(0.1),
    ...(tools.length > 0 && r.chance(0.5) ? { tools, tool_choice: r.pick(['auto', 'none']) } : {}),
    ...r.some(0.2, {
      stream: () => r.chance(0.8),
      instructions: () => r.pick(texts),
      temperature: () => r.pick([0, 1, 2]),
      top_p: () => r.pick([0.1, 1]),
      include: () => ['reasoning.encrypted_content'],
      prompt_cache_key: () => r.pick(sessions),
      metadata: () => ({ a: 'b' }),
      truncation: () => 'disabled',
      prompt_cache_options: () => ({
        ttl: r.pick(['30m', '12h']),
        ...r.some(0.3, { prewarm: () => true, comparison_response_id: () => 'resp_1' }),
      }),
      text: () => ({ format: { type: 'text' } }),
      reasoning: () => ({ effort: r.pick(['low', 'high']) }),
      user: () => r.pick(texts),
      unknown_field: () => [r.pick(texts)],
    }),
  };
};

// A text that the model ends by itself: others run until the context is full where damage leaves
// them without a limit.
const ended = 'My dog is called Biscuit and he likes to run along the beach in the morning.';

/** A body of /v1/completions. */
export const completions = (r) => ({
  model: r.pick(['any', 'semantic-tiny']),
  prompt: r.chance(0.5) ? ended : [ended],
  max_tokens: r.pick([1, 2, 8, 16]),
  ...r.some(0.3, {
    stream: () => r.chance(0.8),
    n: () => 1 + r.below(3),
    logprobs: () => r.below(6),
    temperature: () => r.pick([0, 1, 2]),
    stop: () => (r.chance(0.5) ? 'END' : ['.', '\n']),
    seed: () => r.below(1000),
  }),
});

const ollama_message = (r) => {
  const role = r.pick(['user', 'user', 'assistant', 'system', 'tool']);
  const call = () => ({ function: { name: r.pick(names), arguments: { city: 'Bern' } } });
  return {
    role,
    content: r.pick(texts),
    ...(role === 'assistant' && r.some(0.3, { tool_calls: () => [call()], thinking: () => 'hm' })),
    ...(role === 'tool' && r.some(0.7, { tool_name: () => r.pick(names) })),
  };
};

/** A body of /api/chat. */
export const ollama_chat = (r) => {
  const tools = tool_names(r).map((name) => ({
    type: 'function',
    function: { name, parameters: object_schema(r) },
  }));
  return {
    model: r.pick(['any', 'semantic-tiny', 'semantic-tiny:latest']),
    messages: [...r.list(4, () => ollama_message(r)), { role: 'user', content: 'Hello.' }],
    options: {
      num_predict: r.pick([1, 2, 8, 16]),
      ...r.some(0.3, {
        temperature: () => r.pick([0, 0.8, 2]),
        num_ctx: () => 4096,
        seed: () => r.below(100),
        stop: () => ['END'],
      }),
    },
    ...(tools.length > 0 && r.chance(0.5)
      ? { tools }
      : r.some(0.3, { format: () => r.pick(['json', object_schema(r)]) })),
    ...r.some(0.3, {
      stream: () => r.chance(0.5),
      think: () => r.pick([true, false, 'low']),
      keep_alive: () => r.pick([0, -1, '5m']),
    }),
  };
};

/** Headers that any request may have. */
export const headers = (r) =>
  r.some(0.15, {
    'x-session-id': () => r.pick(sessions),
    'x-claude-code-session-id': () => r.pick(['c1', 'c2']),
    'anthropic-version': () => r.pick(['2023-06-01', '2026-10-21']),
    'anthropic-beta': () => 'a-1,b-2,message-threads-2026-08-12',
    'x-request-id': () => r.pick(['mine', 'not an id']),
    'content-type': () => r.pick(['text/plain', 'application/json; charset=utf-8']),
    origin: () => 'http://localhost:3000',
  });
/** Headers that may be wrong. */
export const odd_headers = (r) =>
  r.some(0.1, {
    'x-session-id': () => r.pick(['', 'a b', '../up', 'x'.repeat(129), '\xff']),
    'x-claude-code-session-id': () => r.pick(['', 'a:b', 'y'.repeat(200)]),
    'x-claude-code-agent-id': () => r.pick(['', 'ok', '/']),
    'x-claude-code-parent-agent-id': () => r.pick(['', 'ok', '/']),
    'content-encoding': () => r.pick(['gzip', 'identity', '']),
    'x-api-key': () => 'none',
    authorization: () => r.pick(['Bearer', 'Bearer x', 'Basic eDp5']),
    origin: () => r.pick(['null', 'https://a.example', '']),
  });

const odd_values = [
  null, true, false, -1, 0, 0.5, 1e308, -1e308, 2 ** 31, 2 ** 53, 1e21, '', 'x', '\u0000', [], {},
  [[]], [{}], [null], { type: 'text' }, { type: 'image' }, { type: null }, '9'.repeat(99),
  ['a', 'a'], { '': 1 }, { $ref: '#' }, { $ref: '#/$defs/none' }, { not: {} }, { pattern: '(' },
  { type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }, 'assistant', 'developer',
]; // prettier-ignore

/** Every place in a value: [holder, key]. */
function places(value, found = []) {
  if (value === null || typeof value !== 'object') return found;
  for (const key of Object.keys(value)) {
    found.push([value, key]);
    places(value[key], found);
  }
  return found;
}

const more_fields = [
  'thread', 'tools', 'stream', 'n', 'stop', 'system', 'tool_choice', 'functions',
]; // prettier-ignore
const pieces = [
  'null', '"', '{', '}', '[', ',', ':', '\\', '\\ud800', '1e999', ' ', '\xff', '-',
]; // prettier-ignore

/** Changes one place of `body`, which stays JSON. */
function change(r, body) {
  const [holder, key] = r.pick(places(body));
  const kind = r.below(7);
  if (kind <= 2) {
    holder[key] = structuredClone(r.pick(odd_values));
  } else if (kind === 3) {
    if (Array.isArray(holder)) holder.splice(Number(key), 1);
    else delete holder[key];
  } else if (kind === 4) {
    const [other, place] = r.pick(places(body));
    holder[key] = structuredClone(other[place]);
  } else if (kind === 5 && Array.isArray(holder)) {
    for (let i = r.below(9); i > 0; --i) holder.push(structuredClone(holder[key]));
  } else {
    const field = r.chance(0.5) ? r.pick(more_fields) : key;
    body[field] = structuredClone(r.pick(odd_values));
  }
}

/** A few bytes changed, so that it may be no JSON any more. */
export function damage(r, bytes) {
  const at = r.below(bytes.length);
  const piece = r.pick(pieces);
  const kind = r.below(5);
  if (kind === 0) return bytes.subarray(0, at);
  const behind = at + (kind === 1 ? 0 : 1 + r.below(kind === 2 ? 1 : 9));
  const between = kind === 3 ? Buffer.alloc(0) : Buffer.from(piece, 'latin1');
  return Buffer.concat([bytes.subarray(0, at), between, bytes.subarray(behind)]);
}

const limits = ['max_tokens', 'max_completion_tokens'];

/** Answers are kept short, whatever was changed: what is tested here is how they look. */
function with_limit(bytes) {
  let body;
  try {
    body = JSON.parse(bytes.toString());
  } catch {
    return bytes;
  }
  if (body === null || typeof body !== 'object' || Array.isArray(body)) return bytes;
  const is_long = (key) => typeof body[key] === 'number' && body[key] > 16;
  const is_open = limits.every((key) => (body[key] ?? null) === null);
  if (!is_open && !limits.some(is_long) && !is_long('n')) return bytes;
  for (const key of [...limits, 'n']) if (is_long(key)) body[key] = 9;
  if (is_open) body.max_tokens = 9;
  return Buffer.from(JSON.stringify(body));
}

/** {bytes, is_valid}: a third of the bodies as they were made, the others changed or damaged. */
export function body_of(r, make) {
  const body = make(r);
  const kind = r.below(3);
  if (kind === 0) return { bytes: Buffer.from(JSON.stringify(body)), is_valid: true };
  for (let times = 1 + r.below(3); times > 0 && kind === 1; --times)
    if (places(body).length > 0) change(r, body);
  let bytes = Buffer.from(JSON.stringify(body));
  for (let times = 1 + r.below(3); times > 0 && kind === 2; --times)
    if (bytes.length > 0) bytes = damage(r, bytes);
  return { bytes: with_limit(bytes), is_valid: false };
}

/** {method, path}: of the models, mostly. */
export function models_target(r) {
  const ids = ['semantic-tiny', 'none', '%2f', '%zz', '..', 'a/b', '', '%00', 'ü', 'x'.repeat(999)];
  const fields = ['limit', 'after_id', 'before_id', '', 'x'];
  const values = ['1', '0', '-1', '1000', 'x', '', '%31', '9'.repeat(20)];
  const query = r.list(3, () => `${r.pick(fields)}=${r.pick(values)}`).join('&');
  const path = r.chance(0.5) ? '/v1/models' : `/v1/models/${encodeURI(r.pick(ids))}`;
  const method = r.pick(['GET', 'GET', 'GET', 'HEAD', 'OPTIONS', 'POST', 'DELETE', 'PUT', 'PATCH']);
  return { method, path: path + (query || r.chance(0.1) ? `?${query}` : '') };
}

const generate = (r) => ({
  ...(r.chance(0.5)
    ? { prompt: r.pick(texts) + 'Hello.' }
    : { messages: [{ role: 'user', content: r.pick(texts) }] }),
  max_tokens: max_tokens(r),
  ...r.some(0.3, {
    append: () => r.chance(0.7),
    stream: () => r.chance(0.8),
    temperature: () => r.pick([0, 1]),
    stop: () => ['END', '.'],
    system: () => r.pick(texts),
    thinking: () => r.chance(0.5),
  }),
});

/** {method, path, bytes}: of the agents, of which there are few, so that requests meet. */
export function agents_request(r) {
  const known = () => r.pick(['a1', 'a2', 'a3', 'a4']);
  const odd = [...sessions, 'a b', '..', 'ü'];
  const name = r.chance(0.9) ? known() : encodeURIComponent(r.pick(odd));
  const body = (make) => body_of(r, make).bytes;
  const at = (method, path, make) => ({ method, path, bytes: make && body(make) });
  const named = () => ({ agent_id: known() });
  const fork = () => ({ ...named(), at: r.pick(['msg_1', 1, 9e9]) });
  return r.pick([
    () => at('POST', '/v1/agents', named),
    () => at('GET', r.pick(['/v1/agents', '/v1/agents/list', '/v1/agents/stats'])),
    () => at(r.pick(['GET', 'HEAD', 'DELETE']), `/v1/agents/${name}`),
    () => at('POST', `/v1/agents/${name}/generate`, generate),
    () => at('POST', `/v1/agents/${name}/generate`, generate),
    () => at('POST', `/v1/agents/${name}/generate`, generate),
    () => at('POST', `/v1/agents/${name}/fork`, fork),
    () => at('POST', `/v1/agents/${name}`, () => r.pick(changes)),
    () => at('POST', `/v1/agents/${name}/evict`, () => ({ force: r.chance(0.5) })),
    () => at('GET', `/v1/agents/${name}/cache`),
    () => at('PUT', `/v1/agents/${name}/cache`, named),
    () => at(r.pick(['GET', 'POST', 'DELETE']), r.pick(['/admin/caches', '/admin/models/current'])),
  ])();
}
