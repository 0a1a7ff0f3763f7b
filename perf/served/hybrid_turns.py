#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a long conversation costs on a model with recurrent layers, beside llama.cpp's server on the
same file: its memory hot, read from disk, after kill -9, and read anew; how fast both read and
decode; and what a conversation of many turns writes.

hybrid_turns.py FILE.gguf [--parts own,peer,speed,writes] [--server build/bin/semantic-server]
                [--peer llama-server] [--tokens 8192] [--turns 43] [--rounds 1]
                [--recipe k5s-v4r-w16] [--max-seconds 600]

own:    one text of --tokens read anew, then further turns of it in each way, --rounds times
peer:   the same of llama.cpp: hot; after a restart with the slot's file read back; after a restart
speed:  both servers in turn: 512 new tokens, then an answer of 32 tokens, three times
writes: bytes of states and of all files that a turn writes, over --turns

Prints rows of a table: seconds to the first token, what was read of the prompt and what was known,
and the machine's load before each. Further turns bring some 20 new tokens. What --max-seconds
cuts off is not measured, said so, and the exit status is 3. A restart's time is in no first token.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from own_server import POLL_SECONDS, Server, free_port

SPEED_TOKENS, SPEED_ANSWER, SPEED_ROUNDS = 512, 32, 3
TURN_ANSWER = 8  # tokens: made models say nothing


class Deadline:
    """What is left of the whole run's time; SystemExit when nothing is."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError('--max-seconds are over')
        return seconds


class Asked:
    """One answer: seconds to the first token, tokens a second behind it, tokens of the prompt that
    were computed and that were known, the text."""

    def __init__(self, first, rate, computed, known, text):
        self.first, self.rate, self.text = first, rate, text
        self.computed, self.known = computed, known


def stream_events(url, body, headers, deadline):
    """Yields (seconds since before the request, event)."""
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {'content-type': 'application/json', **headers})
    begin = time.monotonic()
    with urllib.request.urlopen(request, timeout=deadline.left()) as stream:
        for line in stream:
            deadline.left()
            if line.startswith(b'data: {'):
                yield time.monotonic() - begin, json.loads(line[6:])


def rate_of(tokens, first, last):
    return (tokens - 1) / (last - first) if tokens > 1 and last > first else 0.0


class Own:
    name = 'Semantic'

    def __init__(self, options, deadline):
        self.options, self.deadline = options, deadline
        self.caches = tempfile.TemporaryDirectory()
        self.server = None
        self.start()

    def start(self):
        more = ['--kv-recipe', self.options.recipe, '--cache-budget-mb', '1024']
        self.server = Server(self.options.server, self.options.file, more, caches=self.caches.name)

    def ask(self, session, messages, tokens):
        body = {'model': 'any', 'stream': True, 'messages': messages, 'max_tokens': tokens,
                'temperature': 0, 'ignore_eos': True}
        first, last, text, usage = None, 0.0, '', {}
        for at, event in stream_events(self.server.url + '/v1/messages', body,
                                       {'x-session-id': session}, self.deadline):
            if event['type'] == 'content_block_delta':
                first, last = first or at, at
                text += event['delta'].get('text', '')
            usage |= event.get('message', {}).get('usage', {}) | event.get('usage', {})
        known = usage['cache_read_input_tokens']
        computed = usage['input_tokens'] + usage['cache_creation_input_tokens']
        return Asked(first, rate_of(usage['output_tokens'], first, last), computed, known, text)

    def evict(self):
        request = urllib.request.Request(self.server.url + '/v1/agents/sess_talk/evict',
                                         method='POST')
        urllib.request.urlopen(request, timeout=self.deadline.left()).read()

    def restart(self):
        self.server.process.kill()
        self.server.process.wait(60)
        self.start()

    def written(self):
        with urllib.request.urlopen(self.server.url + '/metrics',
                                    timeout=self.deadline.left()) as reply:
            lines = [line.rsplit(' ', 1) for line in reply.read().decode().splitlines()
                     if not line.startswith('#')]
        samples = {name: float(value) for name, value in lines}
        return (samples['semantic_store_state_written_bytes_total'],
                samples['semantic_store_written_bytes_total'])

    def stop(self):
        self.server.process.kill()
        self.server.stop()
        self.caches.cleanup()


class Peer:
    """llama.cpp's server with its defaults, but one slot and two threads."""
    name = 'llama.cpp'

    def __init__(self, options, deadline):
        self.options, self.deadline = options, deadline
        self.folder = tempfile.TemporaryDirectory()
        self.process = None
        self.start()

    def start(self):
        port = free_port()
        self.url = f'http://127.0.0.1:{port}'
        context = self.options.tokens + 2048
        self.log = open(pathlib.Path(self.folder.name) / 'log', 'a+')
        self.process = subprocess.Popen(
            [self.options.peer, '-m', self.options.file, '--host', '127.0.0.1', '--port', str(port),
             '-c', str(context), '-np', '1', '-t', str(os.cpu_count()),
             '--slot-save-path', self.folder.name],
            stdout=self.log, stderr=subprocess.STDOUT)
        while self.process.poll() is None:
            self.deadline.left()
            try:
                urllib.request.urlopen(self.url + '/health', timeout=5).read()
                return
            except OSError:
                time.sleep(POLL_SECONDS)
        self.log.seek(0)
        raise SystemExit(f'llama.cpp did not start: {self.log.read()[-2000:]}')

    def ask(self, _, messages, tokens):
        body = {'stream': True, 'messages': messages, 'max_tokens': tokens, 'temperature': 0,
                'ignore_eos': True, 'cache_prompt': True, 'timings_per_token': True}
        first, last, text, timings = None, 0.0, '', {}
        for at, event in stream_events(self.url + '/v1/chat/completions', body, {}, self.deadline):
            timings = event.get('timings', timings)
            for choice in event.get('choices', []):
                if choice['delta'].get('content') or choice['delta'].get('reasoning_content'):
                    first, last = first or at, at
                    text += choice['delta'].get('content') or ''
        return Asked(first, rate_of(timings['predicted_n'], first, last), timings['prompt_n'],
                     timings.get('cache_n', 0), text)

    def slot(self, action):
        request = urllib.request.Request(
            f'{self.url}/slots/0?action={action}', json.dumps({'filename': 'slot'}).encode(),
            {'content-type': 'application/json'})
        with urllib.request.urlopen(request, timeout=self.deadline.left()) as reply:
            return json.load(reply)

    def restart(self):
        self.process.kill()
        self.process.wait(60)
        self.log.close()
        self.start()

    def stop(self):
        self.process.kill()
        self.process.wait(60)
        self.log.close()
        self.folder.cleanup()


def long_text(tokens):
    """About so many tokens of the embedded tokenizer."""
    return ' '.join(f'On day {i} the gardener counted {i * 7 % 100} lamps.'
                    for i in range(tokens // 14))


def row(*cells):
    print('| ' + ' | '.join(str(cell) for cell in cells) + ' |', flush=True)


def told(server, way, session, messages, tokens=TURN_ANSWER):
    load = os.getloadavg()[0]
    answer = server.ask(session, messages, tokens)
    row(server.name, way, f'{answer.first:.3f}', answer.computed, answer.known,
        f'{answer.rate:.1f}', f'{load:.1f}')
    return answer


class Talk:
    """A long conversation, whose next turn is asked again and again."""

    def __init__(self, server, tokens):
        self.server = server
        self.messages = [{'role': 'user', 'content': long_text(tokens)}]
        self.turn('anew')

    def turn(self, way):
        answer = told(self.server, way, 'talk', self.messages)
        self.messages += [{'role': 'assistant', 'content': answer.text or '.'},
                          {'role': 'user', 'content': f'And on day {len(self.messages)}?'}]


def measure_own(options, deadline):
    server = Own(options, deadline)
    try:
        talk = Talk(server, options.tokens)
        for _ in range(options.rounds):
            talk.turn('hot')
            server.evict()
            talk.turn('from disk')
            server.restart()
            talk.turn('after kill -9')
    finally:
        server.stop()


def measure_peer(options, deadline):
    server = Peer(options, deadline)
    try:
        talk = Talk(server, options.tokens)
        for _ in range(options.rounds):
            talk.turn('hot')
            print(f'slot saved: {json.dumps(server.slot("save"))}', flush=True)
            server.restart()
            print(f'slot restored: {json.dumps(server.slot("restore"))}', flush=True)
            talk.turn('after a restart, slot read back')
        server.restart()
        talk.turn('after a restart')
    finally:
        server.stop()


def measure_speed(options, deadline):
    servers = []
    try:
        for kind in (Own, Peer):
            servers.append(kind(options, deadline))
        asked = {server.name: [] for server in servers}
        for i in range(SPEED_ROUNDS):
            for server in servers:
                text = f'{i}. {long_text(SPEED_TOKENS)}'
                asked[server.name].append(
                    told(server, f'{SPEED_TOKENS} new tokens', f'speed-{i}',
                         [{'role': 'user', 'content': text}], SPEED_ANSWER))
        for name, answers in asked.items():
            reads = statistics.median(each.computed / each.first for each in answers)
            decodes = statistics.median(each.rate for each in answers)
            print(f'{name}: reads {reads:.1f}, decodes {decodes:.2f} tokens a second', flush=True)
    finally:
        for server in servers:
            server.stop()


def measure_writes(options, deadline):
    server = Own(options, deadline)
    try:
        before = server.written()
        messages, tokens = [], 0
        for turn in range(options.turns):
            messages.append({'role': 'user', 'content': f'{turn}. {long_text(60)}'})
            answer = server.ask('turns', messages, TURN_ANSWER)
            messages.append({'role': 'assistant', 'content': answer.text or '.'})
            tokens = answer.computed + answer.known
        states, all_bytes = (now - then for now, then in zip(server.written(), before))
        print(f'{options.turns} turns, {tokens} tokens at the end: {states / 1e6:.1f} MB of states '
              f'and {(all_bytes - states) / 1e6:.1f} MB else were written; a turn '
              f'{states / options.turns / 1e6:.1f} and '
              f'{(all_bytes - states) / options.turns / 1e6:.2f} MB', flush=True)
    finally:
        server.stop()


PARTS = {'own': measure_own, 'peer': measure_peer, 'speed': measure_speed,
         'writes': measure_writes}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file')
    parser.add_argument('--parts', default='own,writes')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--peer', default='llama-server')
    parser.add_argument('--tokens', type=int, default=8192)
    parser.add_argument('--turns', type=int, default=43)
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--recipe', default='k5s-v4r-w16')
    parser.add_argument('--max-seconds', type=float, default=600)
    options = parser.parse_args()
    deadline = Deadline(options.max_seconds)
    row('server', 'way', 'first token, s', 'computed', 'known', 'decodes, tok/s', 'load')
    row(*['---'] * 7)
    try:
        for part in options.parts.split(','):
            PARTS[part](options, deadline)
    except TimeoutError as error:
        print(f'not measured further: {error}', flush=True)
        sys.exit(3)


if __name__ == '__main__':
    main()
