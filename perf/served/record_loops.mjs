// SPDX-License-Identifier: Apache-2.0
// What coding agents' own programs ask of models in a loop of tools, as they ask it: a file is
// read, and is to be changed. Writes each program's last request, which has the file in a tool's
// result, as one line of JSON, {"program", "path", "body"}, for drafts.py --recorded.
//
// node record_loops.mjs FILE [PROGRAM...]
//
// The variables are those of the conformance tests (tests/README.md): CONFORMANCE_SERVER,
// CONFORMANCE_NPM, CONFORMANCE_MODEL and CONFORMANCE_PROGRAMS. The embedded model answers, and a
// proxy has it call the tool.

import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { asks_a_model, Desk, found, programs } from '../../tests/conformance/coding_agents.mjs';

const names = ['settings', 'sources', 'targets', 'options'];
const source = names
  .map(
    (name) => `def read_${name}(path: str, strict: bool = True) -> dict:
    """Reads the ${name} of a project from a file."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if strict and "${name}" not in content:
        raise ValueError(f"{path}: there is no ${name}")
    return content.get("${name}", {})
`,
  )
  .join('\n');

/** The tool that reads a file, and how its argument is named. */
const reading = {
  claude: ['Read', 'file_path'],
  opencode: ['read', 'filePath'],
  pi: ['read', 'path'],
  qwen: ['read_file', 'file_path'],
};

const [file, ...asked] = process.argv.slice(2);
writeFileSync(file, '');
for (const program of found.filter((name) => name in reading)) {
  if (asked.length > 0 && !asked.includes(program)) continue;
  const desk = new Desk(program);
  const path = join(desk.home, 'work', 'project.py');
  writeFileSync(path, source);
  const [tool, argument] = reading[program];
  Object.assign(desk.proxy, { sequence: [tool], fixed: { [tool]: { [argument]: path } } });
  await desk.start_server();
  await desk.run(
    programs[program].first(
      `Read ${path}, rename the parameter strict to is_strict in all functions, ` +
        'and write the whole file again.',
    ),
  );
  await desk.end_server('stop');
  const own = desk.proxy.asked.filter(({ method, path: at }) => asks_a_model(method, at));
  const last = own.findLast(({ body }) => `${body}`.includes('content.get('));
  if (!last) throw new Error(`${program} did not read the file`);
  const line = { program, path: last.path, body: JSON.parse(last.body) };
  appendFileSync(file, `${JSON.stringify(line)}\n`);
  console.log(`${program}: ${last.body.length} bytes`);
}
process.exit(0);
