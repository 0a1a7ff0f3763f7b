#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What forms of K and V cost a model that has to remember: facts told at 2K to 8K tokens.

kv_recall.py MODEL TEXT [--recipes 16,auto,k4v4] [--contexts 2048,4096,8192] [--questions 40]

For each recipe the server is started on the model (a GGUF file, a folder or a name), and an agent
is told prose of TEXT with as many numbers in it, at even distances, as there are questions. Every
question goes to a fork of that agent, greedily. An answer is right when its first number is the
one that was told. Prints a table in percent, with a 95 % interval (Wilson) a cell. `auto` is the
measured default. Nothing but 127.0.0.1 is asked.
"""

import argparse
import json
import math
import pathlib
import random
import re
import sys

from own_server import Server

ANIMALS = ('badger beaver camel cheetah cobra crane dolphin donkey eagle falcon ferret gecko '
           'giraffe goose hamster heron jackal koala leopard lizard lobster magpie ostrich '
           'otter panther parrot pelican penguin rabbit raven salmon seal spider squirrel '
           'tiger turtle walrus weasel whale zebra').split()


def facts(count, seed):
    """Returns: pairs of an animal and its number."""
    draw = random.Random(seed)
    return list(zip(draw.sample(ANIMALS, count), draw.sample(range(1000, 10000), count)))


def telling(paragraphs, known):
    """The prose, with the facts at even distances."""
    lines = list(paragraphs)
    for i, (animal, number) in reversed(list(enumerate(known))):
        lines.insert(int((i + 0.5) * len(paragraphs) / len(known)),
                     f'NOTE: the secret number of the {animal} is {number}.')
    return ('Read this text. It holds notes about secret numbers, which I will ask for later.\n\n' +
            '\n\n'.join(lines) + '\n\nSay only: I have read it.')


def tokens_of(server, text):
    return server.post('/v1/messages/count_tokens', {
        'model': 'any', 'messages': [{'role': 'user', 'content': text}]})['input_tokens']


def tell(server, tokens, paragraphs, known):
    """Tells the agent as much of the prose as makes `tokens` with the facts."""
    few, many = 0, len(paragraphs)
    while many - few > 1:
        middle = (few + many) // 2
        if tokens_of(server, telling(paragraphs[:middle], known)) <= tokens:
            few = middle
        else:
            many = middle
    server.post('/v1/agents/told/generate', {
        'messages': [{'role': 'user', 'content': telling(paragraphs[:few], known)}],
        'max_tokens': 8, 'temperature': 0})


def ask(server, question):
    server.post('/v1/agents/told/fork', {'agent_id': 'asked'})
    answer = server.post('/v1/agents/asked/generate', {
        'append': True, 'max_tokens': 24, 'temperature': 0,
        'messages': [{'role': 'user', 'content': question}]})
    server.delete('/v1/agents/asked')
    return answer['text']


def rights(server, tokens, paragraphs, known):
    tell(server, tokens, paragraphs, known)
    right = 0
    for animal, number in known:
        text = ask(server, f'What is the secret number of the {animal}? Answer with the number.')
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
    parser.add_argument('text')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--recipes', default='16,auto,k4v4')
    parser.add_argument('--contexts', default='2048,4096,8192')
    parser.add_argument('--questions', type=int, default=40, choices=range(1, len(ANIMALS) + 1),
                        metavar='N')
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    prose = pathlib.Path(options.text).read_text(encoding='utf-8')
    paragraphs = [' '.join(each.split()) for each in prose[:80000].split('\n\n') if each.strip()]
    known = facts(options.questions, options.seed)
    contexts = [int(each) for each in options.contexts.split(',')]
    print('| K and V |' + ''.join(f' {each} tokens |' for each in contexts))
    print('|---|' + '---|' * len(contexts), flush=True)
    for recipe in options.recipes.split(','):
        server = Server(options.server, options.model,
                        [] if recipe == 'auto' else ['--kv-recipe', recipe])
        try:
            cells = []
            for tokens in contexts:
                right = rights(server, tokens, paragraphs, known)
                cells.append(f'{100 * right / options.questions:.0f} ± '
                             f'{wilson(right, options.questions):.0f}')
                print(f'{recipe} at {tokens}: {right} of {options.questions}', file=sys.stderr,
                      flush=True)
            print(f'| {server.recipe()} | ' + ' | '.join(cells) + ' |', flush=True)
        finally:
            server.stop()


if __name__ == '__main__':
    main()
