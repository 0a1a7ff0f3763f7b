#!/usr/bin/env python3
"""What forms of K and V cost a model that has to remember: facts told at 2K to 8K tokens.

kv_recall.py MODEL [--recipes 16,auto,k4v4] [--contexts 2048,4096,8192] [--questions 30]

For each recipe the server is started on the model (a GGUF file, a folder or a name), an agent is
told a context of facts of one form, so that each is a distractor of the others, and every question
goes to a fork of that agent, greedily. An answer is right when its first number is the one that
was told. Prints a table in percent, with a 95 % interval (Wilson) a cell. `auto` is the measured
default. Nothing but 127.0.0.1 is asked.
"""

import argparse
import json
import math
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOMS = ('Larch Maple Birch Cedar Hazel Rowan Alder Aspen Linden Willow Juniper Spruce Poplar Elder '
         'Holly Myrtle Laurel Walnut Chestnut Sycamore Amber Coral Jasper Onyx Opal Pearl Quartz Ruby '
         'Topaz Garnet').split()
THINGS = ('pump valve boiler filter heater cooler sensor motor drill press mixer oven scale lamp fan '
          'lift gate crane belt saw').split()
START_SECONDS = 180
REQUEST_SECONDS = 600


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Server:
    """A server of its own, with a cache directory that goes with it."""

    def __init__(self, program, model, recipe):
        self.folder = tempfile.TemporaryDirectory()
        self.url = f'http://127.0.0.1:{free_port()}'
        options = [] if recipe == 'auto' else ['--kv-recipe', recipe]
        self.log = open(pathlib.Path(self.folder.name) / 'log', 'w+')
        self.process = subprocess.Popen(
            [program, '--model', model, '--port', self.url.rsplit(':', 1)[1], '--cache-dir',
             self.folder.name + '/caches', *options], stdout=self.log, stderr=subprocess.STDOUT)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(self.url + '/health/ready', timeout=5).read()
                return
            except OSError:
                time.sleep(0.2)
        self.log.seek(0)
        raise SystemExit(f'the server did not start: {self.log.read()[-2000:]}')

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
        self.folder.cleanup()


def facts(seed):
    """All pairs of a room and a thing, in a random order, each with a number of its own."""
    draw = random.Random(seed)
    pairs = [(room, thing) for room in ROOMS for thing in THINGS]
    draw.shuffle(pairs)
    numbers = draw.sample(range(1000, 10000), len(pairs))
    return [(room, thing, number) for (room, thing), number in zip(pairs, numbers)]


def telling(some):
    lines = [f'The {thing} in room {room} has the number {number}.' for room, thing, number in some]
    return ('Here is the inventory of a house. I will ask about it later.\n\n' + '\n'.join(lines) +
            '\n\nSay only: I have read it.')


def told_agent(server, tokens, known):
    """Tells as many facts as fit into `tokens`. Returns: their number."""
    draft = server.post('/v1/messages/count_tokens', {
        'model': 'any', 'messages': [{'role': 'user', 'content': telling(known[:50])}]})
    count = min(len(known), int(tokens / (draft['input_tokens'] / 50)))
    server.post('/v1/agents/told/generate', {
        'messages': [{'role': 'user', 'content': telling(known[:count])}], 'max_tokens': 8,
        'temperature': 0})
    return count


def ask(server, question):
    server.post('/v1/agents/told/fork', {'agent_id': 'asked'})
    answer = server.post('/v1/agents/asked/generate', {
        'append': True, 'max_tokens': 24, 'temperature': 0,
        'messages': [{'role': 'user', 'content': question}]})
    server.delete('/v1/agents/asked')
    return answer['text']


def rights(server, tokens, questions, seed):
    known = facts(seed)
    count = told_agent(server, tokens, known)
    asked = [known[int((i + 0.5) * count / questions)] for i in range(questions)]
    right = 0
    for room, thing, number in asked:
        text = ask(server, f'Which number has the {thing} in room {room}? Answer with the number.')
        found = re.search(r'\d{3,}', text)
        right += found is not None and int(found.group()) == number
    server.delete('/v1/agents/told')
    return right


def wilson(right, of):
    """Half the width of the 95 % interval, in percent."""
    z = 1.96
    share = right / of
    return 100 * z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--recipes', default='16,auto,k4v4')
    parser.add_argument('--contexts', default='2048,4096,8192')
    parser.add_argument('--questions', type=int, default=30)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    contexts = [int(each) for each in options.contexts.split(',')]
    print('| K and V |' + ''.join(f' {each} tokens |' for each in contexts))
    print('|---|' + '---|' * len(contexts), flush=True)
    for recipe in options.recipes.split(','):
        server = Server(options.server, options.model, recipe)
        try:
            cells = []
            for tokens in contexts:
                right = rights(server, tokens, options.questions, options.seed)
                cells.append(f'{100 * right / options.questions:.0f} ± '
                             f'{wilson(right, options.questions):.0f}')
                print(f'{recipe} at {tokens}: {right} of {options.questions}', file=sys.stderr,
                      flush=True)
            print(f'| {server.recipe()} | ' + ' | '.join(cells) + ' |', flush=True)
        finally:
            server.stop()


if __name__ == '__main__':
    main()
