// with_server.mjs COMMAND...: runs COMMAND beside a fresh server, whose address is in BASE_URL, and
// ends with its exit status.

import { spawn } from 'node:child_process';

import { make_folder, Server } from './harness.mjs';

const server = await Server.start({ cache: make_folder() });
const [command, ...args] = process.argv.slice(2);
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
