#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an agent of sessions still knows: who told it what, and when; by way of remembering.

memory_recall.py MODEL [--recipes auto,16,k8v8,k4v4] [--facts 24] [--lines 2] [--top 3]

Max is a permanent agent of four sessions, at four hours. In each he is told facts by others, in
private ("The secret word of the brass key is mill."), among as many other lines as --lines says
for each, and takes a turn. Then every fact is asked for in three ways: who told him, what the word
is, at which hour he was told. Each question is answered greedily

- from memory: by a fork of Max, which reads the question alone, for each recipe of K and V;
- cold: the same lines are read anew as the text of a prompt, without any memory;
- by retrieval: BM25 over these lines, each with its hour; the --top best are in the prompt.

An answer is right when of all names (words, hours) it speaks of the right one first. Prints a
table: right answers in percent with a 95 % interval (Wilson), median time to the first token and
median tokens computed. Nothing but 127.0.0.1 is asked.
"""

import argparse
import collections
import json
import math
import random
import re
import statistics
import sys
import time
import urllib.request

from own_server import REQUEST_SECONDS, Server

NAMES = 'Ada Bob Cid Eve Fay'.split()
HOURS = 'nine ten eleven noon'.split()
THINGS = ('brass key;red lantern;old map;silver coin;blue rope;iron box;green bottle;wooden flute;'
          'copper bell;white shell;glass eye;leather bag;gold ring;black feather;stone cup;'
          'paper crown;wax candle;tin whistle;pearl button;bone comb;linen sail;oak barrel;'
          'clay pipe;steel hook').split(';')
WORDS = ('mill chapel harbour tower stable bakery library garden cellar attic bridge well orchard '
          'kitchen school forge inn market quarry barn lighthouse tunnel theatre palace').split()
CHATTER = ('The fog is thick today.;I slept badly.;Have you eaten?;The gulls are loud.;'
           'My boots are wet.;It will rain before long.;The tide is late.;I like this song.;'
           'Mind the step.;The soup was cold.;They have painted the door.;'
           'I must go soon.').split(';')
KINDS = ('who', 'what', 'when')

Fact = collections.namedtuple('Fact', 'hour sender thing word')


def facts(count, draw):
    things, secrets = draw.sample(THINGS, count), draw.sample(WORDS, count)
    return [Fact(HOURS[i * len(HOURS) // count], draw.choice(NAMES), things[i], secrets[i])
            for i in range(count)]


def said_at(hour, known, lines, draw):
    """What Max is told at that hour: pairs of who says it and what."""
    said = []
    for fact in known:
        if fact.hour != hour:
            continue
        said.append((fact.sender, f'The secret word of the {fact.thing} is {fact.word}.'))
        said += [(draw.choice(NAMES), draw.choice(CHATTER)) for _ in range(lines)]
    return said


def question(fact, kind):
    """The question, the right answer, and all that it could be."""
    if kind == 'who':
        return f'Who told you of the {fact.thing}? Answer with the name alone.', fact.sender, NAMES
    if kind == 'what':
        return f'What is the secret word of the {fact.thing}?', fact.word, WORDS
    return (f'At which hour were you told of the {fact.thing}: nine, ten, eleven or noon? '
            'Answer with the hour alone.', fact.hour, HOURS)


def is_right(answer, right, among):
    found = re.search(r'\b(' + '|'.join(among) + r')\b', answer, re.IGNORECASE)
    return found is not None and found.group().lower() == right.lower()


def words(text):
    return re.findall(r'[a-z]+', text.lower())


class Bm25:
    """Okapi BM25, k1 1.2, b 0.75."""

    def __init__(self, texts):
        self.texts = texts
        self.bags = [collections.Counter(words(text)) for text in texts]
        self.mean = sum(sum(bag.values()) for bag in self.bags) / len(texts)
        self.held = collections.Counter(word for bag in self.bags for word in bag)

    def score(self, bag, query):
        size = sum(bag.values())
        total = 0
        for word in query:
            held = self.held[word]
            rare = math.log(1 + (len(self.texts) - held + 0.5) / (held + 0.5))
            total += rare * bag[word] * 2.2 / (bag[word] + 1.2 * (0.25 + 0.75 * size / self.mean))
        return total

    def best(self, text, count):
        """In the order in which they were said."""
        query = words(text)
        ranked = sorted(range(len(self.texts)),
                        key=lambda i: -self.score(self.bags[i], query))[:count]
        return [self.texts[i] for i in sorted(ranked)]


def generate(server, agent, body):
    """The answer, seconds to its first token, tokens that were computed."""
    request = urllib.request.Request(
        f'{server.url}/v1/agents/{agent}/generate',
        json.dumps({**body, 'stream': True, 'temperature': 0, 'max_tokens': 16}).encode(),
        {'content-type': 'application/json'})
    begin, first, text, event, done = time.monotonic(), None, '', '', {}
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as reply:
        for line in reply:
            line = line.decode().rstrip('\n')
            if line.startswith('event: '):
                event = line[7:]
            elif line.startswith('data: '):
                data = json.loads(line[6:])
                if event == 'token':
                    first = first or time.monotonic() - begin
                    text += data['text']
                if event in ('start', 'done'):
                    done.update(data.get('semantic') or {})
                if event == 'error':
                    raise SystemExit(f'the server failed: {data}')
    return text, first or time.monotonic() - begin, done['computed_tokens']


def tell(server, told):
    """Max's sessions. Returns: the name of his memory."""
    names = [{'agent_id': name.lower(), 'display_name': name} for name in NAMES]
    someone = [{'agent_id': 'max', 'display_name': 'Max', 'lifecycle': 'permanent',
                'system_prompt': 'You remember who told you what, and when.'}]
    for hour, said in told:
        session = server.post('/v1/coordination/sessions', {
            'agents': someone + names, 'persistent_cache_prefix': 'recall',
            'initial_prompt': f'It is {hour}.'})['session_id']
        for sender, text in said:
            server.post(f'/v1/coordination/sessions/{session}/whisper', {
                'from_agent_id': sender.lower(), 'to_agent_id': 'max', 'content': text})
        turn = server.post(f'/v1/coordination/sessions/{session}/turn', {
            'agent_id': 'max', 'temperature': 0, 'max_tokens': 8})
    return turn['semantic']['agent']


def from_memory(server, agent):
    def ask(text):
        server.post(f'/v1/agents/{agent}/fork', {'agent_id': 'asked'})
        answer = generate(server, 'asked', {
            'append': True, 'messages': [{'role': 'user', 'content': text}]})
        server.delete('/v1/agents/asked')
        return answer
    return ask


def from_text(server, lines_for):
    """Each prompt begins with a number of its own, so that no memory has any of it."""
    count = iter(range(1_000_000))

    def ask(text):
        shown = '\n'.join(lines_for(text))
        answer = generate(server, 'reader', {'messages': [{'role': 'user', 'content':
            f'Note {next(count)}. You are Max. This was said to you:\n{shown}\n{text}'}]})
        server.delete('/v1/agents/reader')
        return answer
    return ask


def wilson(right, of):
    """Half the width of the 95 % interval, in percent."""
    z, share = 1.96, right / of
    return 100 * z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))


def row(name, recipe, known, ask):
    right, firsts, computed = collections.Counter(), [], []
    for fact in known:
        for kind in KINDS:
            text, expected, among = question(fact, kind)
            answer, first, tokens = ask(text)
            right[kind] += is_right(answer, expected, among)
            firsts.append(first * 1000)
            computed.append(tokens)
    all_of = len(known) * len(KINDS)
    total = sum(right.values())
    shares = ' | '.join(f'{100 * right[kind] / len(known):.0f}' for kind in KINDS)
    print(f'| {name} | {recipe} | {shares} | {100 * total / all_of:.0f} ± '
          f'{wilson(total, all_of):.0f} | {statistics.median(firsts):.0f} | '
          f'{statistics.median(computed):.0f} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--recipes', default='auto,16,k8v8,k4v4')
    parser.add_argument('--facts', type=int, default=24, choices=range(4, len(THINGS) + 1),
                        metavar='N')
    parser.add_argument('--lines', type=int, default=2)
    parser.add_argument('--top', type=int, default=3)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    known = facts(options.facts, draw)
    told = [(hour, said_at(hour, known, options.lines, draw)) for hour in HOURS]
    transcript, dated = [], []
    for hour, said in told:
        transcript += [f'It is {hour}.'] + [f'{who}, to you alone: {text}' for who, text in said]
        dated += [f'At {hour}, {who} to you alone: {text}' for who, text in said]
    index = Bm25(dated)
    print(f'{len(known)} facts in {len(dated)} lines, {3 * len(known)} questions\n')
    print('| from | K and V | who | what | when | right, % | first token, ms | computed |')
    print('|---|---|---|---|---|---|---|---|', flush=True)
    for recipe in options.recipes.split(','):
        server = Server(options.server, options.model,
                        [] if recipe == 'auto' else ['--kv-recipe', recipe])
        try:
            row('memory', server.recipe(), known, from_memory(server, tell(server, told)))
            if recipe == options.recipes.split(',')[0]:
                row('re-reading', server.recipe(), known, from_text(server, lambda _: transcript))
                row(f'BM25, {options.top} lines', server.recipe(), known,
                    from_text(server, lambda text: index.best(text, options.top)))
        finally:
            server.stop()


if __name__ == '__main__':
    sys.exit(main())
