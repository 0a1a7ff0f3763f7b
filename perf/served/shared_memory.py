#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first token of a long agent at a node that has never seen it, by the way to the object store.

shared_memory.py MODEL [--store URL] [--tokens 16000] [--latency-ms 0,1,5,20,50]
                 [--mbit 0,1000,100] [--server build/bin/semantic-server] [--svg FILE]

One node reads a prompt of so many tokens, which is uploaded to the store (s3+http://HOST:PORT/…;
tests/conformance/object_store.py names one in CLUSTER_STORE), and goes on with the agent hot and,
behind kill -9 and a start, from its own disk. Then node after node without a cache directory goes
on with it, each over a link of its own latency and bandwidth (0: as fast as it is).
Then curl gets the same objects, one after the other and eight at once. Prints tables: milliseconds
to the first token, bytes fetched; draws first tokens by latency and bandwidth. Nothing but
127.0.0.1 is asked.
"""

import argparse
import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
import uuid

from own_server import Server
from slow_link import SlowLink

LINES = ('The tide comes in at {} and the boats of row {} leave the harbour. ',
         'In house {} they bake bread for table {}. ', 'Ship {} carries salt to port {}. ')
COLOURS = ['#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee']
OBJECTS_AT_ONCE = 8


def long_text(server, tokens):
    """Of about so many tokens, and of lines that differ."""
    def made(count):
        return ''.join(LINES[i % 3].format(i, 7 * i % 101) for i in range(count))

    sample = server.post('/v1/messages/count_tokens', {
        'model': 'any', 'messages': [{'role': 'user', 'content': made(300)}]})['input_tokens']
    return made(int(tokens / sample * 300))


def turn(server, messages, line):
    """Adds a line and its answer. Returns: ms to the first token, and the usage."""
    messages.append({'role': 'user', 'content': line})
    body = {'model': 'any', 'max_tokens': 8, 'temperature': 0, 'stream': True,
            'messages': messages}
    request = urllib.request.Request(
        server.url + '/v1/messages', json.dumps(body).encode(),
        {'content-type': 'application/json', 'x-session-id': 'harbour'})
    begin, first, text, usage = time.monotonic(), None, '', {}
    with urllib.request.urlopen(request, timeout=3600) as reply:
        for line in reply:
            if not line.startswith(b'data: '):
                continue
            event = json.loads(line[6:])
            usage.update(event.get('message', {}).get('usage', {}))
            if event['type'] == 'content_block_delta':
                first = first or time.monotonic() - begin
                text += event['delta'].get('text', '')
    messages.append({'role': 'assistant', 'content': text or '(nothing)'})
    return 1000 * (first or time.monotonic() - begin), usage


def metric(server, name):
    with urllib.request.urlopen(server.url + '/metrics', timeout=60) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(name + ' '):
                return float(line.split()[1])
    return 0.0


class Nodes:
    def __init__(self, options):
        self.options = options
        self.store = f'{options.store}/first-token-{uuid.uuid4().hex[:8]}'
        self.port = urllib.parse.urlparse(self.store).port

    def start(self, caches=None, port=None):
        url = self.store.replace(f':{self.port}/', f':{port or self.port}/')
        return Server(self.options.server, self.options.model,
                      ['--object-store', url, '--object-store-wait-ms', '120000',
                       '--context-tokens', str(2 * self.options.tokens),
                       '--cache-budget-mb', '4096', '--request-timeout-s', '3600'], caches)


def curl_seconds(urls, at_once):
    """Of curl, which signs as the AWS tools do and keeps connections."""
    with tempfile.NamedTemporaryFile('w', suffix='.curl') as config:
        for url in urls:
            config.write(f'url = "{url}"\noutput = "/dev/null"\n')
        config.flush()
        keys = f'{os.environ["AWS_ACCESS_KEY_ID"]}:{os.environ["AWS_SECRET_ACCESS_KEY"]}'
        command = ['curl', '-sSf', '--no-progress-meter', '--user', keys, '--aws-sigv4',
                   'aws:amz:us-east-1:s3', '-H', 'x-amz-content-sha256: UNSIGNED-PAYLOAD']
        if at_once > 1:
            command += ['--parallel', '--parallel-max', str(at_once)]
        begin = time.monotonic()
        subprocess.run([*command, '-K', config.name], check=True, timeout=600)
        return time.monotonic() - begin


def apart(places, least=14):
    """Moves labels, given by their heights, so far that none covers another."""
    moved = dict(places)
    names = sorted(moved, key=moved.get)
    for before, name in zip(names, names[1:]):
        moved[name] = max(moved[name], moved[before] + least)
    return moved


def draw(rows, options, levels, path):
    """`rows`: (Mbit/s, latency, ms). `levels`: [(name, ms)], lines across. Times in decades."""
    left, top, width, height = 70, 40, 520, 300
    latencies = sorted({row[1] for row in rows})
    times = [row[2] for row in rows] + [ms for _, ms in levels]
    least, most = math.log10(min(times)), math.log10(max(times))
    decades = range(math.floor(least), math.ceil(most) + 1)

    def x(latency):
        return left + width * latency / max(latencies[-1], 1)

    def y(ms):
        part = (math.log10(ms) - decades[0]) / (decades[-1] - decades[0])
        return top + height * (1 - part)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 190}" '
           f'height="{height + 90}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="20" font-size="14">First token of {options.tokens:,} tokens, ms, '
           'by the latency of the object store, ms</text>']
    for each in decades:
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y(10 ** each):.1f}" '
                   f'y2="{y(10 ** each):.1f}" stroke="#ddd"/><text x="{left - 8}" '
                   f'y="{y(10 ** each) + 4:.1f}" text-anchor="end">{10 ** each:,}</text>')
    for latency in latencies:
        out.append(f'<text x="{x(latency):.1f}" y="{top + height + 18}" text-anchor="middle">'
                   f'{latency:g}</text>')
    lines = {}  # name -> (points, style)
    for i, rate in enumerate(dict.fromkeys(row[0] for row in rows)):
        points = [(x(row[1]), y(row[2])) for row in rows if row[0] == rate]
        name = f'a cold node, {rate:g} Mbit/s' if rate else 'a cold node, unbounded'
        lines[name] = points, f'stroke="{COLOURS[i]}" stroke-width="2"', COLOURS[i]
    for name, ms in levels:
        across = [(left, y(ms)), (left + width, y(ms))]
        lines[f'{name}: {ms:,.0f}'] = across, 'stroke="#888" stroke-dasharray="4"', '#555'
    labels = apart({name: points[-1][1] for name, (points, _, _) in lines.items()})
    for name, (points, style, colour) in lines.items():
        line = ' '.join(f'{a:.1f},{b:.1f}' for a, b in points)
        out.append(f'<polyline points="{line}" fill="none" {style}/><text x="{left + width + 8}" '
                   f'y="{labels[name] + 4:.1f}" fill="{colour}">{name}</text>')
    pathlib.Path(path).write_text('\n'.join([*out, '</svg>']) + '\n')


def at_one_node(nodes, messages, caches):
    """Prints and returns [(name, ms)]: read anew, from its disk, hot."""
    server = nodes.start(caches)
    cold, usage = turn(server, messages, long_text(server, nodes.options.tokens))
    read = usage['input_tokens'] + usage['cache_creation_input_tokens']
    hot, _ = turn(server, messages, 'Which ship carries salt?')
    print(f'{read} tokens, {server.recipe()}; uploaded '
          f'{metric(server, "semantic_shared_uploaded_bytes_total") / 1e6:.1f} MB')
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server = nodes.start(caches)
    disk, usage = turn(server, messages, 'And to which port?')
    levels = [('read anew', cold), ("from the node's own disk", disk), ('hot', hot)]
    for name, ms in levels:
        print(f'| {name} | {ms:.0f} |')
    server.stop()
    return levels


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--store', default=os.environ.get('CLUSTER_STORE'))
    parser.add_argument('--tokens', type=int, default=16000)
    parser.add_argument('--latency-ms', default='0,1,5,20,50')
    parser.add_argument('--mbit', default='0,1000,100')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--svg')
    options = parser.parse_args()
    if not options.store:
        parser.error('no --store, and CLUSTER_STORE is not set')
    nodes, messages, rows = Nodes(options), [], []
    with tempfile.TemporaryDirectory() as folder:
        caches = folder + '/caches'
        print('| first token | ms |\n|---|---|')
        levels = at_one_node(nodes, messages, caches)
        print('\n| Mbit/s | latency, ms | first token, ms | fetched, MB | tokens read anew |\n'
              '|---|---|---|---|---|')
        for rate in map(float, options.mbit.split(',')):
            for latency in map(float, options.latency_ms.split(',')):
                link = SlowLink(nodes.port, latency / 1000, rate * 1e6 / 8)
                server = nodes.start(port=link.port)
                ms, usage = turn(server, messages, f'Tell me of row {len(messages)}.')
                fetched = metric(server, 'semantic_shared_fetched_bytes_total') / 1e6
                anew = usage['input_tokens'] + usage['cache_creation_input_tokens']
                rows.append((rate, latency, ms))
                print(f'| {rate or "-"} | {latency:g} | {ms:.0f} | {fetched:.1f} | {anew} |',
                      flush=True)
                server.stop()
                link.close()
        blocks = sorted(pathlib.Path(caches).glob('blocks/**/*'))
        blocks = [each for each in blocks if each.is_file()]
        size = sum(each.stat().st_size for each in blocks) / 1e6
        url = nodes.store.replace('s3+http', 'http')
        urls = [f'{url}/{each.relative_to(caches)}' for each in blocks]
        for at_once in (1, OBJECTS_AT_ONCE):
            took = curl_seconds(urls, at_once)
            print(f'curl, {at_once} at once: {len(urls)} objects, {size:.1f} MB in '
                  f'{1000 * took:.0f} ms, {size / took:.0f} MB/s')
    if options.svg:
        draw(rows, options, levels, options.svg)
    kept = all(row[2] < levels[0][1] for row in rows)
    print('faster than reading anew over every link' if kept else 'slower than reading anew')
    return 0 if kept else 1


if __name__ == '__main__':
    raise SystemExit(main())
