#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published models on one server, asked in turn as a coding agent asks: Messages with a long system
prompt and tools, every answer a turn of a conversation that goes on.

model_swaps.py FILE.gguf FILE.gguf [...] [--server build/bin/semantic-server] [--rounds 5]
               [--system-tokens 1500]

Each round asks every model for the next turn of its own conversation, so that every request has
its model loaded (--auto-swap). A swap's time is from the log: from the first phase behind the
drain to ready, beside reading the model's file once into memory. Prints seconds: of each model the
cold first turn, and medians of the later ones: swap, reading, whole request, tokens remembered.

Exit status: 0 every turn after the first was remembered and the median swap takes at most 1.5 times
the reading; 1 otherwise.
"""

import argparse
import json
import pathlib
import re
import statistics
import time
import urllib.request

from load_time import seconds_to_read
from own_server import Server

BOUND = 1.5
SESSION = 'x-claude-code-session-id'
TOOLS = [
    {'name': name, 'description': f'{what} Use absolute paths, and never a path that was not seen.',
     'input_schema': {'type': 'object', 'properties': {
         'path': {'type': 'string', 'description': 'an absolute path'},
         'text': {'type': 'string', 'description': 'what is looked for, or written'}},
         'required': ['path']}}
    for name, what in (('Read', 'Reads a file.'), ('Write', 'Writes a file.'),
                       ('Grep', 'Looks for a text in files.'), ('Bash', 'Runs a command.'))]
RULES = ('You are a coding agent at a terminal. Answer in one line unless you are asked for more. '
         'Read a file before you change it. Say what you did, and what you did not do. ')
TURNS = ('The project is a parser in C++. What would you look at first?',
         'Which file is that most likely in?', 'And its tests?', 'What would break first?',
         'Name one improvement.', 'Is there a risk in it?', 'Sum it up in a line.', 'Thank you.')


def ask(server, model, messages, system):
    body = {'model': model, 'max_tokens': 24, 'temperature': 0, 'system': system,
            'messages': messages, 'tools': TOOLS}
    request = urllib.request.Request(
        server.url + '/v1/messages', json.dumps(body).encode(),
        {'content-type': 'application/json', 'anthropic-version': '2023-06-01',
         SESSION: 'session-of-' + model})
    begin = time.monotonic()
    with urllib.request.urlopen(request, timeout=3600) as reply:
        answer = json.load(reply)
    return answer, time.monotonic() - begin


def seconds_of(stamp):
    hours, minutes, rest = stamp.split(':')
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def swaps_of(log):
    """(model, seconds without the drain) of every exchange that the log tells."""
    found, begun = [], None
    for line in log.splitlines():
        stamp = re.search(r'\d\d:\d\d:\d\d\.\d+', line)
        phase = re.search(r'model change: (\w+)(?: ([^,:\s]+))?', line)
        if not stamp or not phase:
            continue
        if phase[1] == 'saving':
            begun = seconds_of(stamp[0])
        elif phase[1] == 'ready' and begun is not None:
            found.append((phase[2], (seconds_of(stamp[0]) - begun) % 86400))
            begun = None
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('files', nargs='+')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--system-tokens', type=int, default=1500)
    options = parser.parse_args()
    names = {pathlib.Path(file).stem: file for file in options.files}
    folder = {str(pathlib.Path(file).resolve().parent) for file in options.files}.pop()
    system = RULES * (options.system_tokens // 40)
    server = Server(options.server, options.files[0],
                    ['--models-dir', folder, '--auto-swap', 'on', '--kv-recipe', 'k8v8',
                     '--context-tokens', '8192', '--cache-budget-mb', '1024'])
    spoken = {name: [] for name in names}
    cold, missed = {}, 0
    warm, remembered, read = ({name: [] for name in names} for _ in range(3))
    for round_number in range(options.rounds + 1):
        for name in names:
            spoken[name].append({'role': 'user', 'content': TURNS[round_number % len(TURNS)]})
            answer, took = ask(server, name, spoken[name], system)
            text = ''.join(part.get('text', '') for part in answer['content'])
            spoken[name].append({'role': 'assistant', 'content': text or '(nothing)'})
            reused = answer['usage']['cache_read_input_tokens']
            if round_number == 0:
                cold[name] = took
                continue
            warm[name].append(took)
            # In the same minute: what else the machine does slows both.
            read[name].append(seconds_to_read(names[name]))
            remembered[name].append(reused)
            missed += reused == 0
    server.log.seek(0)
    swaps = swaps_of(server.log.read())
    server.stop()
    is_kept = missed == 0
    for name in names:
        took = [seconds for model, seconds in swaps if model == name]
        # The first two measure the page cache, and what a recipe needs.
        took = took[1:] or took
        swap, reading = statistics.median(took), statistics.median(read[name])
        least = min(took) / min(read[name])
        is_kept = is_kept and swap <= BOUND * reading
        later = statistics.median(warm[name])
        print(f'{name}: first turn {cold[name]:.2f}, later {later:.2f} with its swap of {swap:.2f};'
              f' reading {reading:.2f}: {swap / reading:.2f} times (of the shortest: {least:.2f}); '
              f'remembered {statistics.median(remembered[name]):.0f} tokens; {len(took)} swaps',
              flush=True)
    print(f'{len(swaps)} swaps, {missed} turns were not remembered')
    return 0 if is_kept else 1


if __name__ == '__main__':
    raise SystemExit(main())
