// Coding agents' own programs, where they are (coding_agents.mjs): a streamed turn, its
// continuation by another process behind a kill -9 of the server, a loop of five calls, an answer
// that is broken off, and structured output where a program has that. The server's own count says
// how much of the prompts came from memory from the second turn on, side requests for titles and
// summaries included.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  asks_a_model, found, launch, make_home, patience_ms, programs, run,
} from './coding_agents.mjs'; // prettier-ignore
import { far_sighted_model, main, make_folder, Server } from './harness.mjs';
import { WishingProxy } from './wishing_proxy.mjs';

const reused_least = 0.95;
const calls = 5;
const model = far_sighted_model();

/** A person's machine: the program, its home, a server with a memory, and a proxy between them. */
class Desk {
  constructor(program) {
    this.program = program;
    [this.home, this.cache] = [make_home(), make_folder()];
    this.proxy = new WishingProxy();
    this.proxy.tool = programs[program].tool;
    this.proxy.fixed = programs[program].fixed ?? {};
  }
  async start_server() {
    const args = ['--model', model, '--cache-budget-mb', '1024'];
    this.server = await Server.start({ cache: this.cache, args });
    this.url = await this.proxy.listen(this.server.url);
  }
  async end_server(how) {
    await this.proxy.close();
    await this.server[how]();
  }
  launch(args) {
    return launch(this.program, this.home, this.url, args);
  }
  run(args) {
    return run(this.program, this.home, this.url, args);
  }
  /** Prompt tokens that were computed and reused since the server's start. */
  async counts() {
    const text = await (await fetch(`${this.server.url}/metrics`)).text();
    const sum = (metric) =>
      [...text.matchAll(new RegExp(`^${metric}(?:{[^}]*})? (\\S+)$`, 'gm'))].reduce(
        (all, [, value]) => all + Number(value),
        0,
      );
    const [computed, reused] = ['semantic_tokens_prefilled_total', 'semantic_tokens_reused_total'];
    return { computed: sum(computed), reused: sum(reused) };
  }
  /** Of what was asked since `before`, nearly all came from memory. */
  async expect_reuse(what, before) {
    const now = await this.counts();
    const computed = now.computed - before.computed;
    const reused = now.reused - before.reused;
    const share = reused / (reused + computed);
    console.log(
      `        ${this.program}, ${what}: ${computed} tokens computed ` +
        `and ${reused} from memory: ${(100 * share).toFixed(1)} %`,
    );
    assert.ok(share >= reused_least, `${share} of the prompts came from memory`);
  }
  /** All that was asked of models went over WebSockets, or nothing did. */
  expect_wire() {
    const posted = this.proxy.asked.filter(({ method, path }) => asks_a_model(method, path));
    const { over_socket = false } = programs[this.program];
    assert.equal(this.proxy.over_sockets > 0, over_socket, 'a WebSocket was used');
    assert.equal(posted.length > 0, !over_socket, 'requests were posted');
  }
  async requests_under_way() {
    const { semantic_sequences_running: running } = await this.server.metrics();
    return running;
  }
}

const nothing = { computed: 0, reused: 0 };

async function converse(program) {
  const desk = new Desk(program);
  const { first, again } = programs[program];
  await desk.start_server();
  await desk.run(first('My dog is called Biscuit.'));
  assert.ok(desk.proxy.streamed > 0, 'its turn was streamed');
  await desk.end_server('kill');

  await desk.start_server();
  await desk.run(again('What is my dog called?'));
  await desk.expect_reuse('behind a kill -9', nothing);

  const before = await desk.counts();
  desk.proxy.calls = calls;
  await desk.run(again('Look for it.'));
  assert.ok(desk.proxy.results >= calls, `${desk.proxy.results} results of calls came`);
  await desk.expect_reuse(`${calls} calls`, before);
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
  const then = await desk.counts();
  await desk.run(again('What is my dog called?'));
  await desk.expect_reuse('behind an answer that was broken off', then);
  desk.expect_wire();
  await desk.end_server('stop');
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
