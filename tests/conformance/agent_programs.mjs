// SPDX-License-Identifier: Apache-2.0
// Coding agents' own programs, where they are (coding_agents.mjs): a streamed turn, its
// continuation by another process behind a kill -9 of the server, a loop of five calls, an answer
// that is broken off, and structured output where a program has that. The server's own count says
// how much of the prompts came from memory from the second turn on, side requests for titles and
// summaries included.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { Desk, found, patience_ms, programs } from './coding_agents.mjs';
import { main } from './harness.mjs';

async function converse(program) {
  const desk = new Desk(program);
  const { first, again, calls = 5 } = programs[program];
  await desk.start_server();
  await desk.run(first('My dog is called Biscuit.'));
  assert.ok(desk.proxy.streamed > 0, 'its turn was streamed');
  await desk.end_server('kill');

  await desk.start_server();
  await desk.run(again('What is my dog called?'));
  await desk.expect_reuse('behind a kill -9');

  desk.proxy.calls = calls;
  await desk.run(again('Look for it.'));
  assert.ok(desk.proxy.results >= calls, `${desk.proxy.results} results of calls came`);
  await desk.expect_reuse(`${calls} calls`);
  desk.proxy.calls = 0;

  desk.proxy.is_endless = true;
  const { kill, ended } = desk.launch(again('Tell me everything.'));
  await Promise.race([new Promise((resolve) => (desk.proxy.on_endless = resolve)), ended]);
  kill('SIGINT');
  await Promise.race([ended, sleep(10_000, null, { ref: false })]);
  kill('SIGKILL'); // one that takes no interrupt without a terminal
  await ended;
  desk.proxy.is_endless = false;
  for (let i = 0; i < 600 && (await desk.requests_under_way()) > 0; ++i) await sleep(100);
  assert.equal(await desk.requests_under_way(), 0, 'the answer was broken off');
  await desk.share();
  await desk.run(again('What is my dog called?'));
  const { reused_least_after_break: least } = programs[program];
  await desk.expect_reuse('behind an answer that was broken off', least);
  desk.expect_wire();
  await desk.end_server('stop');
  desk.expect_no_refusal();
  desk.expect_each_once();
}

async function answer_in_form(program) {
  const desk = new Desk(program);
  const { form_tool } = programs[program];
  if (form_tool) Object.assign(desk.proxy, { tool: form_tool, calls: 1 });
  await desk.start_server();
  const said = await desk.run(programs[program].structured(desk.home, 'Are you sure?'));
  const answer = JSON.parse(/\{[^{}]*\}/.exec(said)[0]);
  assert.equal(typeof answer.sure, 'boolean', said);
  desk.expect_wire();
  await desk.end_server('stop');
}

await main(
  Object.fromEntries([
    ...found.map((program) => [`${program} goes on from memory`, () => converse(program)]),
    ...found
      .filter((program) => programs[program].structured)
      .map((program) => [`${program} gets its form`, () => answer_in_form(program)]),
  ]),
  4 * patience_ms,
);
