// SPDX-License-Identifier: Apache-2.0
// nginx with the file that is shipped for it, in front of servers of a test. Only addresses and
// certificates are replaced, and with `tls` not even TLS goes away.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { free_port, make_folder } from './harness.mjs';

const unpacked = process.env.CONFORMANCE_NGINX ?? '';
const nginx = existsSync(unpacked) ? unpacked : 'nginx';
if (spawnSync(nginx, ['-v']).error) {
  console.log('skipped: nginx is not installed');
  process.exit(77);
}

const shipped = (name) => fileURLToPath(new URL(`../../etc/nginx/${name}`, import.meta.url));

/** A certificate for semantic.example that is signed by itself. */
function make_certificate(folder) {
  const [key, certificate] = [join(folder, 'tls.key'), join(folder, 'tls.crt')];
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
    ...['-keyout', key, '-out', certificate, '-days', '2', '-subj', '/CN=semantic.example'],
    ...['-addext', 'subjectAltName=DNS:semantic.example,IP:127.0.0.1'],
  ]);
  if (made.error || made.status !== 0) {
    console.log(`skipped: openssl makes no certificate: ${made.error ?? made.stderr}`);
    process.exit(77);
  }
  return { key, certificate };
}

/** The shipped file of a cluster in place of the other one's map of agents and upstream. */
function cluster_site(server_ports) {
  const line = / *server 192\.0\.2\.\d:8001 (.*;)\n/g;
  const cluster = readFileSync(shipped('cluster.conf'), 'utf8');
  const [, options] = line.exec(cluster);
  const servers = server_ports.map((each) => `server 127.0.0.1:${each} ${options}\n`).join('');
  const known = / *"~\^http:\/\/192\\\.0\\\.2\\\.\d:8001\/" (.*;)\n/g;
  const [, location] = known.exec(cluster);
  const nodes = server_ports
    .map((each) => `"~^http://127\\.0\\.0\\.1:${each}/" ${location}\n`)
    .join('');
  const upstream = cluster
    .replace(line, '')
    .replace('keepalive 32;', () => `${servers}keepalive 32;`)
    .replace(known, '')
    .replace("default '';", () => `default '';\n${nodes}`);
  const site = readFileSync(shipped('semantic-server.conf'), 'utf8');
  return upstream + site.replace(/map \$http_x_session_id [^]*?\n}\n\nupstream [^]*?\n}\n/, '');
}

/** The shipped file between ports of this machine, as a whole configuration. */
function configuration(folder, port, server_ports, { tls, cluster }) {
  const servers = server_ports.map((each) => `server 127.0.0.1:${each};`).join('\n');
  let site = cluster
    ? cluster_site(server_ports)
    : readFileSync(shipped('semantic-server.conf'), 'utf8').replace(
        'server 127.0.0.1:8001;',
        servers,
      );
  if (server_ports.length > 1)
    site = site.replace('# hash $semantic_agent', () => 'hash $semantic_agent');
  if (tls) {
    const { key, certificate } = make_certificate(folder);
    site = site
      .replace('listen 443 ssl http2;', `listen 127.0.0.1:${port} ssl http2;`)
      .replace('/etc/ssl/semantic.crt', certificate)
      .replace('/etc/ssl/semantic.key', key);
  } else {
    site = site
      .replace('listen 443 ssl http2;', `listen 127.0.0.1:${port};`)
      .replace(/^ *ssl_.*\n/gm, '');
  }
  assert.match(site, new RegExp(`127.0.0.1:${server_ports[0]}[ ;][^]*127.0.0.1:${port}`));
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${join(folder, name)};`)
    .join('\n');
  const user_line = process.getuid() === 0 ? 'user root;' : '';
  return `${user_line}
daemon off;
worker_processes 1;
pid ${join(folder, 'nginx.pid')};
error_log stderr;
events { worker_connections 128; }
http {
access_log off;
${folders}
${site}
}
`;
}

/** Starts nginx in front of `servers` ({ port }), with the file for a `cluster` of them if that is
 *  wanted; resolves with its URL and how to end it. */
export async function proxy(servers, { tls = false, cluster = false } = {}) {
  const folder = make_folder();
  const port = await free_port();
  const file = join(folder, 'nginx.conf');
  const ports = [servers].flat().map((server) => server.port);
  writeFileSync(file, configuration(folder, port, ports, { tls, cluster }));
  const child = spawn(nginx, ['-p', folder, '-c', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let complaints = '';
  child.stderr.on('data', (bytes) => (complaints += bytes));
  const ended = new Promise((resolve) => child.on('close', resolve));
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  process.on('exit', () => child.kill('SIGTERM'));
  for (let i = 0; i < 100; ++i) {
    if (await is_open(port))
      return { url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`, port, folder, stop };
    await sleep(50);
  }
  throw new Error(`nginx does not answer: ${complaints}`);
}

function is_open(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

/** A server that makes a token only when it is told to. */
export async function start_slow_server() {
  let begin;
  const begun = new Promise((resolve) => (begin = resolve));
  const upstream = createServer((incoming, answer) => {
    incoming.resume();
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    answer.flushHeaders();
    if (incoming.method === 'POST') begin(answer);
    else answer.end();
  });
  await new Promise((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  return {
    port: upstream.address().port,
    say: async (text) => (await begun).write(text),
    end: async () => (await begun).end(),
    stop: () => upstream.close(),
  };
}
