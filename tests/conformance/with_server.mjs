// SPDX-License-Identifier: Apache-2.0
// with_server.mjs [SERVER_ARGUMENT... --] COMMAND...: runs COMMAND beside a fresh server, whose
// address is in BASE_URL, and ends with its exit status.

import { spawn } from 'node:child_process';

import { make_folder, Server } from './harness.mjs';

const words = process.argv.slice(2);
const server_args = words.splice(0, words.indexOf('--') + 1).slice(0, -1);
const server = await Server.start({ cache: make_folder(), args: server_args });
const [command, ...args] = words;
const child = spawn(command, args, {
  env: { ...process.env, BASE_URL: server.url },
  stdio: 'inherit',
});
const code = await new Promise((resolve) => {
  child.on('error', (error) => {
    console.log(`${command}: ${error.message}`);
    resolve(1);
  });
  child.on('close', resolve);
});
const { code: server_code } = await server.stop();
process.exit(code ?? (server_code === 0 ? 0 : 1));
