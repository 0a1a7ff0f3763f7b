// SPDX-License-Identifier: Apache-2.0
// What tests of several models share: a registry of models made from the embedded one, swaps, and
// streams whose end is judged.

import assert from 'node:assert/strict';
import { cpSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { make_folder, Server, user } from './harness.mjs';

export const tiny = process.env.CONFORMANCE_MODEL;

/** A copy of the embedded model; `change` gets the bytes of its weights' file. */
export function changed_model(folder, name, change) {
  const copy = join(folder, name);
  cpSync(tiny, copy, { recursive: true });
  for (const each of readdirSync(copy).filter((file) => file.endsWith('.safetensors')))
    change(join(copy, each));
  return copy;
}

/** One model, the embedded one unless said, in several forms: K and V in two, and one whose pool is
 *  larger than a limit on memory allows; the embedded one with half of its weights gone, and one
 *  that is not there. */
export function models_file(model = tiny) {
  const folder = make_folder();
  const torn = changed_model(folder, 'torn', (file) =>
    truncateSync(file, statSync(file).size / 2),
  );
  const file = join(folder, 'models.yaml');
  writeFileSync(
    file,
    `models:
  - {name: wide, path: ${model}, kv-recipe: k16v16, aliases: [haiku]}
  - {name: tight, path: ${model}, kv-recipe: k8v8}
  - {name: torn, path: ${torn}}
  - {name: missing, path: ${folder}/nowhere}
  - {name: huge, path: ${model}, kv-recipe: k8v8, cache-budget-mb: 65536}
`,
  );
  return file;
}

/** A registry of these models: name, path, and recipe where it is not to be measured. */
export function registry_of(models) {
  const file = join(make_folder(), 'models.yaml');
  const lines = models.map(({ name, path, recipe }) => {
    return `  - {name: ${name}, path: ${path}${recipe ? `, kv-recipe: ${recipe}` : ''}}`;
  });
  writeFileSync(file, `models:\n${lines.join('\n')}\n`);
  return file;
}

export const start = (cache, more = [], models = models_file()) =>
  Server.start({ cache, args: ['--models-file', models, '--admin-key', 'k', ...more] });

export async function swap(server, model_id, more = {}) {
  const answer = await fetch(`${server.url}/admin/models/swap`, {
    method: 'POST',
    headers: { 'x-admin-key': 'k', 'content-type': 'application/json' },
    body: JSON.stringify({ model_id, timeout_seconds: 1, ...more }),
    signal: AbortSignal.timeout(60_000),
  });
  return { status: answer.status, text: await answer.text() };
}

export async function swapped(server, model_id) {
  const { status, text } = await swap(server, model_id);
  assert.equal(status, 200, text);
}

/** What the process has open, and takes, in KiB. */
export function process_of(server) {
  const status = readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
  const number = (name) => Number(status.match(new RegExp(`${name}:\\s+(\\d+)`))[1]);
  return {
    threads: number('Threads'),
    rss: number('VmRSS'),
    size: number('VmSize'),
    files: readdirSync(`/proc/${server.child.pid}/fd`).length,
  };
}

/** One streamed answer. Resolves with what became of it: answered, or refused or cut in a way that
 *  tells the client to come back; anything else, and a server that hangs, is an error. */
export async function stream(server, session, content, more = {}) {
  const answer = await fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': session },
    body: JSON.stringify({
      model: 'any',
      max_tokens: 60,
      temperature: 0,
      stream: true,
      messages: [user(content)],
      ...more,
    }),
    signal: AbortSignal.timeout(30_000),
  });
  const text = await answer.text();
  if (answer.status !== 200) {
    assert.equal(answer.status, 503, text);
    assert.ok(answer.headers.get('retry-after'), text);
    return 'refused';
  }
  const last = text.trimEnd().split('\n\n').at(-1);
  if (last.startsWith('event: message_stop')) return 'answered';
  assert.match(last, /^event: error\n/);
  assert.match(last, /overloaded_error/);
  return 'cut';
}
