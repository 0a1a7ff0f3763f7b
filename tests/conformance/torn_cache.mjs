// SPDX-License-Identifier: Apache-2.0
// Whatever happens to the files of the cache, while no server runs or while one does, the next
// request succeeds with the same answer; it only computes more, and /metrics says why.

import assert from 'node:assert/strict';
import {
  copyFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  assistant,
  converse,
  launch,
  main,
  make_folder,
  prompt_tokens,
  Server,
  stored_tokens,
  text_of,
  user,
} from './harness.mjs';
import { paste } from './text.mjs';

const told = ['My dog is called Biscuit.', `Here is a text for you:\n\n${paste(1200)}`];

function files_below(folder, part) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? files_below(path, '') : [path];
    })
    .filter((path) => path.includes(part))
    .sort();
}

const blocks_of = (cache) => files_below(cache, `${sep}blocks${sep}`);
const manifests_of = (cache) => files_below(cache, `${sep}agents${sep}`);

function flip_bit(path, share) {
  const bytes = readFileSync(path);
  bytes[Math.min(bytes.length - 1, Math.floor(bytes.length * share))] ^= 1;
  writeFileSync(path, bytes);
}

const halve = (path) => truncateSync(path, Math.floor(statSync(path).size / 2));
const any = (paths) => paths[Math.floor(paths.length / 2)];

// A cache with one agent in it, and what a restart makes of it when nobody touches it.
const cache = make_folder();
const writer = await Server.start({ cache });
const { answers, messages } = await converse(writer, 'torn', told);
assert.equal((await writer.stop()).code, 0);
messages.push(user('What is my dog called?'));

async function resume(folder) {
  const server = await Server.start({ cache: folder });
  const answer = await server.ask('torn', messages);
  const metrics = await server.metrics();
  assert.equal((await server.stop()).code, 0);
  return { answer, metrics, read: answer.usage.cache_read_input_tokens };
}

function copy_of(folder) {
  const copy = make_folder();
  cpSync(folder, copy, { recursive: true });
  return copy;
}

const whole = await resume(copy_of(cache));

const by_reason = (metrics) =>
  Object.entries(metrics).filter(
    ([name, count]) => name.startsWith('semantic_cache_misses_total') && count > 0,
  );

/** After `harm`, the answer stands, less is reused, and the counter `counted` has moved. */
async function survives(harm, counted) {
  const folder = copy_of(cache);
  harm(folder);
  const { answer, metrics, read } = await resume(folder);
  assert.equal(text_of(answer), text_of(whole.answer));
  assert.equal(prompt_tokens(answer), prompt_tokens(whole.answer));
  assert.ok(read < whole.read, `${read} tokens reused of ${whole.read}`);
  assert.ok(metrics[counted] >= 1, `${counted} is ${metrics[counted]}`);
  if (counted.includes('blocks'))
    assert.ok(by_reason(metrics).length > 0, 'no reason for the miss');
  // What was harmed is whole again for the next restart.
  const again = await resume(folder);
  assert.equal(text_of(again.answer), text_of(whole.answer));
  assert.ok(again.read >= whole.read - 1, `${again.read} tokens reused after the repair`);
}

const corrupt = 'semantic_store_blocks_corrupt_total';
const missing = 'semantic_store_blocks_missing_total';
const torn_manifest = 'semantic_store_manifests_corrupt_total';
const block = (harm) => (folder) => harm(any(blocks_of(folder)));
const manifest = (harm) => (folder) => harm(any(manifests_of(folder)));

await main(
  {
    async 'an untouched cache is reused whole'() {
      assert.ok(blocks_of(cache).length >= 5, `${blocks_of(cache).length} block files`);
      assert.equal(manifests_of(cache).length, 1);
      assert.match(text_of(whole.answer), /Biscuit/);
      const stored = stored_tokens(answers.at(-1));
      assert.ok(whole.read >= stored, `${whole.read} tokens reused, ${stored} were stored`);
    },
    'a truncated block': () => survives(block(halve), corrupt),
    'an empty block': () =>
      survives(
        block((path) => truncateSync(path, 0)),
        corrupt,
      ),
    'a flipped bit in the length of a header': () =>
      survives(
        block((path) => flip_bit(path, 0)),
        corrupt,
      ),
    'a flipped bit in a header': () =>
      survives(
        block((path) => flip_bit(path, 0.002)),
        corrupt,
      ),
    'a flipped bit in the data': () =>
      survives(
        block((path) => flip_bit(path, 0.6)),
        corrupt,
      ),
    'a flipped bit at the end': () =>
      survives(
        block((path) => flip_bit(path, 1)),
        corrupt,
      ),
    'two blocks in place of each other': () =>
      survives((folder) => copyFileSync(blocks_of(folder)[1], blocks_of(folder)[0]), corrupt),
    'a deleted block': () => survives(block(rmSync), missing),
    'every block deleted': () =>
      survives((folder) => blocks_of(folder).forEach((path) => rmSync(path)), missing),
    'a truncated manifest': () => survives(manifest(halve), torn_manifest),
    'an empty manifest': () =>
      survives(
        manifest((path) => truncateSync(path, 0)),
        torn_manifest,
      ),
    'a flipped bit in a manifest': () =>
      survives(
        manifest((path) => flip_bit(path, 0.5)),
        torn_manifest,
      ),

    async 'a deleted manifest is a new agent'() {
      const folder = copy_of(cache);
      manifests_of(folder).forEach((path) => rmSync(path));
      const { answer, read } = await resume(folder);
      assert.equal(text_of(answer), text_of(whole.answer));
      assert.equal(read, 0);
    },

    async 'what is removed while the server runs is written again, for every agent'() {
      for (const gone of ['', 'agents', 'blocks']) {
        const folder = join(make_folder(), 'cache');
        const first = await Server.start({ cache: folder });
        const dog = [user('My dog is called Biscuit.')];
        dog.push(assistant(text_of(await first.ask('dog', dog))));
        const cat = [user('My cat is called Pickle.')];
        rmSync(join(folder, gone), { recursive: true });
        cat.push(assistant(text_of(await first.ask('cat', cat))));
        const whole_files = (paths) => paths.filter((path) => !path.endsWith('.tmp')).length;
        const is_done = () =>
          existsSync(folder) &&
          whole_files(manifests_of(folder)) === 2 &&
          whole_files(blocks_of(folder)) >= 2 &&
          /files of agents were gone/.test(first.output.err);
        const give_up = Date.now() + 20_000;
        while (!is_done() && Date.now() < give_up) await sleep(50);
        assert.ok(is_done(), first.output.err);
        await first.kill();

        const second = await Server.start({ cache: folder });
        for (const [session, messages] of [['dog', dog], ['cat', cat]]) {
          const next = [...messages, user(`What is my ${session} called?`)];
          const answer = await second.ask(session, next);
          assert.ok(answer.usage.cache_read_input_tokens > 10, JSON.stringify(answer.usage));
          assert.match(text_of(answer), session === 'dog' ? /Biscuit/ : /Pickle/);
        }
        await second.stop();
      }
    },

    async 'weights that are cut off while they are used end the server, which says which'() {
      const folder = copy_of(cache);
      const first = await Server.start({ cache: folder, args: ['--weights-access', 'map'] });
      const [packed] = files_below(folder, '.packed');
      truncateSync(packed, 0);
      await assert.rejects(first.ask('torn', messages));
      const { signal, err } = await first.ended;
      assert.equal(signal, 'SIGBUS', err);
      const told_line = err.split('\n').find((line) => line.includes('cannot read a page of'));
      assert.ok(told_line?.startsWith(`semantic-server: cannot read a page of ${packed}: `), err);
      // They are made again, and the memory is what it was.
      const second = await Server.start({ cache: folder, args: ['--weights-access', 'map'] });
      const answer = await second.ask('torn', messages);
      assert.equal(text_of(answer), text_of(whole.answer));
      assert.equal(answer.usage.cache_read_input_tokens, whole.read);
      assert.ok(statSync(packed).size > 0);
      assert.equal((await second.stop()).code, 0);
    },

    async 'a start that is killed while it writes packed weights leaves them whole or absent'() {
      const folder = copy_of(cache);
      const [packed] = files_below(folder, '.packed');
      const size = statSync(packed).size;
      let torn = 0;
      for (let round = 0; round < 8; ++round) {
        rmSync(packed, { force: true });
        const { child, ended } = launch(['--port', '0', '--cache-dir', folder]);
        const give_up = Date.now() + 20_000;
        const has_begun = () => files_below(folder, `packed${sep}new.tmp`).length > 0;
        while (!has_begun() && !existsSync(packed) && Date.now() < give_up) await sleep(1);
        await sleep(round % 4);
        child.kill('SIGKILL');
        await ended;
        torn += has_begun() ? 1 : 0;
        if (existsSync(packed)) assert.equal(statSync(packed).size, size);
      }
      console.log(`        ${torn} of 8 starts were killed before the file was whole`);
      const { answer, read } = await resume(folder);
      assert.equal(text_of(answer), text_of(whole.answer));
      assert.equal(read, whole.read);
      assert.equal(statSync(packed).size, size);
      assert.ok(!existsSync(join(folder, 'packed', 'new.tmp')));
    },

    async 'foreign and half-written files disturb nobody'() {
      const folder = copy_of(cache);
      writeFileSync(join(folder, 'notes.txt'), 'not ours');
      writeFileSync(`${any(blocks_of(folder))}.tmp`, 'half');
      writeFileSync(`${any(manifests_of(folder))}.tmp`, '{"tokens": [1, 2');
      const { answer, read } = await resume(folder);
      assert.equal(text_of(answer), text_of(whole.answer));
      assert.equal(read, whole.read);
    },
  },
  60_000,
);
