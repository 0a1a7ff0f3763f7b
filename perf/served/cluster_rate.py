#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What several nodes on one object store answer together, each with a core of its own.

cluster_rate.py MODEL [--agents 8] [--turns 4] [--tokens 48] [--server build/bin/semantic-server]

For one node, and for as many as there are cores, each on one of them: so many agents of each node
have a conversation of so many turns at once, every answer written to a directory that the nodes
share before it ends. Agents stay at their nodes, as nginx keeps them there. Prints, for each number
of nodes: tokens of answers a second and their ratio to one node's, turns a second, bytes and
objects uploaded a turn. More nodes than cores are for paper: this machine cannot give them cores.
Nothing but 127.0.0.1 is asked.
"""

import argparse
import concurrent.futures
import json
import os
import tempfile
import time
import urllib.request

from own_server import Server

LINES = ('Tell me of the harbour.', 'And of its boats?', 'Who sails them?', 'What do they carry?',
         'Where to?', 'When do they return?')


def converse(server, agent, turns, tokens):
    """Returns: tokens of all answers."""
    messages, made = [], 0
    for turn in range(turns):
        # Blocks of one text are one object, whose agents' they are.
        messages.append({'role': 'user', 'content': f'{agent}: {LINES[turn % len(LINES)]}'})
        body = {'model': 'any', 'max_tokens': tokens, 'temperature': 0, 'messages': messages}
        request = urllib.request.Request(
            server.url + '/v1/chat/completions', json.dumps(body).encode(),
            {'content-type': 'application/json', 'x-session-id': agent})
        with urllib.request.urlopen(request, timeout=3600) as reply:
            answer = json.load(reply)
        messages.append({'role': 'assistant',
                         'content': answer['choices'][0]['message']['content'] or '(nothing)'})
        made += answer['usage']['completion_tokens']
    return made


def uploaded(server):
    with urllib.request.urlopen(server.url + '/metrics', timeout=60) as reply:
        lines = [line.split() for line in reply.read().decode().splitlines()]
    found = {line[0]: float(line[1]) for line in lines if len(line) == 2}
    return (found['semantic_shared_uploaded_bytes_total'],
            found['semantic_shared_blocks_uploaded_total']
            + found['semantic_shared_agents_uploaded_total'])


def rate_of(nodes, options):
    """Returns: tokens a second, turns a second, bytes a turn, objects a turn."""
    with tempfile.TemporaryDirectory() as store:
        servers = [Server(options.server, options.model,
                          ['--object-store', f'dir:{store}', '--object-store-wait-ms', '60000',
                           '--max-batch', str(options.agents)], core=core)
                   for core in range(nodes)]
        for server in servers:
            converse(server, 'warm', 1, 4)
        before = [uploaded(server) for server in servers]
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(nodes * options.agents) as threads:
            asked = [threads.submit(converse, server, f'agent-{number}-{i}', options.turns,
                                    options.tokens)
                     for number, server in enumerate(servers) for i in range(options.agents)]
            made = sum(each.result() for each in asked)
        took = time.monotonic() - begin
        after = [uploaded(server) for server in servers]
        for server in servers:
            server.stop()
    turns = nodes * options.agents * options.turns
    size, objects = (sum(a[i] - b[i] for a, b in zip(after, before)) / turns for i in (0, 1))
    return made / took, turns / took, size, objects


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--agents', type=int, default=8)
    parser.add_argument('--turns', type=int, default=4)
    parser.add_argument('--tokens', type=int, default=48)
    parser.add_argument('--server', default='build/bin/semantic-server')
    options = parser.parse_args()
    print('| nodes | tokens/s | of one | turns/s | KB uploaded a turn | objects a turn |\n'
          '|---|---|---|---|---|---|')
    one = None
    for nodes in sorted({1, os.cpu_count()}):
        rate, turns, size, objects = rate_of(nodes, options)
        one = one or rate
        print(f'| {nodes} | {rate:.0f} | {rate / one:.2f} | {turns:.2f} | {size / 1000:.0f} | '
              f'{objects:.1f} |', flush=True)
    return 0


if __name__ == '__main__':
    raise SystemExit(main())
