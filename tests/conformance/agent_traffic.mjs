// SPDX-License-Identifier: Apache-2.0
// What agents' own programs ask, recorded and replayed, where they are (coding_agents.mjs): two
// turns of each go through a proxy that keeps every request. Then all of them are sent to a server
// that knows nothing yet, and the agent's own requests alone to another: what the program asks
// beside its turns (titles, summaries, probes) must not cost the agent a token of its memory, of
// which at least 95 % of each later prompt comes.

import assert from 'node:assert/strict';

import {
  asks_a_model, found, make_home, patience_ms, programs, reused_least, run,
  server_args as args,
} from './coding_agents.mjs'; // prettier-ignore
import { main, make_folder, Server } from './harness.mjs';
import { WishingProxy } from './wishing_proxy.mjs';

const posting = found.filter((program) => !programs[program].over_socket);

/** What two turns of the program ask of models. */
async function traffic_of(program) {
  const home = make_home();
  const server = await Server.start({ cache: make_folder(), args });
  const proxy = new WishingProxy(); // that wishes nothing
  const url = await proxy.listen(server.url);
  const { first, again } = programs[program];
  await run(program, home, url, first('My dog is called Biscuit.'));
  await run(program, home, url, again('What is my dog called?'));
  await proxy.close();
  await server.kill();
  return proxy.asked.filter(({ method, path }) => asks_a_model(method, path));
}

/** An agent's own requests are those with the most tools. */
function mark(traffic) {
  const count = ({ body }) => JSON.parse(body).tools?.length ?? 0;
  const most = Math.max(...traffic.map(count));
  for (const each of traffic) each.is_own = count(each) === most;
}

/** Resolves with the server's own count of each prompt of the agent's own. */
async function replay(traffic) {
  const server = await Server.start({ cache: make_folder(), args });
  const counts = [];
  for (const { path, headers, body, is_own } of traffic) {
    const { host, connection, 'content-length': length, ...rest } = headers;
    const answer = await fetch(`${server.url}${path}`, { method: 'POST', headers: rest, body });
    await answer.arrayBuffer();
    assert.equal(answer.status, 200);
    const count = (what) => Number(answer.headers.get(`x-semantic-${what}-tokens`));
    if (is_own) counts.push({ prompt: count('prompt'), reused: count('reused') });
  }
  await server.kill();
  return counts;
}

async function compare(program) {
  const traffic = await traffic_of(program);
  mark(traffic);
  const own = traffic.filter(({ is_own }) => is_own);
  assert.ok(own.length >= 2, `${own.length} requests are the agent's own`);
  const among_others = await replay(traffic);
  const alone = await replay(own);
  let least = 1;
  for (const [i, { prompt, reused }] of among_others.entries()) {
    assert.ok(reused >= alone[i].reused, `${i}: ${reused}, alone ${alone[i].reused} of ${prompt}`);
    if (i > 0) least = Math.min(least, reused / prompt);
  }
  console.log(
    `        ${program}: ${traffic.length} requests, ${own.length} of them its own; ` +
      `at least ${(100 * least).toFixed(1)} % from memory`,
  );
  assert.ok(least >= reused_least, `${least} came from memory`);
}

await main(
  Object.fromEntries(
    posting.map((program) => [
      `${program}: what it asks beside its turns costs the agent no memory`,
      () => compare(program),
    ]),
  ),
  2 * patience_ms,
);
