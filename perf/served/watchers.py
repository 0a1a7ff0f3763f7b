#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What dashboards cost the streams beside them.

watchers.py MODEL [--server build/bin/semantic-server] [--streams 16] [--blocks 12] [--seconds 3]

Streams decode all the time. Nobody watching, a hundred WebSockets that are read, and a hundred of
which fifty are not, come in turn and then in turn backwards, each six blocks in all six orders, so
that contexts that grow and a machine that changes touch all alike; the streams of a block are new.
A line of the table: tokens a second, processor time that the server took for a token, and what its
threads beside the two that compute took for a second, medians of the blocks; then what of nobody's
in the same block the first two are, geometric mean and standard error. What the machine itself and
the readers lose is in the tokens a second alone; on a machine that others use too, it is the other
two that say something. Nothing but 127.0.0.1 is asked.
"""

import argparse
import base64
import itertools
import json
import math
import os
import select
import socket
import statistics
import threading
import time
import urllib.parse
import urllib.request

from own_server import Server

# How many, and how many of them are read.
WATCHING = {'nobody': (0, 0), '100 read': (100, 100), '50 read, 50 not': (100, 50)}
COMPUTING = 2  # threads


def address_of(server):
    url = urllib.parse.urlparse(server.url)
    return url.hostname, url.port


class Watchers:
    """Open connections to /ws; the first `read` of them are read. What comes is thrown away where
    it lies, ten times a second, so that readers take next to nothing of the machine."""

    def __init__(self, server, count, read):
        host, port = address_of(server)
        self.sockets = [socket.create_connection((host, port)) for _ in range(count)]
        for one in self.sockets:
            key = base64.b64encode(os.urandom(16)).decode()
            one.sendall(f'GET /ws HTTP/1.1\r\nhost: {host}:{port}\r\nupgrade: websocket\r\n'
                        f'connection: upgrade\r\nsec-websocket-version: 13\r\n'
                        f'sec-websocket-key: {key}\r\nsec-websocket-protocol: semantic.v1\r\n\r\n'
                        .encode())
            assert one.recv(12) == b'HTTP/1.1 101', 'the server did not switch'
        self.bytes = 0
        self.over = False
        self.thread = threading.Thread(target=self.drain, args=(self.sockets[:read],))
        self.thread.start()

    def drain(self, sockets):
        for one in sockets:
            one.setblocking(False)
        room = bytearray(1 << 20)
        with select.epoll() as ready:
            of = {one.fileno(): one for one in sockets}
            for number in of:
                ready.register(number, select.EPOLLIN)
            while not self.over:
                for number, _ in ready.poll(timeout=0) if of else []:
                    self.bytes += of[number].recv_into(room, len(room), socket.MSG_TRUNC)
                time.sleep(0.1)

    def close(self):
        self.over = True
        self.thread.join()
        for one in self.sockets:
            one.close()


class Streams:
    """Answers that go on for as long as the measurement. Their bytes are thrown away now and then,
    so that the client takes next to nothing of the machine."""

    def __init__(self, server, count):
        host, port = address_of(server)
        self.sockets = []
        for i in range(count):
            body = json.dumps({'messages': [{'role': 'user', 'content': f'Write, number {i}.'}],
                               'stream': True, 'ignore_eos': True, 'max_tokens': 100000}).encode()
            one = socket.create_connection((host, port))
            one.sendall(f'POST /v1/agents/stream-{i}/generate HTTP/1.1\r\nhost: {host}:{port}\r\n'
                        f'content-length: {len(body)}\r\n\r\n'.encode() + body)
            one.setblocking(False)
            self.sockets.append(one)
        self.over = False
        self.ended = 0
        self.thread = threading.Thread(target=self.drain)
        self.thread.start()

    def drain(self):
        room = bytearray(1 << 20)
        while not self.over:
            for one in self.sockets:
                try:
                    if one.recv_into(room, len(room), socket.MSG_TRUNC) == 0:
                        self.ended += 1
                except BlockingIOError:
                    pass
            time.sleep(0.1)

    def close(self):
        self.over = True
        self.thread.join()
        for one in self.sockets:
            one.close()
        if self.ended:
            raise SystemExit('streams ended while they were measured: take fewer seconds')


def sample(server, name):
    with urllib.request.urlopen(server.url + '/metrics', timeout=30) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(name):
                return float(line.split()[-1])
    raise SystemExit(f'the server has no {name}')


def tokens_decoded(server):
    return sample(server, 'semantic_tokens_decoded_total')


def running(server):
    return sample(server, 'semantic_sequences_running')


def processor_seconds(server):
    """Of each thread."""
    used = {}
    for thread in os.listdir(f'/proc/{server.process.pid}/task'):
        try:
            with open(f'/proc/{server.process.pid}/task/{thread}/schedstat') as stat:
                used[thread] = int(stat.read().split()[0]) / 1e9
        except OSError:
            pass  # it has just ended
    return used


def measure(server, seconds):
    tokens, before, begun = tokens_decoded(server), processor_seconds(server), time.monotonic()
    time.sleep(seconds)
    made = tokens_decoded(server) - tokens
    after, took = processor_seconds(server), time.monotonic() - begun
    used = sorted(after[thread] - before.get(thread, 0) for thread in after)
    return made, took, sum(used), sum(used[:-COMPUTING])


def block(server, how, order):
    """{who watches: (tokens/s, processor µs a token, ms a second beside what computes)}"""
    streams = Streams(server, how.streams)
    time.sleep(2)
    sums = {name: [0, 0, 0, 0] for name in WATCHING}
    for name in [*order, *reversed(order)]:
        watching = Watchers(server, *WATCHING[name])
        time.sleep(0.5)
        found = measure(server, how.seconds)
        watching.close()
        sums[name] = [a + b for a, b in zip(sums[name], found)]
    streams.close()
    while running(server):
        time.sleep(0.05)
    return {name: (made / took, 1e6 * used / made, 1e3 * beside / took)
            for name, (made, took, used, beside) in sums.items()}


def of_nobody(ratios):
    """In percent, with its standard error."""
    logs = [math.log(each) for each in ratios]
    mean = 100 * math.exp(statistics.mean(logs))
    return f'{mean:.2f} ± {mean * statistics.stdev(logs) / math.sqrt(len(logs)):.2f}'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--streams', type=int, default=16)
    parser.add_argument('--blocks', type=int, default=12)
    parser.add_argument('--seconds', type=float, default=3)
    how = parser.parse_args()
    server = Server(how.server, how.model, ['--max-batch', str(how.streams)])
    orders = list(itertools.permutations(WATCHING))
    blocks = [block(server, how, orders[i % len(orders)]) for i in range(how.blocks)]
    print(f'load average at the end: {os.getloadavg()[1]:.1f}\n')
    print('| who watches | tokens/s | µs of processor a token | ms/s beside computing '
          '| tokens/s, % of nobody | µs a token, % of nobody |')
    print('|---|---|---|---|---|---|')
    for name in WATCHING:
        rate, cost, beside = (statistics.median(one[name][k] for one in blocks) for k in range(3))
        shares = [of_nobody([one[name][k] / one['nobody'][k] for one in blocks]) for k in range(2)]
        print(f'| {name} | {rate:.0f} | {cost:.0f} | {beside:.1f} | {shares[0]} | {shares[1]} |')
    server.stop()


if __name__ == '__main__':
    main()
