// SPDX-License-Identifier: Apache-2.0
// A published model in the file that people have: the README's story and the promises of exactness.
// REAL_MODEL names the file without .gguf; it lies in SEMANTIC_REAL_MODELS or ~/.semantic/models,
// where etc/get-model.sh puts it. REAL_RECIPE: K and V in that form, instead of the measured one.

import assert from 'node:assert/strict';
import { cpSync, existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import {
  converse,
  main,
  make_folder,
  prompt_tokens,
  Server,
  stored_tokens,
  text_of,
  user,
} from './harness.mjs';

const name = process.env.REAL_MODEL;
const folder = process.env.SEMANTIC_REAL_MODELS ?? join(homedir(), '.semantic/models');
const file = join(folder, `${name}.gguf`);
if (!existsSync(file)) {
  console.log(`skipped: ${file} is not there (bash etc/get-model.sh ${name} fetches it)`);
  process.exit(77);
}
const recipe = process.env.REAL_RECIPE;
// Milliseconds for a promise: a large model on a busy machine takes minutes.
const patience = Number(process.env.REAL_MODEL_PATIENCE ?? 280_000);
// Tokens of one cache block: the server's default.
const block_tokens = 256;
// Percent of 16 bit that the measured recipe may take (perf/README.md, Keys and values).
const share_max = 41;
// What a base model answers is no answer, nor is what a model says that its recipe makes noise of.
const answers_questions = !process.env.REAL_MODEL_IS_BASE && !process.env.REAL_MODEL_IS_NOISE;

const lines = [
  'My dog is called Biscuit. Please remember that.',
  'What does this do?\n\n```python\ndef f(xs):\n\treturn [x ** 2 for x in xs if x % 2 == 0]\n```',
  '北京是哪个国家的首都？请用一句话回答。',
  'What do these mean: 👩🏽‍🚀 🏳️‍🌈 👍🏿 😀? 🇫🇷',
  'Say this number again: 31415926535897932384626433832795028841971693993751',
  'One line\r\nand another\r\n\r\nand   three blanks.\tA tab.',
  'مرحبا، كيف حالك؟ नमस्ते, आप कैसे हैं? Здравствуйте!',
  '{"numbers": [1, 2.5, -3e10], "nested": {"null": null, "text": "a\\nb"}}',
  'naïve café — “quotes”, ½ ≠ ¾, x² + y² = z², a\u0301 b\u0308',
  'What is my dog called?',
];
const more = { max_tokens: 24 };

// The first start measures the model's KV recipes.
const start = (cache, args = []) =>
  Server.start({
    cache,
    args: ['--model', file, ...(recipe ? ['--kv-recipe', recipe] : []), ...args],
    patience: 240_000,
  });

// The model is measured at its first start; later ones, on folders of their own, begin with that.
let calibrated;
function new_cache() {
  const cache = make_folder();
  const kept = 'calibration';
  if (calibrated && existsSync(join(calibrated, kept))) {
    cpSync(join(calibrated, kept), join(cache, kept), { recursive: true });
  }
  return cache;
}

/** One request to the agents API; resolves with its body. */
async function call(server, method, path, body) {
  const answer = await fetch(`${server.url}/v1/agents${path}`, {
    method,
    headers: body && !(body instanceof Uint8Array) ? { 'content-type': 'application/json' } : {},
    body: body && !(body instanceof Uint8Array) ? JSON.stringify(body) : body,
    signal: AbortSignal.timeout(60_000),
  });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const text = () => new TextDecoder().decode(bytes);
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${answer.ok ? '' : text()}`);
  return answer.headers.get('content-type')?.startsWith('application/json')
    ? JSON.parse(text())
    : bytes;
}

/** The token ids of each agent that a server has, as its export has them. */
async function token_ids(server) {
  const { agents } = await call(server, 'GET', '');
  const ids = [];
  for (const { agent_id } of agents) {
    const file = await call(server, 'GET', `/${agent_id}/cache`);
    const length = Number(new DataView(file.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
    ids.push(header.__metadata__.token_ids.match(/\d+/g).map(Number));
  }
  return ids;
}

/** Whether agents of both servers have a prompt of `count` tokens that are the same. As many of
 *  them are no proof: a damaged model may say a text in other tokens than it is read in. */
function same_prompt(ones, others, count) {
  const prompts = others.map((ids) => ids.slice(0, count).join());
  return ones.some((ids) => ids.length >= count && prompts.includes(ids.slice(0, count).join()));
}

async function hot(args = []) {
  const cache = new_cache();
  const server = await start(cache, args);
  const talk = await converse(server, 'exact', lines, more);
  talk.ids = await token_ids(server);
  await server.stop();
  calibrated ??= cache;
  return talk;
}

/** How many of an answer's last tokens show nothing, because its limit cut it inside a character:
 *  an answer that is shorter by them has the same text. No later prompt can say them. */
async function tokens_without_text(turn) {
  const server = await start(new_cache());
  const before = reference.messages.slice(0, 2 * turn + 1);
  const limit = reference.answers[turn].usage.output_tokens;
  let without = 0;
  for (; without < 3; ++without) {
    const max_tokens = limit - without - 1;
    const shorter = await server.ask(`limit-${without}`, before, { max_tokens });
    if (text_of(shorter) !== reference.texts[turn]) break;
  }
  await server.stop();
  return without;
}

const reference = await hot();

await main(
  {
    async 'told, killed and asked, it knows'() {
      const cache = new_cache();
      const first = await start(cache);
      const messages = [user('My dog is called Biscuit.')];
      const told = await first.ask('story', messages, more);
      await first.kill();
      const second = await start(cache);
      messages.push({ role: 'assistant', content: text_of(told) }, user('What is my dog called?'));
      const answer = await second.ask('story', messages, more);
      await second.stop();
      assert.ok(answer.usage.cache_read_input_tokens >= stored_tokens(told), 'read again');
      if (answers_questions) assert.match(text_of(answer), /Biscuit/);
    },

    async 'the recipe that is measured for it takes no more than its table says'() {
      const server = await start(new_cache());
      const [model] = (await (await fetch(`${server.url}/v1/models`)).json()).data;
      await server.stop();
      if (recipe) {
        assert.equal(model.kv_recipe, recipe);
        return;
      }
      const share = Number(/^(\d+) % of 16 bit/.exec(model.kv_recipe_reason)?.[1]);
      assert.ok(share <= share_max, `${model.kv_recipe}: ${model.kv_recipe_reason}`);
    },

    async 'ten turns of code, five scripts, emoji and long numbers: nothing is read again'() {
      for (let turn = 1; turn < lines.length; ++turn) {
        const read = reference.answers[turn].usage.cache_read_input_tokens;
        const told = stored_tokens(reference.answers[turn - 1]);
        const stored = read >= told ? told : told - (await tokens_without_text(turn - 1));
        assert.ok(read >= stored, `turn ${turn + 1}: ${read} of ${stored} tokens were reused`);
      }
    },

    // Where an answer's tokens are not those that its text has, the agent keeps what was said and a
    // stranger reads the text: two prompts, and no promise.
    async 'cold: each prompt on a server that has seen nothing'() {
      let compared = 0;
      for (let turn = 0; turn < lines.length; ++turn) {
        const server = await start(new_cache());
        const answer = await server.ask('exact', reference.messages.slice(0, 2 * turn + 1), more);
        const ids = await token_ids(server);
        await server.stop();
        assert.equal(answer.usage.cache_read_input_tokens, 0);
        const count = prompt_tokens(reference.answers[turn]);
        if (prompt_tokens(answer) !== count || !same_prompt(ids, reference.ids, count)) continue;
        assert.equal(text_of(answer), reference.texts[turn], `turn ${turn + 1}`);
        ++compared;
      }
      console.log(`        ${compared} of ${lines.length} prompts had the same tokens`);
      assert.ok(compared > 0);
    },

    async 'restored: kill -9 before every turn'() {
      const cache = new_cache();
      const between = async (old) => {
        await old.kill();
        return start(cache);
      };
      const talk = await converse(await start(cache), 'exact', lines, { between, ...more });
      await talk.server.stop();
      assert.deepEqual(talk.texts, reference.texts);
    },

    async 'parted inside a complete block: the rest is as on a server that has seen nothing'() {
      const other = [...reference.messages.slice(0, 8), user('Name one river of Asia.')];
      const server = await start(new_cache());
      const { answers } = await converse(server, 'exact', lines.slice(0, 9), more);
      const parted = await server.ask('exact', other, more);
      const ids = await token_ids(server);
      await server.stop();
      const read = parted.usage.cache_read_input_tokens;
      assert.ok(read > 0 && read % block_tokens !== 0, `${read} tokens were reused`);
      const end_of_block = Math.ceil(read / block_tokens) * block_tokens;
      assert.ok(end_of_block <= stored_tokens(answers.at(-1)), 'its block was not complete');
      const stranger = await start(new_cache());
      const cold = await stranger.ask('exact', other, more);
      const cold_ids = await token_ids(stranger);
      await stranger.stop();
      const count = prompt_tokens(parted);
      if (prompt_tokens(cold) === count && same_prompt(ids, cold_ids, count))
        assert.equal(text_of(parted), text_of(cold));
      else console.log('        the same text has other tokens for a stranger: not compared');
    },

    async 'forked, moved to disk, exported and imported: all go on alike'() {
      const server = await start(new_cache());
      const tell = (agent, line) =>
        call(server, 'POST', `/${agent}/generate`, {
          messages: [user(line)],
          append: true,
          temperature: 0,
          ...more,
        });
      await call(server, 'POST', '', { agent_id: 'a' });
      for (const line of lines.slice(0, 6)) await tell('a', line);
      await call(server, 'POST', '/a/fork', { agent_id: 'b' });
      const { tokens } = await call(server, 'POST', '/a/evict');
      await call(server, 'PUT', '/c/cache', await call(server, 'GET', '/a/cache'));
      const texts = [];
      for (const agent of ['a', 'b', 'c']) {
        const said = await tell(agent, lines[9]);
        assert.ok(said.semantic.reused_tokens >= tokens - 1, `${agent} was read again`);
        texts.push(said.text);
      }
      await server.stop();
      assert.deepEqual(texts, [texts[0], texts[0], texts[0]]);
    },

    async 'together: four agents in one batch, each some turns apart'() {
      const server = await start(new_cache());
      const talks = [10, 8, 6, 4].map((count, i) =>
        converse(server, `agent-${i}`, lines.slice(0, count), more),
      );
      for (const { texts } of await Promise.all(talks))
        assert.deepEqual(texts, reference.texts.slice(0, texts.length));
      await server.stop();
    },

    async 'small prefill chunks, and one compute thread'() {
      const chunk = ['--prefill-min-chunk', '64', '--prefill-max-chunk', '256'];
      const args = [...chunk, '--chunked-prefill-threshold', '256', '--compute-threads', '1'];
      assert.deepEqual((await hot(args)).texts, reference.texts);
    },
  },
  patience,
);
