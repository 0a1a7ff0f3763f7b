// SPDX-License-Identifier: Apache-2.0
// The dashboard of the server binary in a real Chromium. Skipped where none is installed.
// SCREENSHOTS=FOLDER keeps pictures of it, light and dark.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { expect } from './coordination_calls.mjs';
import {
  expected_families,
  families,
  hint_of_drafts,
  points_of_an_hour,
  rates_of_a_busy_server,
} from './dashboard_views.mjs';
import { free_port, main, make_folder, require_sdk, Server, user } from './harness.mjs';
import { has_redis, Redis } from './redis.mjs';
import { start as start_swapping } from './swapping.mjs';

const program = [process.env.CONFORMANCE_CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome']
  .filter(Boolean)
  .find(existsSync);
if (!program) {
  console.log('skipped: Chromium is not installed');
  process.exit(77);
}
const { chromium } = require_sdk('playwright-core');
const { Anthropic } = require_sdk('@anthropic-ai/sdk');
const axe = readFileSync(
  createRequire(join(process.env.CONFORMANCE_NPM, 'package.json')).resolve('axe-core/axe.min.js'),
  'utf8',
);

const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
process.on('exit', () => browser.process?.()?.kill());

/** The page, with all that a test may find wrong with it: what it fetched, its complaints. */
async function open(server, { path = '/', ...options } = {}) {
  // axe is run by the test and not by the page, which may run nothing of others.
  const context = await browser.newContext({ bypassCSP: options.bypassCSP ?? false, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const found = { faults: [], fetched: [] };
  page.on('console', (said) => {
    if (['error', 'warning'].includes(said.type())) found.faults.push(said.text());
  });
  page.on('pageerror', (error) => found.faults.push(error.message));
  page.on('dialog', (dialog) => dialog.accept());
  page.on('request', (request) => found.fetched.push(request.url()));
  page.on('websocket', (socket) => found.fetched.push(socket.url()));
  await page.goto(server.url + path);
  return { page, context, ...found };
}

/** axe finds nothing serious, and nobody has to scroll sideways. */
async function has_no_barriers(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
  const told = serious.map(({ id, nodes }) => `${id}: ${nodes.map((each) => each.html)}`);
  assert.deepEqual(told, []);
  const is_wider = await page.evaluate(
    () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
  );
  assert.equal(is_wider, false, 'the page does not scroll sideways');
}

const is_live = (page) => page.locator('#connection[data-state="live"]').waitFor();
const row_of = (page, agent) => page.locator('#agent-rows tr', { hasText: agent });

async function say(page, text) {
  await page.fill('#chat-text', text);
  await page.click('#chat-send');
}
const answer_is_there = (page, turn) =>
  page.locator('.turn.assistant').nth(turn).locator('.usage button').waitFor();

async function ask(server, agent, content, more = {}) {
  const answer = await fetch(`${server.url}/v1/agents/${encodeURIComponent(agent)}/generate`, {
    method: 'POST',
    body: JSON.stringify({ messages: [user(content)], max_tokens: 12, temperature: 0, ...more }),
  });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

/** How long each frame takes while the table of agents is scrolled to its end and back. */
async function frames_while_scrolling(page) {
  const took = await page.evaluate(async () => {
    const table = document.querySelector('#agents .scroll');
    table.scrollIntoView();
    const frame = () => new Promise(requestAnimationFrame);
    const took = [];
    let before = await frame();
    for (let i = 0; i < 120; ++i) {
      const there = 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / 119);
      table.scrollTop = there * (table.scrollHeight - table.clientHeight);
      const now = await frame();
      took.push(now - before);
      before = now;
    }
    return table.scrollHeight > table.clientHeight ? took : [];
  });
  took.sort((a, b) => a - b);
  const at = (part) => `${took[Math.floor(part * (took.length - 1))]?.toFixed(1)} ms`;
  const late = took.filter((each) => each > 34).length;
  const told = `${at(0.5)} median, ${at(0.95)} p95, ${at(1)} at most, ${late} late`;
  return { count: took.length, told: `${took.length} frames, ${told}` };
}

/** A run of two agents, each of whom speaks once in one phase. */
const short_scenario = `
id: short
title: "Short"
description: "Two agents, one phase."
agents:
  ann: {display_name: Ann, lifecycle: ephemeral, system_prompt: "One sentence."}
  ben: {display_name: Ben, lifecycle: ephemeral, system_prompt: "One sentence."}
phases:
  - name: meeting
    label: "Meeting"
    agents: [ann, ben]
    initial_prompt: "You meet at the harbour."
    auto_rounds: 1
outcome: {type: summary}
`;

await main(
  {
    async 'recurrent states are shown beside KV'() {
      const args = ['--model', 'semantic-tiny-recurrent', '--kv-recipe', '4'];
      const server = await Server.start({ cache: make_folder(), args });
      await server.ask('ada', [user('My dog is called Biscuit.')]);
      const { page, context } = await open(server);
      await page.locator('#pool-hint', { hasText: /of the pool are recurrent states/ }).waitFor();
      await page.getByRole('button', { name: 'Memory of sess_ada' }).click();
      const told = /goes on from \d+ places \([\d, ]+ tokens\).*in RAM beside .* of KV/;
      await page.locator('tr.details .states', { hasText: told }).waitFor();
      // The same again is read from the last place before its end, and why is said.
      await server.ask('ada', [user('My dog is called Biscuit.')]);
      const why = page.locator('#miss-list', { hasText: /state at \d+ of \d+ tokens/ });
      await why.waitFor({ state: 'attached' });
      await context.close();
      await server.stop();
    },

    async 'a newcomer is led to it, talks and forks; nothing is fetched elsewhere'() {
      const server = await Server.start({ cache: make_folder() });
      const { page, context, faults, fetched } = await open(server);
      assert.equal(new URL(page.url()).pathname, '/dashboard');
      await is_live(page);
      // The message that an empty chat offers.
      await page.locator('#chat-log button', { hasText: 'my dog is called Biscuit' }).click();
      await answer_is_there(page, 0);
      await say(page, 'What is my dog called?');
      await answer_is_there(page, 1);
      assert.match(await page.locator('.turn.assistant').nth(1).innerText(), /Biscuit/);
      const usage = await page.locator('.turn.assistant .usage').nth(1).innerText();
      assert.match(usage, /^[1-9]\d* tokens from memory, [1-9]\d* computed · first after/);
      const parent = await page.inputValue('#chat-agent');
      await page.locator('.turn.assistant').nth(1).getByRole('button', { name: 'Fork' }).click();
      const is_chosen = (name) => document.getElementById('chat-agent').value !== name;
      await page.waitForFunction(is_chosen, parent);
      const fork = await page.inputValue('#chat-agent');
      await row_of(page, fork).waitFor();
      // Its row opens to the tree of both, which stays over a reload of the page.
      const tree = page.locator('tr.details ul.tree > li');
      const opener = page.getByRole('button', { name: `Memory of ${fork}`, exact: true });
      await opener.click();
      await tree.locator('ul.tree > li[aria-current="true"]', { hasText: fork }).waitFor();
      assert.ok((await tree.first().innerText()).startsWith(parent), 'the head of the family');
      await opener.click();
      await say(page, 'What is my dog called?');
      await answer_is_there(page, 2);
      assert.match(await page.locator('.turn.assistant').nth(2).innerText(), /Biscuit/);
      assert.deepEqual(faults, []);
      const other = fetched.filter((url) => new URL(url).host !== new URL(server.url).host);
      assert.deepEqual(other, []);
      assert.deepEqual(await page.evaluate(families), expected_families);
      await page.reload();
      await page.getByRole('button', { name: `Memory of ${fork}`, exact: true }).click();
      await tree.locator('ul.tree > li', { hasText: fork }).waitFor();
      await context.close();
      await server.stop();
    },

    async 'agents appear while clients talk; evictions, misses and deletions show'() {
      const server = await Server.start({ cache: make_folder() });
      const { page, context, faults } = await open(server);
      await is_live(page);
      await ask(server, 'ada', 'Hello.', { system: 'You are a pirate.' });
      await row_of(page, 'ada').getByText('hot').waitFor();
      await ask(server, 'ada', 'Hello.', { system: 'You are a nurse.' });
      await page.locator('.miss pre.remembered mark', { hasText: /^pirate/ }).waitFor();
      await page.locator('.miss pre.sent mark', { hasText: /^nurse/ }).waitFor();
      // A fork that a client makes is shown below its parent.
      await expect(201, server, 'POST', '/v1/agents/ada/fork', { agent_id: 'bob' });
      await page.locator('#event-list', { hasText: 'bob was forked from ada' }).waitFor();
      await page.getByRole('button', { name: 'Memory of bob', exact: true }).click();
      const family = page.locator('tr.details ul.tree > li', { hasText: 'ada' });
      await family.locator('ul.tree > li[aria-current="true"]', { hasText: 'bob' }).waitFor();
      await page.getByRole('button', { name: 'Memory of bob', exact: true }).click();
      await page.getByRole('button', { name: 'Delete bob' }).click();
      await row_of(page, 'bob').waitFor({ state: 'detached' });
      const sdk = new Anthropic({ apiKey: 'none', baseURL: server.url, maxRetries: 0 });
      await sdk.messages
        .stream(
          { model: 'any', max_tokens: 12, messages: [user('Hello.')] },
          { headers: { 'X-Session-ID': 'of-an-sdk' } },
        )
        .finalMessage();
      await row_of(page, 'of-an-sdk').waitFor();
      await page.getByRole('button', { name: 'Evict ada' }).click();
      await row_of(page, 'ada').getByText('warm').waitFor();
      await page.locator('#event-list', { hasText: 'ada left RAM' }).waitFor();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Export ada' }).click(),
      ]);
      assert.equal(download.suggestedFilename(), 'ada.safetensors');
      await page.getByRole('button', { name: 'Delete ada' }).click();
      await row_of(page, 'ada').waitFor({ state: 'detached' });
      assert.deepEqual(faults, []);
      await context.close();
      await server.stop();
    },

    async 'an answer is shown while it is written, and stops when it is told to'() {
      const server = await Server.start({ cache: make_folder() });
      const { page, context } = await open(server);
      await is_live(page);
      // An answer that would go on for long: the page asks as it does, the test makes it as long as
      // the model's context. That takes six seconds, so it comes over a slow line.
      const line = await context.newCDPSession(page);
      await line.send('Network.enable');
      await line.send('Network.emulateNetworkConditions', {
        offline: false,
        latency: 0,
        downloadThroughput: 20_000, // bytes a second, of some 60 a token
        uploadThroughput: -1,
      });
      await page.route('**/generate', (route) => {
        const body = { ...route.request().postDataJSON(), ignore_eos: true, max_tokens: 16_000 };
        route.continue({ postData: JSON.stringify(body) });
      });
      await say(page, 'Tell me a long story.');
      const body = page.locator('.turn.assistant .body');
      await body.locator(':scope > *').first().waitFor();
      const length = (await body.innerText()).length;
      await page.waitForFunction(
        (least) => document.querySelector('.turn.assistant .body').innerText.length > least,
        length,
      );
      await page.click('#chat-stop');
      await page.locator('.fault', { hasText: 'Stopped.' }).waitFor();
      await context.close();
      await server.stop();
    },

    async 'behind a restart it comes back by itself, with the state of then'() {
      const cache = make_folder();
      const server = await Server.start({ cache });
      const { page, context } = await open(server);
      await is_live(page);
      await ask(server, 'ada', 'Hello.');
      await row_of(page, 'ada').waitFor();
      await server.kill();
      await page
        .locator('#connection[data-state="lost"], #connection[data-state="connecting"]')
        .waitFor();
      const again = await Server.start({ cache, port: server.port });
      await is_live(page);
      await row_of(page, 'ada').getByText('warm').waitFor();
      await context.close();
      await again.stop();
    },

    async 'a wrong key is told, a right one lets in'() {
      const args = ['--api-key', 'right', '--admin-key', 'root'];
      const server = await Server.start({ cache: make_folder(), args });
      const { page, context } = await open(server);
      await page.locator('#keys-why', { hasText: 'asks for a key' }).waitFor();
      await page.fill('#api-key', 'wrong');
      await page.getByRole('button', { name: 'Use' }).click();
      await page.locator('#keys-why', { hasText: 'refused: this is no valid key' }).waitFor();
      await page.fill('#api-key', 'right');
      await page.getByRole('button', { name: 'Use' }).click();
      await is_live(page);
      await say(page, 'Hello.');
      await answer_is_there(page, 0);
      await page.click('#open-keys');
      await page.fill('#admin-key', 'root');
      await page.check('#watch-all');
      await page.getByRole('button', { name: 'Use' }).click();
      await page.locator('#connection', { hasText: 'all tenants' }).waitFor();
      await page.locator('#agent-rows', { hasText: 'tenant' }).waitFor();
      await context.close();
      await server.stop();
    },

    async 'servers on one object store are shown, this one first'() {
      if (!has_redis) return console.log('        skipped: redis-server is not installed');
      const alone = await Server.start({ cache: make_folder() });
      const first = await open(alone);
      await is_live(first.page);
      assert.equal(await first.page.locator('#nodes').isHidden(), true);
      await first.context.close();
      await alone.stop();
      const redis = await Redis.start();
      const store = make_folder();
      const start = async () => {
        const port = await free_port();
        const shared = ['--object-store', `dir:${store}`, '--redis', redis.url];
        const args = [...shared, '--node-url', `http://127.0.0.1:${port}`];
        return Server.start({ cache: make_folder(), port, args });
      };
      const [server, other] = [await start(), await start()];
      const size = { width: 390, height: 800 };
      const { page, context, faults } = await open(server, { bypassCSP: true, viewport: size });
      await is_live(page);
      const rows = page.locator('#node-list tr');
      await rows.nth(1).waitFor();
      // A sign given before the model was loaded stands until the next one, two seconds later.
      const own = rows.nth(0).filter({ hasText: '(this one)' });
      await own.filter({ hasText: 'ready: semantic-tiny' }).waitFor();
      assert.ok((await rows.nth(1).textContent()).includes(other.url));
      await has_no_barriers(page);
      if (process.env.SCREENSHOTS)
        await page.screenshot({ path: join(process.env.SCREENSHOTS, 'nodes.png'), fullPage: true });
      await other.stop();
      await page.waitForFunction(() => document.querySelectorAll('#node-list tr').length === 1);
      assert.deepEqual(faults, []);
      await context.close();
      await server.stop();
      await redis.kill();
    },

    async 'what agents, clients and models say is text, never markup'() {
      const server = await Server.start({ cache: make_folder() });
      const { page, context, faults } = await open(server);
      await is_live(page);
      const evil = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>';
      // The server lets no such name in; should one come all the same, the page shows it.
      await page.evaluate(async (name) => {
        const { AgentsView } = await import('/dashboard/agents_view.js');
        const agent = {
          agent_id: name,
          tier: name,
          tokens: 1,
          ram_bytes: 0,
          shared_bytes: 0,
          file_size_bytes: 0,
          last_accessed: 0,
        };
        new AgentsView({ agents: new Map([[name, agent]]) }, () => {}).draw();
        const { SessionsView } = await import('/dashboard/sessions_view.js');
        const phases = [{ phase: name, status: name, turns: 1 }];
        new SessionsView({
          sessions: [],
          runs: [{ scenario: name, status: name, phases }],
          turns: new Map(),
        }).draw();
      }, evil);
      assert.ok((await page.locator('#agent-rows').innerText()).includes(evil));
      assert.ok((await page.locator('#run-list').innerText()).includes(evil));
      // A session's agents are called whatever their client says.
      await expect(201, server, 'POST', '/v1/coordination/sessions', {
        agents: [{ agent_id: 'mallory', display_name: evil.slice(-32), role: evil.slice(-32) }],
        initial_prompt: evil,
        max_turns: 1,
      });
      await page.locator('.session strong', { hasText: '<script>' }).waitFor();
      for (const system of [`${evil} one`, `${evil} two`]) await ask(server, 'a', evil, { system });
      await page.locator('.miss pre', { hasText: '<script>' }).first().waitFor();
      const text = `# ${evil}\n\n- **${evil}**\n\n[a](javascript:1)\n\n~~~\n${evil}\n`;
      const said = JSON.stringify({ text });
      await page.route('**/generate', (route) =>
        route.fulfill({
          contentType: 'text/event-stream',
          body: `event: token\ndata: ${said}\n\nevent: done\ndata: {}\n\n`,
        }),
      );
      await say(page, evil);
      await page.locator('.turn.assistant pre', { hasText: '<script>' }).waitFor();
      const made = await page.evaluate(() => [
        window.broken,
        document.querySelectorAll('img, iframe, main script, main a').length,
      ]);
      assert.deepEqual(made, [undefined, 0]);
      assert.deepEqual(faults, []);
      await context.close();
      await server.stop();
    },

    async 'a model is exchanged from there, and the page says how far that is'() {
      const server = await start_swapping(make_folder());
      const { page, context, faults } = await open(server);
      await is_live(page);
      await page.locator('#model-list strong', { hasText: 'wide' }).waitFor();
      await page.getByRole('button', { name: 'Run tight' }).click();
      await page.locator('#notice', { hasText: 'admin' }).waitFor(); // without the key
      assert.ok(faults.length > 0, 'the browser, too, tells of the refusal');
      await page.click('#open-keys');
      await page.fill('#admin-key', 'k');
      await page.getByRole('button', { name: 'Use' }).click();
      await is_live(page);
      await page.getByRole('button', { name: 'Run tight' }).click();
      await page.locator('#notice', { hasText: 'tight runs' }).waitFor();
      await page.locator('#model-list strong', { hasText: 'tight' }).waitFor();
      await page.locator('#model-phase', { hasText: 'tight: ready' }).waitFor();
      // What does not load says why, and the former one goes on.
      await page.getByRole('button', { name: 'Run torn' }).click();
      await page.locator('#notice', { hasText: /torn/ }).waitFor();
      await page.locator('#model-phase', { hasText: 'tight: ready' }).waitFor();
      await context.close();
      await server.stop();
    },

    async 'a session reads as a conversation, with what each turn of its agents had in memory'() {
      const server = await Server.start({ cache: make_folder() });
      const { page, context, faults } = await open(server);
      await is_live(page);
      const { session_id } = await expect(201, server, 'POST', '/v1/coordination/sessions', {
        agents: ['Ada', 'Bob'].map((name) => ({
          agent_id: name.toLowerCase(),
          display_name: name,
          role: `${name}'s`,
        })),
        initial_prompt: 'You meet at the harbour.',
        max_turns: 4,
      });
      const session = `/v1/coordination/sessions/${session_id}`;
      const turn = `${session}/turn`;
      await expect(200, server, 'POST', `${session}/whisper`, {
        from_agent_id: 'ada',
        to_agent_id: 'bob',
        content: 'The boat is red.',
      });
      const columns = page.locator('.session .columns > div');
      let last;
      for (let i = 0; i < 4; ++i) {
        const sent = { temperature: 0, max_tokens: 8 };
        const { reused_tokens, prompt_tokens } = (await expect(200, server, 'POST', turn, sent))
          .semantic;
        last = reused_tokens;
        // What an agent reads while the other speaks stands there, too.
        const shown = `${reused_tokens} of ${prompt_tokens} tokens`;
        await columns.nth(i % 2).locator('li', { hasText: shown }).first().waitFor();
      }
      assert.deepEqual(await columns.locator('strong').allInnerTexts(), ['Ada', 'Bob']);
      const lines = page.locator('.session .dialogue > li');
      await lines.nth(5).waitFor();
      const who = await lines.locator('.who').allInnerTexts();
      assert.deepEqual(who, [
        'System',
        'Ada whispers to bob · turn 0',
        ...['Ada', 'Bob', 'Ada', 'Bob'].map((name, i) => `${name} · turn ${i}`),
      ]);
      const whispered = await page.locator('.dialogue [data-channel="whisper"]').allInnerTexts();
      assert.ok(whispered.length === 1 && whispered[0].includes('The boat is red.'));
      // Whoever closes a conversation finds it closed when more is said in others.
      await page.locator('.session summary').press('Enter');
      await lines.first().waitFor({ state: 'hidden' });
      assert.ok(last > 0);
      await page.locator('.session h3', { hasText: `${session_id} · over` }).waitFor();
      const runs = '/v1/coordination/scenarios/short/runs';
      const how = { temperature: 0, max_tokens: 8, yaml: short_scenario };
      await expect(200, server, 'POST', runs, how);
      await page.locator('.run h3', { hasText: 'short · complete' }).waitFor();
      await page.locator('.run .phase summary', { hasText: 'meeting: complete' }).waitFor();
      const said = page.locator('.run .dialogue .who');
      await said.nth(2).waitFor();
      const speakers = (await said.allInnerTexts()).map((line) => line.split(' ')[0]);
      assert.deepEqual(speakers.slice(-2), ['Ann', 'Ben']);
      assert.equal(await lines.first().isHidden(), true);
      assert.deepEqual(faults, []);
      await context.close();
      await server.stop();
    },

    async 'the tiles tell what is in memory, how fast it goes and what was reused'() {
      const server = await Server.start({ cache: make_folder() });
      const { page, context } = await open(server);
      await is_live(page);
      await page.locator('#reused', { hasText: '–' }).waitFor();
      await page.locator('#agents-empty pre', { hasText: `curl ${server.url}/v1/m` }).waitFor();
      await page.locator('#agents-empty li', { hasText: `OpenAI: ${server.url}/v1` }).waitFor();
      await page.locator('#session-list pre', { hasText: '/v1/coordination/sessions' }).waitFor();
      await page.locator('#event-list .hint').waitFor();
      const messages = [user('Hello, my dog is called Biscuit.')];
      for (let i = 0; i < 2; ++i) await server.ask('ada', messages);
      await page.locator('#agents-note', { hasText: /^1 agent$/ }).waitFor();
      await page.locator('#agents-empty').waitFor({ state: 'hidden' });
      assert.equal(await page.locator('#event-list .hint').count(), 0);
      // Counters from before it came are shown to a page that opens now.
      const later = await open(server);
      await is_live(later.page);
      for (const id of ['#first', '#inter', '#rate'])
        await later.page.locator(id, { hasText: /\d/ }).waitFor();
      await later.page.locator('#first-hint', { hasText: 'mean of 2 answers' }).waitFor();
      await later.page.locator('#rate-hint', { hasText: /^[1-9]\d* tokens since/ }).waitFor();
      await later.context.close();
      await page.locator('#reused', { hasText: /^[1-9][\d.]* %$/ }).waitFor();
      await page.locator('#reused-hint', { hasText: /^[1-9]\d* prompt tokens from RAM/ }).waitFor();
      await page.locator('#pool-text', { hasText: /^[1-9].* of [1-9]/ }).waitFor();
      await page.locator('#step', { hasText: /^Last step, / }).waitFor();
      // Means are of what comes between two samples, so that something has to.
      for (let i = 0; i < 100 && !/\d/.test(await page.locator('#first').innerText()); ++i)
        await server.ask(`other-${i}`, messages);
      await page.locator('#first', { hasText: /\d/ }).waitFor();
      await page.locator('#inter', { hasText: /\d/ }).waitFor();
      await page.locator('#rate-chart[aria-label*="now "]').waitFor();
      await page.locator('.tile .axis', { hasText: 'tokens/s' }).waitFor();
      assert.equal(await page.locator('.tile .axis', { hasText: /min ago\s*now$/ }).count(), 3);
      assert.deepEqual(await page.evaluate(points_of_an_hour), ['60 min ago', 300, 300]);
      const facts = page.locator('#model-facts');
      await facts.getByText('16,384 tokens').waitFor();
      await facts.getByText(/^k\d+\S*: \d+ % of 16 bit/).waitFor();
      await facts.getByText(/^\d.* in the pool$/).waitFor();
      // A row opens to what its agent remembers and how its prompts found it, and closes again.
      const opener = page.getByRole('button', { name: 'Memory of sess_ada' });
      await opener.click();
      await page.locator('tr.details', { hasText: /\d+ tokens, in RAM/ }).waitFor();
      const prompt = { hasText: /of \d+ prompt tokens from memory/ };
      await page.locator('tr.details li', prompt).first().waitFor();
      assert.equal(await opener.getAttribute('aria-expanded'), 'true');
      await opener.click();
      await page.locator('tr.details').waitFor({ state: 'detached' });
      await page.locator('#running', { hasText: /^0$/ }).waitFor();
      const rates = await page.evaluate(rates_of_a_busy_server);
      assert.deepEqual(rates.slice(4, 13), Array(9).fill('100'), `${rates}`);
      assert.equal(rates.at(-1), '0');
      assert.deepEqual(await page.evaluate(hint_of_drafts), [
        '100 tokens since the start',
        '300 tokens since the start, 60 by drafts of 100; 40 a second without them',
      ]);
      await context.close();
      await server.stop();
    },

    async '200 agents are shown and found; axe finds nothing serious, whatever the look'() {
      const server = await Server.start({ cache: make_folder() });
      const names = Array.from({ length: 200 }, (_, i) => `agent-${String(i).padStart(3, '0')}`);
      for (const agent_id of names)
        await fetch(`${server.url}/v1/agents`, {
          method: 'POST',
          body: JSON.stringify({ agent_id }),
        });
      await ask(server, 'planner', 'Plan a picnic.', { system: 'You plan, and it is Monday.' });
      await ask(server, 'planner', 'Plan a picnic.', { system: 'You plan, and it is Tuesday.' });
      const looks = [
        { colorScheme: 'light', viewport: { width: 1360, height: 1000 } },
        { colorScheme: 'dark', viewport: { width: 1920, height: 1000 } },
        { colorScheme: 'light', viewport: { width: 360, height: 800 } },
      ];
      for (const look of looks) {
        const { page, context, faults } = await open(server, { ...look, bypassCSP: true });
        await is_live(page);
        await page.locator('#agent-rows tr').nth(200).waitFor();
        await say(page, 'Hello, my dog is called Biscuit.');
        await answer_is_there(page, 0);
        await say(page, 'What is my dog called?');
        await answer_is_there(page, 1);
        await ask(server, 'planner', 'Plan a picnic.', {
          system: `You plan for ${look.colorScheme}`,
        });
        await page.locator('.miss').first().waitFor();
        await has_no_barriers(page);
        if (process.env.SCREENSHOTS) {
          const name = `dashboard-${look.colorScheme}-${look.viewport.width}.png`;
          await page.screenshot({ path: join(process.env.SCREENSHOTS, name), fullPage: true });
        }
        const frames = await frames_while_scrolling(page);
        console.log(`        ${look.viewport.width} px wide, 200 agents scroll: ${frames.told}`);
        assert.ok(frames.count >= 20, frames.told);
        await page.fill('#agent-filter', 'agent-117');
        await page.locator('#agents-note', { hasText: '1 of ' }).waitFor();
        assert.deepEqual(faults, []);
        await context.close();
      }
      await server.stop();
    },
  },
  400_000,
);
