// Stands between an agent's program and the server, and has the model do what a small one would not
// do by itself: call a tool a number of times, or answer without end. Everything else passes as it
// is. The program executes the calls and goes on as it does with any model.

import { createServer, request as ask } from 'node:http';

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

/** How each wire names tools, counts their results, demands one, and has an answer in a form. */
const wires = {
  '/v1/messages': {
    tools: (body) => (body.tools ?? []).map((tool) => tool.name),
    results: (body) =>
      body.messages
        .flatMap(({ content }) => (Array.isArray(content) ? content : []))
        .filter((block) => block.type === 'tool_result').length,
    demand: (body, name) => (body.tool_choice = { type: 'tool', name }),
    limit: (body, tokens) => (body.max_tokens = tokens),
    form: (body, schema) => (body.output_config = { format: { type: 'json_schema', schema } }),
  },
  '/v1/chat/completions': {
    tools: (body) => (body.tools ?? []).map((tool) => tool.function?.name),
    results: (body) => body.messages.filter(({ role }) => role === 'tool').length,
    demand: (body, name) => (body.tool_choice = { type: 'function', function: { name } }),
    limit(body, tokens) {
      body.max_completion_tokens = tokens;
      delete body.max_tokens;
    },
    form(body, schema) {
      body.response_format = { type: 'json_schema', json_schema: { name: 'form', schema } };
    },
  },
  '/v1/responses': {
    tools: (body) => (body.tools ?? []).map((tool) => tool.name),
    results: (body) => body.input.filter(({ type }) => type === 'function_call_output').length,
    demand: (body, name) => (body.tool_choice = { type: 'function', name }),
    limit: (body, tokens) => (body.max_output_tokens = tokens),
    form: (body, schema) =>
      (body.text = { format: { type: 'json_schema', name: 'form', schema } }),
  },
};

export class WishingProxy {
  /** Of a tool: `calls` results of it are in a conversation before its model may say anything, and
   *  that is short: a small model would ramble on about what the tool has said. */
  tool = undefined;
  calls = 0;
  /** Whether the main requests, those with the tool, are answered without end. */
  is_endless = false;
  /** Called when the first bytes of an endless answer have come. */
  on_endless = () => {};
  /** Every request as it came: {method, path, headers, body}. */
  asked = [];
  /** The most results of calls that a request has brought. */
  results = 0;
  streamed = 0;

  /** Stands before the server at `url`; resolves with its own address. */
  async listen(url) {
    this.url = new URL(url);
    this.server = createServer((incoming, outgoing) => this.#pass(incoming, outgoing));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server.closeAllConnections();
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

  #changed(bytes, wire) {
    if (!wire || bytes.length === 0) return { bytes, is_endless: false };
    const body = JSON.parse(bytes);
    if (!wire.tools(body).includes(this.tool)) return { bytes, is_endless: false };
    const results = wire.results(body);
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
      return { bytes, is_endless: false };
    }
    return { bytes: Buffer.from(JSON.stringify(body)), is_endless: this.is_endless };
  }
}
