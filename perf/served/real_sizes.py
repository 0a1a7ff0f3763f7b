#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of 4 GB and more as a user meets them, beside llama.cpp's server on the same file: starts,
memory, reading and decoding at no depth and at a depth. Swaps are measured by model_swaps.py.

real_sizes.py FILE.gguf [--parts own,peer] [--server build/bin/semantic-server]
              [--peer llama-server] [--depth 4096] [--recipe RECIPE] [--access auto|map|read]
              [--cache DIR] [--max-seconds 600]

own:  a first start, which packs and calibrates, and a second one; with --cache, a folder of a
      former run, both are later starts
peer: the same of llama.cpp: one slot, all cores, flash attention, K and V of 16 bit

Each server reads some 512 new tokens in an empty conversation, then 32 tokens are decoded; then
the same on top of --depth tokens. Prints rows of a table, and the machine's load before each.
RAM is split into the process's own pages and pages of files. What --max-seconds cuts off is not
measured, said so, and the exit status is 3.
"""

import argparse
import os
import pathlib
import re
import sys
import time

from hybrid_turns import Asked, Deadline, Own, Peer, long_text, row
from own_server import Server

NEW_TOKENS, ANSWER = 512, 32


class OwnOfSize(Own):
    """Two starts on one cache directory."""

    def __init__(self, options, deadline):
        self.cache = options.cache
        super().__init__(options, deadline)

    def start(self):
        more = ['--cache-budget-mb', '1024', '--context-tokens', str(self.options.depth + 4096),
                '--weights-access', self.options.access]
        if self.options.recipe:
            more += ['--kv-recipe', self.options.recipe]
        self.server = Server(self.options.server, self.options.file, more,
                             caches=self.cache or self.caches.name)
        self.process = self.server.process

    def seconds(self):
        return self.server.start_seconds


class PeerOfSize(Peer):
    def start(self):
        begin = time.monotonic()
        super().start()
        self.start_seconds = time.monotonic() - begin

    def seconds(self):
        return self.start_seconds


def memory(pid):
    """MiB: of the process's own pages, of pages of files."""
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    own, files = (int(re.search(rf'{name}:\s+(\d+)', text)[1]) // 1024
                  for name in ('RssAnon', 'RssFile'))
    return f'{own:,} + {files:,}'


def told_start(server, way):
    row(server.name, way, f'{server.seconds():.2f} s', memory(server.process.pid), '',
        f'{os.getloadavg()[0]:.1f}')


def told_turn(server, way, session, messages):
    load = os.getloadavg()[0]
    answer: Asked = server.ask(session, messages, ANSWER)
    row(server.name, way, f'reads {answer.computed / answer.first:.1f} tok/s of {answer.computed}',
        f'decodes {answer.rate:.2f} tok/s', memory(server.process.pid), f'{load:.1f}')
    return answer


def measure_speed(server, depth):
    told_turn(server, 'at no depth', 'shallow',
              [{'role': 'user', 'content': f'0. {long_text(NEW_TOKENS)}'}])
    messages = [{'role': 'user', 'content': long_text(depth)}]
    first = told_turn(server, f'{depth} tokens', 'deep', messages)
    messages += [{'role': 'assistant', 'content': first.text or '.'},
                 {'role': 'user', 'content': f'1. {long_text(NEW_TOKENS)}'}]
    told_turn(server, f'on top of {depth}', 'deep', messages)


def measure_own(options, deadline):
    server = OwnOfSize(options, deadline)
    try:
        told_start(server, 'first start')
        server.restart()
        told_start(server, 'second start')
        row(server.name, 'K and V', server.server.recipe(), '', '', '')
        measure_speed(server, options.depth)
    finally:
        server.stop()


def measure_peer(options, deadline):
    server = PeerOfSize(options, deadline)
    try:
        told_start(server, 'first start')
        server.restart()
        told_start(server, 'second start')
        measure_speed(server, options.depth)
    finally:
        server.stop()


PARTS = {'own': measure_own, 'peer': measure_peer}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file')
    parser.add_argument('--parts', default='own')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--peer', default='llama-server')
    parser.add_argument('--depth', type=int, default=4096)
    parser.add_argument('--recipe', default='')
    parser.add_argument('--access', default='auto')
    parser.add_argument('--cache', default='')
    parser.add_argument('--max-seconds', type=float, default=600)
    options = parser.parse_args()
    options.tokens = options.depth + 2048  # of the peer's context, with what it adds itself
    deadline = Deadline(options.max_seconds)
    row('server', 'way', 'time or reading', 'MiB or decoding', 'MiB', 'load')
    row(*['---'] * 6)
    try:
        for part in options.parts.split(','):
            PARTS[part](options, deadline)
    except TimeoutError as error:
        print(f'not measured further: {error}', flush=True)
        sys.exit(3)


if __name__ == '__main__':
    main()
