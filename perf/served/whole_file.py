#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model's file beside llama.cpp's programs on the same one, K and V of 16 bit on both sides: how
long a start takes, what the process holds then and after an answer, what a token's K and V take,
and how fast 512 tokens are read and 16 decoded, with nothing before them and on a long context.

whole_file.py FILE.gguf [--parts start,speed] [--bin build/bin] [--peer FOLDER] [--depth 4096]
              [--threads N] [--max-seconds 570]
    FOLDER: of llama-server and llama-bench.

start:  the first start, which packs the weights, and a second one; then llama-server's. The file is
        in the page cache. Resident: memory of its own, and of files that are mapped.
speed:  model_bench and llama-bench, one after the other.

Prints rows of a table. What --max-seconds cuts off is not measured, said so, and the exit status
is 3.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

from own_server import POLL_SECONDS, Server, free_port

NEW_TOKENS, ANSWER = 512, 16
ASKED_WORDS = 150
CONTEXT = 8192
MIB = 1024 * 1024


class Deadline:
    """What is left of the whole run's time; TimeoutError when nothing is."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError('--max-seconds are over')
        return seconds

    def run(self, *command):
        try:
            done = subprocess.run(command, timeout=self.left(), check=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f'--max-seconds are over in {command[0]}') from late
        return done.stdout.decode()


class Peer:
    """llama.cpp's server: K and V of f16, one slot, no warm-up. Ready when made."""

    def __init__(self, options, deadline):
        port = free_port()
        self.url = f'http://127.0.0.1:{port}'
        self.log = tempfile.TemporaryFile('w+')
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [options.peer / 'llama-server', '-m', options.file, '--host', '127.0.0.1', '--port',
             str(port), '-c', str(CONTEXT), '-np', '1', '-t', str(options.threads), '--no-warmup',
             '-lv', '4'],
            stdout=self.log, stderr=subprocess.STDOUT)
        try:
            while self.process.poll() is None:
                deadline.left()
                try:
                    urllib.request.urlopen(self.url + '/health', timeout=5).read()
                    self.start_seconds = time.monotonic() - begin
                    return
                except OSError:
                    time.sleep(POLL_SECONDS)
        except TimeoutError:
            self.stop()
            raise
        raise SystemExit(f'llama.cpp did not start: {self.said()[-2000:]}')

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def kv_bytes(self):
        """Of a token in all layers that keep it, from what is said of each of its caches."""
        caches = re.findall(r'size =\s*([\d.]+) MiB \(\s*(\d+) cells,\s*(\d+) layers', self.said())
        return sum(float(size) * MIB / int(cells) for size, cells, layers in caches if int(layers))

    def stop(self):
        self.process.kill()
        self.process.wait(60)
        self.log.close()


def resident(process):
    """MiB of its own, and of mapped files."""
    sizes = dict(re.findall(r'^(Rss\w+):\s+(\d+) kB', pathlib.Path(
        f'/proc/{process.pid}/status').read_text(), re.MULTILINE))
    own = (int(sizes['RssAnon']) + int(sizes['RssShmem'])) / 1024
    return f'{own:,.0f} + {int(sizes["RssFile"]) / 1024:,.0f}'


def ask(server, deadline):
    words = ' '.join(f'river {i}' for i in range(ASKED_WORDS))
    body = {'model': 'any', 'max_tokens': 8, 'temperature': 0,
            'messages': [{'role': 'user', 'content': words}]}
    request = urllib.request.Request(server.url + '/v1/chat/completions',
                                     json.dumps(body).encode(),
                                     {'content-type': 'application/json'})
    with urllib.request.urlopen(request, timeout=deadline.left()) as reply:
        json.load(reply)


def row(*cells):
    print('| ' + ' | '.join(str(cell) for cell in cells) + ' |', flush=True)


def held_by(make, deadline):
    """Returns the seconds of a start, what is resident then and after an answer, and the bytes of
    a token's K and V, where the server says them."""
    server = make()
    try:
        ready = resident(server.process)
        ask(server, deadline)
        kv = server.kv_bytes() if isinstance(server, Peer) else None
        return server.start_seconds, ready, resident(server.process), kv
    finally:
        server.stop()


def measure_start(options, deadline):
    with open(options.file, 'rb', buffering=0) as file:
        while file.read(64 * MIB):
            deadline.left()
    with tempfile.TemporaryDirectory() as caches:
        def own():
            return Server(options.bin / 'semantic-server', options.file,
                          ['--kv-recipe', 'k16v16', '--cache-budget-mb', '512'], caches=caches)

        first = own()
        first.stop()
        own_start, own_ready, own_after, _ = held_by(own, deadline)
    start, ready, after, kv = held_by(lambda: Peer(options, deadline), deadline)
    row('first start, s', f'{first.start_seconds:.1f}', '')
    row('start, s', f'{own_start:.1f}', f'{start:.1f}')
    row('resident then, own + mapped, MiB', own_ready, ready)
    row('after an answer', own_after, after)
    row('K and V of a token, llama.cpp, bytes', '', f'{kv:,.0f}')


def seconds_of(text):
    """Milliseconds of each line, as model_bench writes them."""
    return [float(each) / 1000 for each in re.findall(r'(?:sequences|tokens) at +\d+ +([\d.]+)',
                                                      text)]


def measure_speed(options, deadline):
    depth, threads = options.depth, str(options.threads)
    bench = [options.bin / 'model_bench', options.file]
    more = ['--kv', 'k16v16', '--repeats']
    decoded = deadline.run(*bench, 'decode', 'auto', threads, f'1x{ANSWER}', f'1x{depth}', *more,
                           '2')
    read = deadline.run(*bench, 'prefill', 'auto', threads, f'{NEW_TOKENS}x0',
                        f'{NEW_TOKENS}x{depth}', *more, '1')
    own = ([NEW_TOKENS / each for each in seconds_of(read)] +
           [1 / each for each in seconds_of(decoded)])
    found = json.loads(deadline.run(
        options.peer / 'llama-bench', '-m', options.file, '-t', threads, '-p', str(NEW_TOKENS),
        '-n', str(ANSWER), '-d', f'0,{depth}', '-r', '1', '-fa', '1', '-o', 'json'))
    theirs = {(each['n_prompt'] > 0, each['n_depth']): each['avg_ts'] for each in found}
    kinds = [(True, 0), (True, depth), (False, 0), (False, depth)]
    for (reads, at), mine in zip(kinds, own):
        row(f'{"reads 512 tokens" if reads else "decodes"} at {at}, tok/s', f'{mine:.1f}',
            f'{theirs[reads, at]:.1f}')
    row('K and V of a token, Semantic, bytes',
        re.search(r'KV (\d+) bytes a token', read).group(1), '')
    print(re.search(r'reads [\d.]+ GB/s', read).group(0), flush=True)


PARTS = {'start': measure_start, 'speed': measure_speed}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file')
    parser.add_argument('--parts', default='start,speed')
    parser.add_argument('--bin', type=pathlib.Path, default=pathlib.Path('build/bin'))
    parser.add_argument('--peer', type=pathlib.Path, default=pathlib.Path('/usr/local/bin'))
    parser.add_argument('--depth', type=int, default=4096)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--max-seconds', type=float, default=570)
    options = parser.parse_args()
    deadline = Deadline(options.max_seconds)
    print(f'{options.file}, {os.stat(options.file).st_size / MIB:,.0f} MiB, '
          f'load {os.getloadavg()[0]:.1f}', flush=True)
    row('', 'Semantic', 'llama.cpp')
    row(*['---'] * 3)
    try:
        for part in options.parts.split(','):
            PARTS[part](options, deadline)
    except TimeoutError as error:
        print(f'not measured further: {error}', flush=True)
        sys.exit(3)


if __name__ == '__main__':
    main()
