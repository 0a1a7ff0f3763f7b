// SPDX-License-Identifier: Apache-2.0
// The Model Context Protocol's own JavaScript client against the server binary: the stateless
// version and one with a handshake; agents that are listed, told something, asked what they
// remember behind a kill -9, and forked; a scenario; keys.

import assert from 'node:assert/strict';

import { main, make_folder, require_sdk, Server } from './harness.mjs';

const { Client, StreamableHTTPClientTransport } = require_sdk('@modelcontextprotocol/client');

const call_ms = 120_000;

/** A connected client, which speaks `version`. */
async function connect(server, version, key) {
  const mode = version < '2026' ? 'legacy' : { pin: version };
  const client = new Client(
    { name: 'conformance', version: '1' },
    { versionNegotiation: { mode } },
  );
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit: { headers } }),
  );
  return client;
}

/** What a tool says, of which it says that it did what it was asked for. */
async function use(client, name, args = {}) {
  const result = await client.callTool({ name, arguments: args }, { timeout: call_ms });
  assert(!result.isError, JSON.stringify(result));
  return JSON.parse(result.content[0].text);
}

async function remembers(version) {
  const cache = make_folder();
  let server = await Server.start({ cache });
  let client = await connect(server, version);
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map(({ name }) => name).sort(),
    ['append_to_agent', 'fork_agent', 'inspect_agent', 'list_agents', 'list_scenarios',
      'recall_from_agent', 'run_scenario'],
  ); // prettier-ignore
  const ada = { agent_id: 'ada' };
  const told = { ...ada, text: 'My dog is called Biscuit.', create: true, max_tokens: 40 };
  const { message_id } = await use(client, 'append_to_agent', told);
  await client.close();
  await server.kill();

  server = await Server.start({ cache });
  client = await connect(server, version);
  const before = await use(client, 'inspect_agent', ada);
  const question = { ...ada, question: 'What is my dog called?', max_tokens: 40 };
  const recalled = await use(client, 'recall_from_agent', question);
  assert.match(recalled.text, /Biscuit/);
  assert(recalled.semantic.reused_tokens >= before.tokens - 1, JSON.stringify(recalled.semantic));
  assert.equal((await use(client, 'inspect_agent', ada)).tokens, before.tokens);
  const parted = await use(client, 'fork_agent', { ...ada, new_agent_id: 'eve', at: message_id });
  assert.equal(parted.forked_at, message_id);
  const { agents } = await use(client, 'list_agents');
  assert.deepEqual(agents.map(({ agent_id }) => agent_id), ['ada', 'eve']); // prettier-ignore
  const lost = await client.callTool({ name: 'inspect_agent', arguments: { agent_id: 'bob' } });
  assert(lost.isError && /bob/.test(lost.content[0].text), JSON.stringify(lost));
  await assert.rejects(client.callTool({ name: 'nothing', arguments: {} }));
  await client.close();
  await server.stop();
}

await main({
  'a client of the stateless version uses agents, which remember behind kill -9': () =>
    remembers('2026-07-28'),
  'and so does one that begins with a handshake': () => remembers('2025-11-25'),

  async 'a scenario is run to its end'() {
    const server = await Server.start({ cache: make_folder() });
    const client = await connect(server, '2026-07-28');
    const { scenarios } = await use(client, 'list_scenarios');
    assert(scenarios.length > 0);
    const run = await use(client, 'run_scenario', {
      scenario_id: scenarios.find(({ id }) => id === 'prisoners-dilemma').id,
      max_tokens: 16,
    });
    assert.equal(run.status, 'complete', JSON.stringify(run));
    await client.close();
    await server.stop();
  },

  async 'a key sees its own agents alone'() {
    const args = ['--api-key', 'one,two'];
    const server = await Server.start({ cache: make_folder(), args });
    await assert.rejects(connect(server, '2026-07-28'));
    const [one, two] = [
      await connect(server, '2026-07-28', 'one'),
      await connect(server, '2026-07-28', 'two'),
    ];
    await use(one, 'append_to_agent', { agent_id: 'ada', text: 'Hello.', create: true });
    assert.equal((await use(one, 'list_agents')).total, 1);
    assert.equal((await use(two, 'list_agents')).total, 0);
    await Promise.all([one.close(), two.close()]);
    await server.stop();
  },
});
