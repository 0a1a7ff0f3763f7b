// SPDX-License-Identifier: Apache-2.0
// What cannot start says why in one line on stderr and exits with status 1.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { free_port, launch, main, make_folder, run_to_end, Server } from './harness.mjs';

const model = process.env.CONFORMANCE_MODEL;
const weights = 'model.safetensors';

/** A copy of the embedded model that `harm` has harmed. */
function harmed_model(harm) {
  const folder = join(make_folder(), 'model');
  cpSync(model, folder, { recursive: true });
  harm(folder);
  return folder;
}

/** Takes one tensor out of a safetensors file and closes the gap that it leaves. */
function drop_tensor(path, name) {
  const bytes = readFileSync(path);
  const header_bytes = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + header_bytes));
  const data = bytes.subarray(8 + header_bytes);
  const [begin, end] = header[name].data_offsets;
  delete header[name];
  for (const tensor of Object.values(header)) {
    if (tensor.data_offsets?.[0] >= end)
      tensor.data_offsets = tensor.data_offsets.map((o) => o - (end - begin));
  }
  const text = JSON.stringify(header);
  const head = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(head.length));
  writeFileSync(path, Buffer.concat([size, head, data.subarray(0, begin), data.subarray(end)]));
}

function edit_config(folder, edit) {
  const path = join(folder, 'config.json');
  const config = JSON.parse(readFileSync(path));
  edit(config);
  writeFileSync(path, JSON.stringify(config));
}

/** Lines but those of the log, which says before or behind them what goes on: other threads write
 *  it. */
const troubles_of = (err) => err.split('\n').filter((line) => !/^$|^\S+Z info /.test(line));

/** The server must refuse to start with these arguments and name the culprit. */
async function refused(args, culprit) {
  const port = String(await free_port());
  const defaults = { '--port': port, '--cache-dir': make_folder(), '--cache-budget-mb': '256' };
  const rest = Object.entries(defaults)
    .filter(([flag]) => !args.includes(flag))
    .flat();
  const { code, signal, err } = await run_to_end([...rest, ...args]);
  assert.deepEqual({ code, signal }, { code: 1, signal: null }, err);
  const lines = troubles_of(err);
  assert.equal(lines.length, 1, `stderr says why in ${lines.length} lines:\n${err}`);
  assert.match(lines[0], culprit);
}

/** Whatever room there is, a start serves or ends with a reason: it never hangs. */
async function start_in_little_room(kilobytes) {
  const args = ['--cache-dir', make_folder(), '--cache-budget-mb', '64', '--io-threads', '4'];
  const port = ['--port', String(await free_port())];
  const { child, output, ended } = launch([...args, ...port], `ulimit -v ${kilobytes}`);
  let late = false;
  const limit = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, 30_000);
  child.stdout.once('data', () => child.kill('SIGTERM'));
  const { code, err } = await ended;
  clearTimeout(limit);
  assert.ok(!late, `with ulimit -v ${kilobytes} neither ready nor ended:\n${err}`);
  if (code === 0) return assert.match(output.out, /listening/);
  assert.equal(code, 1, `ulimit -v ${kilobytes}: ${err}`);
  assert.match(troubles_of(err).at(-1) ?? err, /^semantic-server: .+/);
}

const refuses_model = (harm, culprit) => refused(['--model', harmed_model(harm)], culprit);

await main({
  'a model folder that does not exist': () =>
    refused(['--model', '/nowhere/model'], /\/nowhere\/model/),
  'a model without config.json': () =>
    refuses_model((folder) => rmSync(join(folder, 'config.json')), /config\.json/),
  'a config.json that is not JSON': () =>
    refuses_model(
      (folder) => writeFileSync(join(folder, 'config.json'), '{"model_type": '),
      /config\.json/,
    ),
  'a config.json of an unknown family': () =>
    refuses_model((folder) => edit_config(folder, (c) => (c.model_type = 'abacus')), /abacus/),
  'a model without tokenizer.json': () =>
    refuses_model((folder) => rmSync(join(folder, 'tokenizer.json')), /tokenizer\.json/),
  'a model without weights': () =>
    refuses_model((folder) => rmSync(join(folder, weights)), /safetensors/),
  'truncated weights': () =>
    refuses_model((folder) => truncateSync(join(folder, weights), 4_000_000), /model\.safetensors/),
  'a missing tensor': () =>
    refuses_model(
      (folder) => drop_tensor(join(folder, weights), 'model.layers.3.mlp.down_proj.weight'),
      /model\.layers\.3\.mlp\.down_proj/,
    ),
  'a tensor of the wrong shape': () =>
    refuses_model(
      (folder) => edit_config(folder, (c) => (c.intermediate_size = 2048)),
      /mlp|intermediate/,
    ),

  async 'a port in use'() {
    const server = await Server.start({ cache: make_folder() });
    await refused(['--port', String(server.port)], new RegExp(`${server.port}`));
    await server.stop();
  },
  'an address that is not of this machine': () =>
    refused(['--host', '192.0.2.1', '--api-key', 'k'], /192\.0\.2\.1/),
  'an address for other machines without a key': () =>
    refused(['--host', '0.0.0.0'], /0\.0\.0\.0 can be reached from other machines.*--insecure on/),
  'an unknown flag': () => refused(['--colour', 'red'], /--colour/),
  'a bad value': () => refused(['--port', '70000'], /port.*70000/),
  async 'a system that refuses memory or threads'() {
    for (let kilobytes = 160_000; kilobytes <= 700_000; kilobytes += 30_000)
      await start_in_little_room(kilobytes);
  },
  'a cache directory that is a file': () =>
    refused(['--cache-dir', process.argv[1]], /bad_start\.mjs/),
});
