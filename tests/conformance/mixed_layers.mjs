// SPDX-License-Identifier: Apache-2.0
// Gemma 4: sliding and full layers whose heads differ in width and number, some of which read the
// keys and values of an earlier one. The same answers, greedy, word for word, however the memory
// came about; with random weights, so that a wrong byte shows in the words.

import assert from 'node:assert/strict';
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { converse, main, make_folder, Server, text_of, user } from './harness.mjs';
import { lines, paste } from './text.mjs';

const golden = join(dirname(dirname(fileURLToPath(import.meta.url))), 'golden', 'models');
const vocabulary = 4096;
const element_bytes = 2;

/** A table with a row for each token: those that there are again and again, each time turned on. */
function more_rows(bytes, [rows, columns]) {
  const row_bytes = columns * element_bytes;
  const table = Buffer.alloc(vocabulary * row_bytes);
  for (let row = 0; row < vocabulary; ++row) {
    const from = bytes.subarray((row % rows) * row_bytes, ((row % rows) + 1) * row_bytes);
    const cut = ((Math.floor(row / rows) * 5) % columns) * element_bytes;
    from.copy(table, row * row_bytes, cut);
    from.copy(table, (row + 1) * row_bytes - cut, 0, cut);
  }
  return table;
}

function write_weights(source, path) {
  const file = readFileSync(source);
  const data = 8 + Number(file.readBigUInt64LE());
  const tensors = JSON.parse(file.toString('utf8', 8, data));
  delete tensors.__metadata__;
  const parts = [];
  let end = 0;
  for (const [name, tensor] of Object.entries(tensors)) {
    let bytes = file.subarray(data + tensor.data_offsets[0], data + tensor.data_offsets[1]);
    if (/\.embed_tokens(_per_layer)?\.weight$/.test(name)) {
      bytes = more_rows(bytes, tensor.shape);
      tensor.shape[0] = vocabulary;
    }
    tensor.data_offsets = [end, end + bytes.length];
    end += bytes.length;
    parts.push(bytes);
  }
  const header = Buffer.from(JSON.stringify(tensors));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(path, Buffer.concat([length, header, ...parts]));
}

/** The golden model with the vocabulary and the template of the embedded one. */
function speaking_model(name) {
  const folder = make_folder();
  write_weights(join(golden, name, 'model.safetensors'), join(folder, 'model.safetensors'));
  const config = JSON.parse(readFileSync(join(golden, name, 'config.json'), 'utf8'));
  Object.assign(config.text_config, {
    vocab_size: vocabulary,
    vocab_size_per_layer_input: vocabulary,
    max_position_embeddings: 16384,
    eos_token_id: 2,
  });
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const file of ['tokenizer.json', 'tokenizer_config.json', 'generation_config.json'])
    copyFileSync(join(process.env.CONFORMANCE_MODEL, file), join(folder, file));
  return folder;
}

// What the model says is no text that reads back as its own tokens, so that what is compared with a
// fresh reading comes before it.
const talk = [paste(3000), ...lines.filter((line) => line.length < 100)];

const reused_of = (answer) => answer.usage.cache_read_input_tokens;
const sliding_files = (cache) =>
  readdirSync(join(cache, 'blocks'), { recursive: true }).filter((name) =>
    name.endsWith('.sliding.safetensors'),
  );

async function cases_of(name) {
  const folder = speaking_model(name);
  const start = (cache) => Server.start({ cache, args: ['--model', folder] });
  const restart = (cache) => async (old) => {
    await old.kill();
    return start(cache);
  };
  /** What the model says to `messages` on a server that has seen nothing. */
  const anew = async (messages) => {
    const server = await start(make_folder());
    const answer = await server.ask('x', messages);
    await server.stop();
    assert.equal(reused_of(answer), 0);
    return text_of(answer);
  };
  const first = await start(make_folder());
  const reference = await converse(first, 'a', talk);
  await first.stop();

  const cases = {
    async 'the first turn as if nothing had been read, later ones from memory'() {
      assert.ok(reference.texts.every((text) => text.length > 0), JSON.stringify(reference.texts));
      assert.ok(reused_of(reference.answers.at(-1)) > 2000);
      assert.equal(await anew(reference.messages.slice(0, 1)), reference.texts[0]);
    },

    async 'kill -9 before every turn'() {
      const cache = make_folder();
      const between = restart(cache);
      const again = await converse(await start(cache), 'a', talk, { between });
      assert.deepEqual(again.texts, reference.texts);
      assert.ok(reused_of(again.answers.at(-1)) > 2000, JSON.stringify(again.answers.at(-1).usage));
      const metrics = await again.server.metrics();
      assert.ok(metrics.semantic_store_blocks_read_total > 0);
      assert.ok(sliding_files(cache).length > 5, 'sliding layers are on disk beyond their window');
      await again.server.stop();
    },

    async 'parted after kill -9 where the window has long passed'() {
      const cache = make_folder();
      const server = await start(cache);
      await converse(server, 'a', talk);
      await server.kill();
      const messages = [user(`${talk[0].slice(0, talk[0].length / 2)} That is all.`)];
      const again = await start(cache);
      const answer = await again.ask('fork', messages);
      assert.ok(reused_of(answer) > 1000, JSON.stringify(answer.usage));
      assert.equal(text_of(answer), await anew(messages));
      await again.stop();
    },

    async 'exported and imported'() {
      const server = await start(make_folder());
      await converse(server, 'a', talk.slice(0, -1));
      const exported = await (await fetch(`${server.url}/v1/agents/sess_a/cache`)).arrayBuffer();
      await server.stop();
      const other = await start(make_folder());
      const imported = await fetch(`${other.url}/v1/agents/sess_b/cache`, {
        method: 'PUT',
        body: exported,
      });
      assert.equal(imported.status, 200, await imported.text());
      const answer = await other.ask('b', reference.messages.slice(0, -1));
      assert.equal(text_of(answer), reference.texts.at(-1));
      assert.ok(reused_of(answer) > 2000, JSON.stringify(answer.usage));
      await other.stop();
    },
  };
  return Object.fromEntries(
    Object.entries(cases).map(([promise, hold]) => [`${name}: ${promise}`, hold]),
  );
}

const all = {};
for (const name of ['gemma4-e-published', 'gemma4moe-published'])
  Object.assign(all, await cases_of(name));
await main(all);
