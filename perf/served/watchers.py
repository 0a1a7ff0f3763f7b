#!/usr/bin/env python3
"""What dashboards cost the streams beside them.

watchers.py MODEL [--server build/bin/semantic-server] [--streams 16] [--rounds 6] [--seconds 6]

Streams that do not end decode all the time. Rounds of nobody watching, a hundred WebSockets that
are read, and a hundred of which fifty are not, come in turn. A line of the table: the median of a
round's tokens a second, and of the processor time that the server's process took for a token; both
also as a share of nobody's in the same turn, median. On a machine that others use too, the second
is the one to believe. Nothing but 127.0.0.1 is asked.
"""

import argparse
import base64
import json
import os
import selectors
import socket
import statistics
import threading
import time
import urllib.parse
import urllib.request

from own_server import Server

WATCHERS = 100


def address_of(server):
    url = urllib.parse.urlparse(server.url)
    return url.hostname, url.port


class Watchers:
    """Open connections to /ws; the first `read` of them are read, and what comes is thrown away."""

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
        with selectors.DefaultSelector() as ready:
            for one in sockets:
                ready.register(one, selectors.EVENT_READ)
            while not self.over:
                for key, _ in ready.select(timeout=0.2) if sockets else []:
                    self.bytes += len(key.fileobj.recv(1 << 16))
                time.sleep(0.05)

    def close(self):
        self.over = True
        self.thread.join()
        for one in self.sockets:
            one.close()


def begin_streams(server, count):
    """Answers that go on for as long as the measurement. Their bytes wait in a buffer and are
    thrown away now and then, so that the client takes next to nothing of the machine."""
    host, port = address_of(server)
    streams = []
    for i in range(count):
        body = json.dumps({'messages': [{'role': 'user', 'content': f'Write, number {i}.'}],
                           'stream': True, 'ignore_eos': True, 'max_tokens': 1000000}).encode()
        one = socket.create_connection((host, port))
        one.sendall(f'POST /v1/agents/stream-{i}/generate HTTP/1.1\r\nhost: {host}:{port}\r\n'
                    f'content-length: {len(body)}\r\n\r\n'.encode() + body)
        one.setblocking(False)
        streams.append(one)

    def drain():
        while True:
            for one in streams:
                try:
                    while one.recv(1 << 20):
                        pass
                except BlockingIOError:
                    pass
                except OSError:
                    return
            time.sleep(0.1)
    threading.Thread(target=drain, daemon=True).start()
    return streams


def tokens_decoded(server):
    with urllib.request.urlopen(server.url + '/metrics', timeout=30) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith('semantic_tokens_decoded_total'):
                return float(line.split()[-1])
    raise SystemExit('the server counts no tokens')


def processor_seconds(server):
    with open(f'/proc/{server.process.pid}/stat') as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def measure(server, seconds):
    tokens, used, begun = tokens_decoded(server), processor_seconds(server), time.monotonic()
    time.sleep(seconds)
    made = tokens_decoded(server) - tokens
    return made / (time.monotonic() - begun), 1e6 * (processor_seconds(server) - used) / made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--streams', type=int, default=16)
    parser.add_argument('--rounds', type=int, default=6)
    parser.add_argument('--seconds', type=float, default=6)
    how = parser.parse_args()
    server = Server(how.server, how.model, ['--max-batch', str(how.streams)])
    streams = begin_streams(server, how.streams)
    time.sleep(3)
    found = {'nobody': [], '100 read': [], '50 read, 50 not': []}
    for _ in range(how.rounds):
        for name, watchers, read in (('nobody', 0, 0), ('100 read', WATCHERS, WATCHERS),
                                     ('50 read, 50 not', WATCHERS, WATCHERS // 2)):
            watching = Watchers(server, watchers, read)
            time.sleep(0.5)
            found[name].append(measure(server, how.seconds))
            watching.close()
    print('| who watches | tokens/s | of nobody, % | µs of processor a token | of nobody, % |')
    print('|---|---|---|---|---|')
    for name, rounds in found.items():
        rate, cost = ([one[k] for one in rounds] for k in (0, 1))
        shares = [statistics.median(100 * one[k] / alone[k]
                                    for one, alone in zip(rounds, found['nobody']))
                  for k in (0, 1)]
        print(f'| {name} | {statistics.median(rate):.0f} | {shares[0]:.1f} | '
              f'{statistics.median(cost):.0f} | {shares[1]:.1f} |')
    for one in streams:
        one.close()
    server.stop()


if __name__ == '__main__':
    main()
