#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several servers, nginx, Redis and an object store on this machine, to try what a cluster does.

start.py [--nodes 3] [--port 8080] [--store ceph|dir|URL] [--folder FOLDER] [--encrypt]
         [--server build/bin/semantic-server] [-- OPTIONS of each server]

Runs in the foreground until Ctrl-C or SIGTERM, and ends everything that it started. Clients talk to
nginx at 127.0.0.1:PORT; a line says so when all is ready, after one line for each process with its
number, so that any of them can be killed (kill -9 NUMBER). What was killed is started again after a
few seconds. --store: ceph is Ceph's gateway with a store in RAM, gone at the end; dir is a
directory below FOLDER; a URL is that of semantic-server's --object-store. FOLDER keeps what the
servers keep, and everybody's log; without it a new one is made and removed at the end. --encrypt
makes a key for the object store. Packages: nginx-light, redis-server; for ceph ceph-mon, ceph-osd,
ceph-common, radosgw and curl.
"""

import argparse
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import ceph_in_ram as ceph

ROOT = pathlib.Path(__file__).resolve().parents[2]
NGINX = ROOT / 'etc/nginx'
BUCKET = 'memories'
START_SECONDS = 120
REVIVE_SECONDS = 3
NODES_MAX = 16


class Cluster:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder).resolve()
        self.others = []        # processes of Ceph
        self.kept = {}          # name: [command, process, when it ended]
        self.is_ending = False

    def log(self, name):
        return open(self.folder / f'{name}.log', 'ab')

    def start(self, name, command):
        log = self.log(name)
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.kept[name] = [command, process, None]
        print(f'{name:10} {process.pid}', flush=True)

    def store(self):
        """Starts it. Returns: its URL."""
        if self.options.store == 'dir':
            (self.folder / 'objects').mkdir(exist_ok=True)
            return f'dir:{self.folder}/objects'
        if self.options.store != 'ceph':
            return self.options.store
        (self.folder / 'ceph').mkdir()
        port = ceph.start_ceph(str(self.folder / 'ceph'), self.others)
        os.environ.update(ceph.KEYS)
        keys = ':'.join(ceph.KEYS.values())
        subprocess.run(['curl', '-sSf', '-X', 'PUT', '--aws-sigv4', 'aws:amz:us-east-1:s3',
                        '-H', 'x-amz-content-sha256: UNSIGNED-PAYLOAD', '--user', keys,
                        f'http://127.0.0.1:{port}/{BUCKET}'], check=True)
        return f's3+http://127.0.0.1:{port}/{BUCKET}'

    def nginx_site(self, ports):
        """The shipped files, with the addresses of this machine."""
        line = re.compile(r' *server 192\.0\.2\.\d:8001 (.*;)\n')
        cluster = (NGINX / 'cluster.conf').read_text()
        how = line.search(cluster)[1]
        servers = ''.join(f'    server 127.0.0.1:{port} {how}\n' for port in ports)
        known = re.compile(r' *"~\^http://192\\\.0\\\.2\\\.\d:8001/" (.*;)\n')
        location = known.search(cluster)[1]
        nodes = ''.join(f'    "~^http://127\\.0\\.0\\.1:{port}/" {location}\n' for port in ports)
        cluster = known.sub('', cluster).replace("default '';\n", f"default '';\n{nodes}")
        cluster = line.sub('', cluster).replace('    keepalive 32;', servers + '    keepalive 32;')
        site = (NGINX / 'semantic-server.conf').read_text()
        site = re.sub(r'map \$http_x_session_id .*?\n}\n\nupstream .*?\n}\n', '', site, flags=re.S)
        site = re.sub(r'^ *ssl_.*\n', '', site, flags=re.M)
        site = site.replace('listen 443 ssl http2;', f'listen 127.0.0.1:{self.options.port};')
        paths = ''.join(f'{name}_temp_path {self.folder}/nginx-{name};\n'
                        for name in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        user = 'user root;\n' if os.getuid() == 0 else ''
        return (f'{user}daemon off;\npid {self.folder}/nginx.pid;\nerror_log stderr;\n'
                f'events {{ worker_connections 1024; }}\nhttp {{\naccess_log off;\n{paths}'
                f'{cluster}{site}}}\n')

    def begin(self):
        store = self.store()
        redis = ceph.free_port()
        self.start('redis', ['redis-server', '--bind', '127.0.0.1', '--port', str(redis), '--save',
                             '', '--dir', str(self.folder)])
        shared = ['--object-store', store, '--redis', f'redis://127.0.0.1:{redis}',
                  '--held-elsewhere', 'redirect']
        if self.options.encrypt:
            key = self.folder / 'object-keys'
            if not key.exists():
                key.touch(0o600)
                key.write_text(secrets.token_hex(32) + '\n')
            shared += ['--object-store-key-file', str(key)]
        ports = [ceph.free_port() for _ in range(self.options.nodes)]
        for number, port in enumerate(ports, 1):
            self.start(f'node-{number}', [
                self.options.server, '--port', str(port), '--cache-dir',
                f'{self.folder}/node-{number}', '--node-url', f'http://127.0.0.1:{port}', *shared,
                *self.options.options])
        for number, port in enumerate(ports, 1):
            self.wait_for_node(f'node-{number}', port)
        (self.folder / 'nginx.conf').write_text(self.nginx_site(ports))
        self.start('nginx', ['nginx', '-p', str(self.folder), '-c', f'{self.folder}/nginx.conf'])
        ceph.wait_for(self.options.port, self.kept['nginx'][1])
        print(f'ready      http://127.0.0.1:{self.options.port}', flush=True)

    def wait_for_node(self, name, port):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and not self.is_ending:
            if self.kept[name][1].poll() is not None:
                said = (self.folder / f'{name}.log').read_text()
                sys.exit(f'{name} did not start:\n{said[-2000:]}')
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{port}/health/ready', timeout=5).read()
                return
            except OSError:
                time.sleep(0.1)
        if not self.is_ending:
            sys.exit(f'{name} is not ready after {START_SECONDS} s')

    def watch(self):
        """Until the end is asked for."""
        while not self.is_ending:
            time.sleep(0.2)
            for name, (command, process, ended) in list(self.kept.items()):
                if process.poll() is None:
                    continue
                if ended is None:
                    print(f'{name} ended with {process.returncode}', flush=True)
                    self.kept[name][2] = time.monotonic()
                elif time.monotonic() > ended + REVIVE_SECONDS:
                    self.start(name, command)

    def end(self):
        """Servers first, so that what they still upload has somewhere to go."""
        order = sorted(self.kept, key=lambda name: not name.startswith('node'))
        for group in ([n for n in order if n.startswith('node')],
                      [n for n in order if not n.startswith('node')]):
            for name in group:
                self.kept[name][1].terminate()
            for name in group:
                try:
                    self.kept[name][1].wait(60)
                except subprocess.TimeoutExpired:
                    self.kept[name][1].kill()
        for process in reversed(self.others):
            process.kill()
            process.wait()


def missing_programs(options):
    found = [each for each in ('nginx', 'redis-server') if not shutil.which(each)]
    if options.store == 'ceph':
        found += ceph.missing_programs() + [each for each in ('curl',) if not shutil.which(each)]
    if not shutil.which(options.server):
        found.append(options.server)
    return found


def main():
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--nodes', type=int, default=3)
    parser.add_argument('--port', type=int, default=8080)
    parser.add_argument('--store', default='dir')
    parser.add_argument('--folder')
    parser.add_argument('--encrypt', action='store_true')
    parser.add_argument('--server', default=str(ROOT / 'build/bin/semantic-server'))
    parser.add_argument('options', nargs='*', metavar='OPTION')
    options = parser.parse_args()
    if not 1 <= options.nodes <= NODES_MAX:
        parser.error(f'--nodes: must be 1 to {NODES_MAX}')
    if missing := missing_programs(options):
        sys.exit(f'not installed: {", ".join(missing)}')
    with tempfile.TemporaryDirectory() as own:
        if options.folder:
            pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
        cluster = Cluster(options, options.folder or own)

        def ask_to_end(*_):
            cluster.is_ending = True

        signal.signal(signal.SIGINT, ask_to_end)
        signal.signal(signal.SIGTERM, ask_to_end)
        try:
            cluster.begin()
            cluster.watch()
        finally:
            cluster.end()


if __name__ == '__main__':
    main()
