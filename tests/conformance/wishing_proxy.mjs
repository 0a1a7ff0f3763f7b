// SPDX-License-Identifier: Apache-2.0
// Stands between an agent's program and the server, and has the model do what a small one would not
// do by itself: call a tool a number of times, or answer without end. Everything else passes as it
// is. The program executes the calls and goes on as it does with any model.

import { createServer, request as ask } from 'node:http';

import { require_sdk } from './harness.mjs';

const { WebSocket, WebSocketServer } = require_sdk('ws');

const long_texts = {
  type: 'array',
  items: { type: 'string', minLength: 10_000 },
  minItems: 9,
};

const short_answer = {
  type: 'object',
  properties: { done: { type: 'boolean' } },
  required: ['done'],
  additionalProperties: false,
};

/** A schema of an object that holds these values alone. */
const only = (values) => ({
  type: 'object',
  properties: Object.fromEntries(
    Object.entries(values).map(([key, value]) => [key, { const: value }]),
  ),
  required: Object.keys(values),
  additionalProperties: false,
});

/** How each wire names tools, counts their results, demands one, and has an answer in a form. */
const wires = {
  '/v1/messages': {
    tools: (body) => (body.tools ?? []).map((tool) => tool.name),
    results: (body) =>
      body.messages
        .flatMap(({ content }) => (Array.isArray(content) ? content : []))
        .filter((block) => block.type === 'tool_result').length,
    demand: (body, name) => (body.tool_choice = { type: 'tool', name }),
    fix(body, name, schema) {
      for (const tool of body.tools ?? []) if (tool.name === name) tool.input_schema = schema;
    },
    limit: (body, tokens) => (body.max_tokens = tokens),
    form: (body, schema) => (body.output_config = { format: { type: 'json_schema', schema } }),
  },
  '/v1/chat/completions': {
    tools: (body) => (body.tools ?? []).map((tool) => tool.function?.name),
    results: (body) => body.messages.filter(({ role }) => role === 'tool').length,
    demand: (body, name) => (body.tool_choice = { type: 'function', function: { name } }),
    fix(body, name, schema) {
      for (const { function: tool } of body.tools ?? [])
        if (tool?.name === name) tool.parameters = schema;
    },
    limit(body, tokens) {
      body.max_completion_tokens = tokens;
      delete body.max_tokens;
    },
    form(body, schema) {
      body.response_format = { type: 'json_schema', json_schema: { name: 'form', schema } };
    },
  },
  '/v1/responses': {
    tools: (body) =>
      (body.tools ?? []).flatMap(({ type, name, tools }) =>
        type === 'namespace' ? tools.map((each) => `${name}/${each.name}`) : name,
      ),
    results: (body) => body.input.filter(({ type }) => type === 'function_call_output').length,
    demand(body, tool) {
      const [name, namespace] = tool.split('/').reverse();
      body.tool_choice = { type: 'function', name, ...(namespace ? { namespace } : {}) };
    },
    fix(body, name, schema) {
      for (const tool of (body.tools ?? []).flatMap((each) => each.tools ?? each))
        if (tool.name === name) tool.parameters = schema;
    },
    limit: (body, tokens) => (body.max_output_tokens = tokens),
    form: (body, schema) =>
      (body.text = { format: { type: 'json_schema', name: 'form', schema } }),
  },
  '/api/chat': {
    tools: (body) => (body.tools ?? []).map((tool) => tool.function?.name),
    results: (body) => body.messages.filter(({ role }) => role === 'tool').length,
    demand: (body, name) => (body.tool_choice = { type: 'function', function: { name } }),
    limit: (body, tokens) => (body.options = { ...body.options, num_predict: tokens }),
    form: (body, schema) => (body.format = schema),
  },
};

export class WishingProxy {
  /** Of a tool: `calls` results of it are in a conversation before its model may say anything, and
   *  that is short: a small model would ramble on about what the tool has said. */
  tool = undefined;
  calls = 0;
  /** In place of `tool` and `calls`: the tools that are called, one after the other; one in a
   *  namespace is SPACE/NAME. */
  sequence = [];
  /** Arguments by name of a tool, with which alone it can be called. */
  fixed = {};
  /** Whether the main requests, those with the tool, are answered without end. */
  is_endless = false;
  /** Called when the first bytes of an endless answer have come. */
  on_endless = () => {};
  /** Every request as it came: {method, path, headers, body}. */
  asked = [];
  /** The most results of calls that a request has brought. */
  results = 0;
  /** Answers that came as a stream of events. */
  streamed = 0;
  /** Answers that came over a WebSocket; `asked` has none of their requests. */
  over_sockets = 0;
  /** How many results of calls a conversation has up to a response, by its id. A request over a
   *  WebSocket has only what is new since the response that it names. */
  #results_up_to = new Map();

  /** Stands before the server at `url`; resolves with its own address. */
  async listen(url) {
    this.url = new URL(url);
    this.server = createServer((incoming, outgoing) => this.#pass(incoming, outgoing));
    this.sockets = new WebSocketServer({ noServer: true });
    this.server.on('upgrade', (incoming, socket, head) => this.#join(incoming, socket, head));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server.closeAllConnections();
    for (const client of this.sockets.clients) client.terminate();
    return new Promise((resolve) => this.server.close(resolve));
  }

  async #pass(incoming, outgoing) {
    const chunks = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method, url: path } = incoming;
    this.asked.push({ method, path, headers: incoming.headers, body });
    const wire = wires[new URL(path, this.url).pathname];
    const { bytes, is_endless } = this.#changed(body, wire);
    const headers = { ...incoming.headers, host: this.url.host, 'content-length': bytes.length };
    const { hostname: host, port } = this.url;
    const onward = ask({ host, port, path, method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      if (answer.headers['content-type']?.startsWith('text/event-stream')) this.streamed += 1;
      let has_come = false;
      answer.on('data', (part) => {
        outgoing.write(part);
        if (is_endless && !has_come) this.on_endless();
        has_come = true;
      });
      answer.on('end', () => outgoing.end());
    });
    onward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => onward.destroy());
    onward.end(bytes);
  }

  /** Joins a WebSocket of the program's to one of the server's. */
  #join(incoming, socket, head) {
    const is_of_hop = ([name]) => /^(host|connection|upgrade|sec-websocket-.*)$/.test(name);
    const own = Object.entries(incoming.headers).filter((field) => !is_of_hop(field));
    const url = new URL(incoming.url, this.url);
    url.protocol = 'ws:';
    const onward = new WebSocket(url, { headers: Object.fromEntries(own) });
    onward.on('error', () => socket.destroy());
    onward.on('open', () =>
      this.sockets.handleUpgrade(incoming, socket, head, (client) => this.#tie(client, onward)),
    );
  }

  /** Messages are passed on in order, and the server answers them in turn. */
  #tie(client, onward) {
    const wire = wires['/v1/responses'];
    const unanswered = []; // {results, is_endless} of each request
    client.on('message', (data) => {
      const message = JSON.parse(data);
      if (message.type !== 'response.create') return onward.send(`${data}`);
      const before = this.#results_up_to.get(message.previous_response_id) ?? 0;
      const { bytes, ...told } = this.#changed(data, wire, before);
      unanswered.push(told);
      onward.send(`${bytes}`);
    });
    onward.on('message', (data) => {
      const event = JSON.parse(data);
      if (event.type === 'response.created') {
        const { results, is_endless } = unanswered.shift();
        this.#results_up_to.set(event.response.id, results);
        this.streamed += 1;
        this.over_sockets += 1;
        if (is_endless) this.on_endless();
      } else if (event.type === 'error') {
        unanswered.shift();
      }
      client.send(`${data}`);
    });
    client.on('close', () => onward.terminate());
    onward.on('close', () => client.terminate());
    client.on('error', () => {}); // its close follows
  }

  /** A request as the model gets it, and how many results of calls its conversation has. `before`:
   *  those in front of what it brings itself. */
  #changed(bytes, wire, before = 0) {
    if (!wire || bytes.length === 0) return { bytes, results: 0, is_endless: false };
    const body = JSON.parse(bytes);
    const results = before + wire.results(body);
    const fixed = Object.entries(this.fixed);
    for (const [name, values] of fixed) wire.fix?.(body, name, only(values));
    const said = fixed.length > 0 ? Buffer.from(JSON.stringify(body)) : bytes;
    const as_it_is = { bytes: said, results, is_endless: false };
    const has_answer = body.generate !== false; // a WebSocket may have a prompt read alone
    const known = wire.tools(body);
    if (this.sequence.length > 0 && known.includes(this.sequence[0])) {
      this.results = Math.max(this.results, results);
      const next = this.sequence[results];
      if (next && has_answer) wire.demand(body, next);
      else if (has_answer) wire.form(body, short_answer);
      if (has_answer) wire.limit(body, 256);
      return { bytes: Buffer.from(JSON.stringify(body)), results, is_endless: false };
    }
    if (!has_answer || !known.includes(this.tool)) return as_it_is;
    this.results = Math.max(this.results, results);
    if (this.is_endless) {
      wire.form(body, long_texts);
      wire.limit(body, 20_000);
    } else if (results < this.calls) {
      wire.demand(body, this.tool);
      wire.limit(body, 256);
    } else if (this.calls > 0) {
      wire.form(body, short_answer);
    } else {
      return as_it_is;
    }
    const changed = Buffer.from(JSON.stringify(body));
    return { bytes: changed, results, is_endless: this.is_endless };
  }
}
