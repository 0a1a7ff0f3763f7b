# SPDX-License-Identifier: Apache-2.0
"""A semantic-server that a measurement starts for itself, on 127.0.0.1 and a free port."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

START_SECONDS = 600
REQUEST_SECONDS = 3600
POLL_SECONDS = 0.01


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Server:
    """Ready when made. Its cache directory is `caches`, or one of its own that goes with it; `core`
    is the only one that it runs on, where one is named."""

    def __init__(self, program, model, options=(), caches=None, core=None):
        self.folder = tempfile.TemporaryDirectory()
        port = free_port()
        self.url = f'http://127.0.0.1:{port}'
        self.log = open(pathlib.Path(self.folder.name) / 'log', 'w+')
        # What measurements are told by variables is no option of the server's.
        told = {key: value for key, value in os.environ.items() if not key.startswith('SEMANTIC_')}
        pinned = () if core is None else ('taskset', '-c', str(core))
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [*pinned, program, '--model', model, '--port', str(port), '--cache-dir',
             caches or self.folder.name + '/caches', *options],
            stdout=self.log, stderr=subprocess.STDOUT, env=told)
        while time.monotonic() < begin + START_SECONDS and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + '/health/ready', timeout=5).read()
                self.start_seconds = time.monotonic() - begin
                return
            except OSError:
                time.sleep(POLL_SECONDS)
        self.log.seek(0)
        said = self.log.read()[-2000:]
        if self.process.poll() is None:
            self.stop()
        raise SystemExit(f'the server did not start: {said}')

    def recipe(self):
        with urllib.request.urlopen(self.url + '/v1/models', timeout=30) as reply:
            return json.load(reply)['data'][0].get('kv_recipe', '?')

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {'content-type': 'application/json'})
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as reply:
            return json.load(reply)

    def delete(self, path):
        request = urllib.request.Request(self.url + path, method='DELETE')
        urllib.request.urlopen(request, timeout=60).read()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        self.folder.cleanup()
