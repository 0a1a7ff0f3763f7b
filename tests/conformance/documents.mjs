// SPDX-License-Identifier: Apache-2.0
// What README.md and the guides say can be done as they say it: their requests are sent, their
// JavaScript is run, and every option that they name exists.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { main, make_folder, Server } from './harness.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const guides = readdirSync(join(root, 'etc/guide')).map((name) => `etc/guide/${name}`);
const programs = dirname(process.env.CONFORMANCE_SERVER);
const address = 'http://127.0.0.1:8001';

const read = (document) => readFileSync(join(root, document), 'utf8');

/** The fenced blocks of a document in one language, in order. */
const blocks = (document, language) =>
  [...read(document).matchAll(/^```(\w*)\n(.*?)^```$/gms)]
    .filter(([, named]) => named === language)
    .map(([, , text]) => text);
const requests = (document) => blocks(document, 'sh').filter((text) => text.includes('curl '));

/** Runs a block as a reader would paste it; resolves with what it printed. */
function run(text, server, folder) {
  const result = spawnSync('bash', ['-euc', text.replaceAll(address, server.url)], {
    cwd: folder,
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.equal(result.status, 0, `${text}\n${result.stderr}`);
  assert.doesNotMatch(result.stdout, /"error"/, text);
  return result.stdout;
}

const help_of = (program, ...args) => {
  const options = { encoding: 'utf8', cwd: root };
  const { stdout, stderr } = spawnSync(program, [...args, '--help'], options);
  return stdout + stderr;
};

/** Everything that has options of ours, and what it says of itself. */
function all_help() {
  const own = [help_of(process.env.CONFORMANCE_SERVER)];
  const evaluation = join(programs, 'semantic-eval');
  if (existsSync(evaluation)) {
    own.push(help_of(evaluation));
    for (const [, command] of own[1].matchAll(/^ {2}([a-z]+)$/gm))
      own.push(help_of(evaluation, command));
  }
  own.push(help_of('bash', 'etc/get-model.sh'), help_of('bash', 'etc/test.sh'));
  own.push(help_of('python3', 'etc/cluster/start.py'));
  return own.join('\n');
}

await main({
  async 'the first conversation of the README survives kill -9'() {
    const cache = make_folder();
    const [first, second] = requests('README.md');
    const server = await Server.start({ cache });
    const told = JSON.parse(run(first, server, cache));
    assert.match(told.content[0].text, /Biscuit/);
    await server.kill();
    const again = await Server.start({ cache, port: server.port });
    const asked = JSON.parse(run(second, again, cache));
    assert.match(asked.content[0].text, /Biscuit/);
    assert.equal(asked.usage.cache_read_input_tokens, 30);
    await again.stop();
  },

  async 'requests of the guide to clients do what it says'() {
    const folder = make_folder();
    const server = await Server.start({ cache: make_folder() });
    const said = requests('etc/guide/clients.md').map((text) => run(text, server, folder));
    assert.match(said[0], /"cache_read_input_tokens": ?30/);
    assert.match(said[0], /Biscuit/);
    assert.match(said[1], /Pickle/);
    assert.ok(existsSync(join(folder, 'eve.safetensors')));
    await server.stop();
  },

  async 'the JavaScript of the guide to clients streams'() {
    const modules = join(process.env.CONFORMANCE_NPM ?? '', 'node_modules');
    if (!existsSync(join(modules, '@anthropic-ai/sdk'))) return console.log('skipped: no SDK');
    const folder = make_folder();
    symlinkSync(modules, join(folder, 'node_modules'));
    const [text] = blocks('etc/guide/clients.md', 'js');
    const server = await Server.start({ cache: make_folder() });
    writeFileSync(join(folder, 'said.mjs'), text.replaceAll(address, server.url));
    const options = { cwd: folder, encoding: 'utf8', timeout: 60_000 };
    const result = spawnSync('node', ['said.mjs'], options);
    assert.equal(result.status, 0, result.stderr);
    assert.match(result.stdout, /Ada/);
    await server.stop();
  },

  async 'the Python of the guides is Python'() {
    for (const document of ['README.md', ...guides])
      for (const text of blocks(document, 'python')) {
        const parse = 'import ast, sys; ast.parse(sys.stdin.read())';
        const result = spawnSync('python3', ['-c', parse], { input: text, encoding: 'utf8' });
        assert.equal(result.status, 0, `${document}: ${result.stderr}`);
      }
  },

  async 'every option that is named exists'() {
    // Options of programs that are not ours, by a word of their lines, and one that is misspelled.
    const programs = ['cmake', 'kill', 'cpack', '--permission-mode', 'Qwen Code', 'mcp add'];
    const foreign = [...programs, 'did you mean'];
    const help = all_help();
    for (const document of ['README.md', ...guides])
      for (const line of read(document).split('\n')) {
        if (foreign.some((program) => line.includes(program))) continue;
        for (const [option] of line.matchAll(/(?<![\w-])--[a-z][a-z-]+/g))
          assert.ok(
            option === '--help' || new RegExp(`${option}(?![a-z-])`).test(help),
            `${document} names ${option}, which nothing has`,
          );
      }
  },
});
