// SPDX-License-Identifier: Apache-2.0
// Coding agents' own programs, where they are (coding_agents.mjs), with this server as their MCP
// server, too: a tool that is found by a search and then called (Claude Code), one in a namespace
// (Codex), a sub-agent, a compaction, verdicts on calls (Claude Code's auto mode), and each
// session's continuation behind a kill -9 of the server. What a small model would not do by itself,
// a proxy in between demands of it. No request is refused, and what is not new comes from memory.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { asks_a_model, Desk, found, patience_ms } from './coding_agents.mjs';
import { main } from './harness.mjs';

async function claude_searches() {
  const desk = new Desk('claude');
  await desk.start_server();
  const servers = () => {
    const file = join(desk.home, 'mcp.json');
    writeFileSync(
      file,
      JSON.stringify({ mcpServers: { semantic: { type: 'http', url: `${desk.url}/mcp` } } }),
    );
    return ['--mcp-config', file, '--allowedTools', 'mcp__semantic__list_agents'];
  };
  const tool = 'mcp__semantic__list_agents';
  desk.proxy.fixed = { ToolSearch: { query: `select:${tool}`, max_results: 3 } };
  await desk.run(['-p', 'My dog is called Biscuit.', ...servers()]);
  await desk.share();

  desk.proxy.sequence = ['ToolSearch', tool];
  await desk.run(['-p', '--continue', 'Which agents are there?', ...servers()]);
  assert(desk.proxy.results >= 2, `${desk.proxy.results} results came`);
  assert(desk.asked(/"tool_reference"/), 'the tool came as a reference');
  await desk.expect_reuse('a tool that was searched for');
  desk.proxy.sequence = [];
  await desk.end_server('kill');

  await desk.start_server();
  await desk.run(['-p', '--continue', 'What is my dog called?', ...servers()]);
  await desk.expect_reuse('behind a kill -9');
  await desk.end_server('stop');
  desk.expect_no_refusal();
  desk.expect_each_once();
}

async function claude_delegates_and_compacts() {
  const desk = new Desk('claude');
  await desk.start_server();
  const task = { description: 'Look', prompt: 'Say hello.', subagent_type: 'general-purpose' };
  desk.proxy.fixed = { Agent: task };
  await desk.run(['-p', 'My dog is called Biscuit.']);
  await desk.share();
  desk.proxy.sequence = ['Agent'];
  await desk.run(['-p', '--continue', 'Have somebody look.']);
  assert(desk.proxy.results >= 1, 'a sub-agent was asked');
  const { computed } = await desk.share();
  console.log(`        claude, a sub-agent: ${computed} tokens computed`);
  desk.proxy.sequence = [];
  await desk.run(['-p', '--continue', 'What is my dog called?']);
  await desk.expect_reuse('behind a sub-agent');

  await desk.run(['-p', '--continue', '/compact']);
  const { computed: asked, share } = await desk.share();
  const percent = (100 * share).toFixed(1);
  console.log(`        claude, a compaction: ${asked} computed, ${percent} % from memory`);
  assert(share >= 0.9, 'all but what asks for the summary was remembered');
  await desk.run(['-p', '--continue', 'What is my dog called?']);
  await desk.share();
  await desk.run(['-p', '--continue', 'And my cat?']);
  await desk.expect_reuse('behind a compaction');
  await desk.end_server('stop');
  desk.expect_no_refusal();
  desk.expect_each_once();
}

async function until(is_so, occasion) {
  for (const end = Date.now() + patience_ms; !is_so(); await sleep(200))
    assert(Date.now() < end, `${occasion}: ${is_so}`);
}

/** In auto mode it sends `safeguards` and reads their answer. Where it finds none that it knows, it
 *  sends them no more, asks a model of its own choice, and tells the user of the gateway. */
async function claude_is_judged() {
  const desk = new Desk('claude');
  await desk.start_server();
  const work = { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true };
  const settings = { hasCompletedOnboarding: true, theme: 'dark', numStartups: 5 };
  settings.projects = { [join(desk.home, 'work')]: work };
  writeFileSync(join(desk.home, '.claude.json'), JSON.stringify(settings));
  desk.proxy.fixed = { Bash: { command: 'mkdir -p out', description: 'Make a folder' } };
  const terminal = desk.launch_in_terminal(['--permission-mode', 'auto']);
  const asked = () => desk.proxy.asked.filter(({ method, path }) => asks_a_model(method, path));
  await until(() => /auto mode on/.test(terminal.screen()), 'its first screen');
  desk.proxy.sequence = ['Bash'];
  await terminal.type('Make a folder.');
  await until(() => desk.proxy.results >= 1, 'the result of a call');
  desk.proxy.sequence = [];
  await sleep(5_000); // a notice would follow the answer
  const before = asked().length;
  await terminal.type('And again.');
  await until(() => asked().length > before, 'the next turn');
  await sleep(5_000);
  const bodies = asked().map(({ body }) => JSON.parse(body));
  console.log(`        claude in auto mode: ${bodies.length} requests`);
  for (const { model, safeguards, max_tokens } of bodies)
    assert(safeguards && model, `a request for a verdict of ${model} with ${max_tokens} tokens`);
  assert(!/not compatible|upcoming release/i.test(terminal.screen()), terminal.screen());
  terminal.kill('SIGKILL');
  await terminal.ended;
  await desk.end_server('stop');
  desk.expect_no_refusal();
  desk.expect_each_once();
}

const codex_resume = ['exec', 'resume', '--last', '--skip-git-repo-check'];
const codex_first = ['exec', '--skip-git-repo-check'];

async function codex_uses_a_namespace(program) {
  const desk = new Desk(program);
  await desk.start_server();
  const servers = () => ['-c', `mcp_servers.semantic.url="${desk.url}/mcp"`];
  await desk.run([...codex_first, ...servers(), 'My dog is called Biscuit.']);
  await desk.share();
  desk.proxy.sequence = ['mcp__semantic/list_agents'];
  await desk.run([...codex_resume, ...servers(), 'Which agents are there?']);
  assert(desk.proxy.results >= 1, `${desk.proxy.results} results came`);
  await desk.expect_reuse('a tool in a namespace');
  desk.proxy.sequence = [];
  await desk.end_server('kill');
  await desk.start_server();
  await desk.run([...codex_resume, ...servers(), 'What is my dog called?']);
  await desk.expect_reuse('behind a kill -9');
  await desk.end_server('stop');
  desk.expect_no_refusal();
  desk.expect_each_once();
}

/** With a window that its second turn fills: by a prompt of its own where the provider is no
 *  vendor, else by a compaction_trigger. */
async function codex_compacts(name) {
  const desk = new Desk('codex');
  await desk.start_server();
  const window = ['-c', `model_providers.semantic.name="${name}"`];
  const limit = ['-c', 'model_auto_compact_token_limit=1000'];
  await desk.run([...codex_first, ...window, 'My dog is called Biscuit.']);
  await desk.share();
  await desk.run([...codex_resume, ...window, ...limit, 'What is my dog called?']);
  const { computed, reused } = await desk.share();
  const counts = `${computed} computed, ${reused} from memory`;
  console.log(`        codex as ${name}, a compaction: ${counts}`);
  const triggers = desk.asked(/"compaction_trigger"/);
  assert.equal(triggers, name === 'OpenAI', 'how it compacts');
  await desk.end_server('kill');
  await desk.start_server();
  await desk.run([...codex_resume, ...window, 'What is my dog called?']);
  await desk.share();
  await desk.run([...codex_resume, ...window, 'And my cat?']);
  await desk.expect_reuse(`behind a compaction as ${name}`);
  await desk.end_server('stop');
  desk.expect_no_refusal();
  desk.expect_each_once();
}

const promises = {};
if (found.includes('claude')) {
  promises['Claude Code searches for a tool of an MCP server and calls it'] = claude_searches;
  promises['Claude Code has a sub-agent, and compacts'] = claude_delegates_and_compacts;
  promises['Claude Code in auto mode takes the verdicts on its calls'] = claude_is_judged;
}
if (found.includes('codex')) {
  for (const program of ['codex', 'codex over a WebSocket'])
    promises[`${program} calls a tool in a namespace`] = () => codex_uses_a_namespace(program);
  promises['Codex compacts by a prompt of its own'] = () => codex_compacts('Semantic');
  promises['Codex compacts by a trigger'] = () => codex_compacts('OpenAI');
}
await main(promises, 4 * patience_ms);
