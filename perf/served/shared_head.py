#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sub-agents that start together on one head cost: is it read once, and when do they answer?

shared_head.py MODEL [--tokens 11000] [--agents 5] [--own 60] [--rounds 3] [--wire messages]

A round is one agent alone, then all of them at once, each with a head of --tokens that nobody has
seen before and a task of its own behind it; every agent streams an answer of eight tokens. A line
of the table: the first token of the one alone, the first of the first and of the last of those at
once, what the last is of the one alone; the processor time that all answers took, of the one's;
the prompt tokens that the server computed for all, and what these are of one head and the tasks.
The last round's agents are asked a second time with new tasks, when the head is remembered. On a
machine that others use too, processor time is what says something. Nothing but 127.0.0.1 is asked.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import threading
import time
import urllib.parse
import urllib.request

from own_server import REQUEST_SECONDS, Server

WORDS = 'harbour boat rope tide gull pier net storm lamp buoy crew deck mast sail wharf'.split()
ANSWER = 8
READ = 'semantic_tokens_prefilled_total'
WIRES = {'messages': '/v1/messages', 'chat': '/v1/chat/completions', 'responses': '/v1/responses'}


def prose(draw, words):
    return ' '.join(draw.choice(WORDS) for _ in range(words))


def body(wire, system, task):
    if wire == 'messages':
        return {'system': system, 'messages': [{'role': 'user', 'content': task}],
                'max_tokens': ANSWER}
    if wire == 'responses':
        return {'instructions': system, 'input': task, 'max_output_tokens': ANSWER}
    return {'messages': [{'role': 'system', 'content': system}, {'role': 'user', 'content': task}],
            'max_tokens': ANSWER}


def has_text(event):
    if event.get('type') in ('content_block_delta', 'response.output_text.delta'):
        return True
    return any(choice.get('delta', {}).get('content') for choice in event.get('choices', []))


def first_token_seconds(server, wire, system, task):
    """The whole answer is read; a request that fails ends the measurement."""
    url = urllib.parse.urlparse(server.url)
    link = http.client.HTTPConnection(url.hostname, url.port, timeout=REQUEST_SECONDS)
    said = {'model': 'any', 'stream': True, 'temperature': 0, **body(wire, system, task)}
    begin, first = time.monotonic(), None
    link.request('POST', WIRES[wire], json.dumps(said), {'content-type': 'application/json'})
    reply = link.getresponse()
    if reply.status != 200:
        raise SystemExit(f'{reply.status}: {reply.read()[:500]}')
    for line in reply:
        if first is None and line.startswith(b'data: {') and has_text(json.loads(line[6:])):
            first = time.monotonic() - begin
    link.close()
    return first if first is not None else time.monotonic() - begin


def tokens_read(server):
    with urllib.request.urlopen(server.url + '/metrics', timeout=60) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(READ):
                return float(line.split()[-1])
    raise SystemExit(f'the server has no {READ}')


def processor_seconds(server):
    with open(f'/proc/{server.process.pid}/stat') as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def at_once(server, wire, system, tasks):
    """(seconds to the first token of each, prompt tokens that were computed in all, processor
    seconds of all)"""
    times, before, used = [None] * len(tasks), tokens_read(server), processor_seconds(server)

    def ask(index):
        times[index] = first_token_seconds(server, wire, system, tasks[index])

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(tasks))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if None in times:
        raise SystemExit('an agent got no answer')
    return times, tokens_read(server) - before, processor_seconds(server) - used


def words_of(server, tokens, draw):
    """How many words of prose make so many tokens."""
    counted = server.post('/v1/messages/count_tokens', {
        'model': 'any', 'messages': [{'role': 'user', 'content': prose(draw, 1000)}]})
    return int(tokens * 1000 / counted['input_tokens'])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--tokens', type=int, default=11000)
    parser.add_argument('--agents', type=int, default=5)
    parser.add_argument('--own', type=int, default=60, help='tokens of a task')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--wire', choices=WIRES, default='messages')
    options = parser.parse_args()
    draw = random.Random(time.time_ns())
    server = Server(options.server, options.model, ['--request-timeout-s', str(REQUEST_SECONDS)])
    try:
        print(f'recipe {server.recipe()}, load {os.getloadavg()[0]:.1f}\n')
        words = words_of(server, options.tokens, draw)
        own = words_of(server, options.own, draw)
        print('| round | alone, s | first at once, s | last at once, s | last, of alone '
              '| processor time, of alone | computed alone | computed at once '
              '| of one head and the tasks | load |')
        print('|---|---|---|---|---|---|---|---|---|---|')
        shares, costs = [], []

        def tasks(count):
            return [f'You are agent {i}. {prose(draw, own)}' for i in range(count)]

        for number in range(1, options.rounds + 1):
            (alone,), one, cost = at_once(server, options.wire, prose(draw, words), tasks(1))
            head = prose(draw, words)
            times, read, used = at_once(server, options.wire, head, tasks(options.agents))
            least = one + (options.agents - 1) * options.own
            shares.append(max(times) / alone)
            costs.append(used / cost)
            print(f'| {number} | {alone:.2f} | {min(times):.2f} | {max(times):.2f} '
                  f'| {shares[-1]:.2f} | {costs[-1]:.2f} | {one:.0f} | {read:.0f} '
                  f'| {read / least:.3f} | {os.getloadavg()[0]:.1f} |', flush=True)
        times, read, used = at_once(server, options.wire, head, tasks(options.agents))
        print(f'| again | | {min(times):.2f} | {max(times):.2f} | {max(times) / alone:.2f} '
              f'| {used / cost:.2f} | | {read:.0f} | | {os.getloadavg()[0]:.1f} |')
        print(f'\nlast at once, of alone, median: {statistics.median(shares):.2f}; '
              f'processor time: {statistics.median(costs):.2f}')
    finally:
        server.stop()


if __name__ == '__main__':
    main()
