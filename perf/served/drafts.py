#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What drafts of repeated text save, and that they change no answer.

drafts.py MODEL [--tokens 256] [--rounds 2] [--server build/bin/semantic-server] [--context 4096]
          [--only WORD] [--alone] [--recorded FILE] [--option TEXT]
          [--llama-server PATH] [--llama-type ngram-simple]

Two servers, with --speculation on and off, answer the same prompts in turn, greedily: an edit of a
file that is in the prompt, JSON to a schema, a turn of a tool loop that repeats what a tool gave,
and prose; then 4, 8 and 16 answers of prose at once. Prints tokens a second of each and the ratio
of both in a round (medians), how many of the drafts' tokens were taken, and whether the answers are
the same to the letter.
With --llama-server the same prompts go to llama.cpp without and with speculation of that type;
MODEL is a GGUF file then. --recorded: a loop of tools of each program that record_loops.mjs has
written to FILE. --only: cases whose name has WORD. --alone: one answer at a time. --option: of both
own servers, such as --option=--kv-recipe=k16v16, or of llama.cpp's that drafts. Nothing but
127.0.0.1 is asked.
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import time
import urllib.request

import own_server
from own_server import Server

TOGETHER = (4, 8, 16)

FILE = '\n'.join(
    f'''def read_{name}(path: str, strict: bool = True) -> dict:
    """Reads the {name} of a project from a file."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if strict and "{name}" not in content:
        raise ValueError(f"{{path}}: there is no {name}")
    return content.get("{name}", {{}})
''' for name in ('settings', 'sources', 'targets', 'options'))

SCHEMA = {'type': 'object', 'properties': {'people': {'type': 'array', 'minItems': 8, 'items': {
    'type': 'object', 'additionalProperties': False,
    'required': ['first_name', 'family_name', 'age_in_years', 'is_employed'],
    'properties': {'first_name': {'type': 'string'}, 'family_name': {'type': 'string'},
                   'age_in_years': {'type': 'integer'}, 'is_employed': {'type': 'boolean'}}}}},
    'required': ['people'], 'additionalProperties': False}


def user(text):
    return {'role': 'user', 'content': text}


def tool_loop():
    found = json.dumps([{'path': f'src/module_{i}/handlers/read_request.py', 'line': 10 + i * 7,
                         'text': 'raise ValueError("the request has no body")'} for i in range(8)])
    call = {'id': 'call_1', 'type': 'function', 'function': {
        'name': 'search', 'arguments': '{"pattern": "raise ValueError"}'}}
    return {'messages': [user('List every place that raises a ValueError, with path, line and '
                              'text.'),
                         {'role': 'assistant', 'content': None, 'tool_calls': [call]},
                         {'role': 'tool', 'tool_call_id': 'call_1', 'content': found}]}


CASES = {
    'edit of a file': {'messages': [user(
        'Rename the parameter strict to is_strict everywhere in this file and print the whole file '
        f'again, nothing else.\n\n```python\n{FILE}```')]},
    'JSON to a schema': {'messages': [user('Make up eight people.')], 'response_format': {
        'type': 'json_schema', 'json_schema': {'name': 'people', 'strict': True,
                                               'schema': SCHEMA}}},
    'tool loop': tool_loop(),
    'prose': {'messages': [user('Tell a long story about a harbour, its boats and the people who '
                                'sail them.')]},
}


def recorded(file):
    """Cases of what programs asked: the path of a request stands in its body."""
    cases = {}
    for line in open(file, encoding='utf-8'):
        request = json.loads(line)
        kept = {key: value for key, value in request['body'].items()
                if key in ('messages', 'tools', 'system', 'tool_choice')}
        name = f'tool loop of {request["program"]}'
        cases[name] = {**kept, 'path': request['path'].split('?')[0]}
    return cases


def text_and_count(event):
    """Of an event of a stream of either wire: what it adds, and the tokens so far, where it says
    so."""
    usage = event.get('usage') or {}
    made = usage.get('completion_tokens') or usage.get('output_tokens')
    added = event.get('delta') or {}
    text = added.get('text') or added.get('partial_json') or added.get('thinking') or ''
    for choice in event.get('choices', []):
        calls = choice['delta'].get('tool_calls') or []
        named = [{'index': call.get('index'), **call.get('function', {})} for call in calls]
        text += choice['delta'].get('content') or ''
        text += json.dumps(named) if named else ''
    return text, made


def ask(server, body, tokens, agent):
    """Returns: the answer's text, its tokens, and the seconds of decoding."""
    path = body.get('path', '/v1/chat/completions')
    whole = {**body, 'model': 'any', 'temperature': 0, 'max_tokens': tokens, 'stream': True}
    whole.pop('path', None)
    if 'chat' in path:
        whole['stream_options'] = {'include_usage': True}
    request = urllib.request.Request(server.url + path, json.dumps(whole).encode(),
                                     {'content-type': 'application/json', 'x-session-id': agent})
    text, first, last, made = '', None, None, 0
    with urllib.request.urlopen(request, timeout=3600) as reply:
        for line in reply:
            if not line.startswith(b'data: {'):
                continue
            event = json.loads(line[6:])
            piece, count = text_and_count(event)
            timings = event.get('timings') or {}
            if timings.get('draft_n'):
                server.drafted[0] += timings['draft_n']
                server.drafted[1] += timings['draft_n_accepted']
            made = count or made
            if piece:
                last = time.monotonic()
                first = first or last
            text += piece
    return text, made, (last or 0) - (first or 0)


class LlamaServer:
    """llama.cpp's server, with speculation of `kind` or none. Ready when made."""

    def __init__(self, program, model, kind, sequences, options):
        port = own_server.free_port()
        self.url = f'http://127.0.0.1:{port}'
        more = ['--spec-type', kind, *options.option] if kind else []
        self.drafted = [0, 0]  # tokens that were run and taken, as its answers say
        self.process = subprocess.Popen(
            [program, '-m', model, '--port', str(port), '-np', str(sequences), '-c',
             str(options.context * sequences), '-t', str(os.cpu_count()), '--jinja', *more],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                urllib.request.urlopen(self.url + '/health', timeout=5).read()
                return
            except OSError:
                time.sleep(1)
        self.stop()
        raise SystemExit('llama-server did not start')

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def drafted(server):
    if isinstance(server, LlamaServer):
        return tuple(server.drafted)
    with urllib.request.urlopen(server.url + '/metrics', timeout=60) as reply:
        found = dict(line.split()[:2] for line in reply.read().decode().splitlines()
                     if line and not line.startswith('#'))
    return tuple(sum(float(value) for name, value in found.items()
                     if name.split('{')[0] == f'semantic_draft_tokens{kind}_total')
                 for kind in ('', '_taken'))


def measure(servers, name, body, options, together=1):
    """Prints one row."""
    rates, texts = {}, {}
    before = drafted(servers['on'])
    for number in range(options.rounds):
        # Who is first takes turns, so that a machine that slows down slows neither more.
        ways = list(servers.items())[::1 if number % 2 == 0 else -1]
        for way, server in ways:
            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(together) as pool:
                agents = [f'drafts-{together}-{len(name)}-{number}-{i}' for i in range(together)]
                answers = list(pool.map(lambda agent: ask(server, body, options.tokens, agent),
                                        agents))
            seconds = answers[0][2] if together == 1 else time.monotonic() - begin
            made = sum(answer[1] for answer in answers)
            rates.setdefault(way, []).append((made - 1) / max(seconds, 1e-9))
            texts.setdefault(way, []).append([answer[0] for answer in answers])
    run, taken = (now - then for now, then in zip(drafted(servers['on']), before))
    on, off = (statistics.median(rates[way]) for way in ('on', 'off'))
    ratio = statistics.median(on / off for on, off in zip(rates['on'], rates['off']))
    pairs = [(one, other) for on, off in zip(texts['on'], texts['off'])
             for one, other in zip(on, off)]
    changed = sum(one != other for one, other in pairs)
    same = 'same' if changed == 0 else f'{changed} of {len(pairs)} CHANGED'
    print(f'| {name} | {off:.1f} | {on:.1f} | {ratio:.2f} | '
          f'{taken:.0f} of {run:.0f} | {same} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--tokens', type=int, default=256)
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--only', default='')
    parser.add_argument('--alone', action='store_true')
    parser.add_argument('--context', type=int, default=4096)
    parser.add_argument('--recorded')
    parser.add_argument('--option', action='append', default=[])
    parser.add_argument('--llama-server')
    parser.add_argument('--llama-type', default='ngram-simple')
    options = parser.parse_args()
    cases = {**CASES, **(recorded(options.recorded) if options.recorded else {})}
    cases = {name: body for name, body in cases.items() if options.only in name}
    together = [count for count in TOGETHER
                if not options.alone and options.only in f'prose, {count} at once']
    if options.llama_server:
        most = max(together, default=1)
        servers = {way: LlamaServer(options.llama_server, options.model, kind, most, options)
                   for way, kind in (('off', None), ('on', options.llama_type))}
    else:
        servers = {way: Server(options.server, options.model,
                               ['--speculation', way, *options.option])
                   for way in ('off', 'on')}
    try:
        print('| what | tokens/s off | on | ratio | drafted tokens taken | answers |')
        print('|---|---|---|---|---|---|')
        for name, body in cases.items():
            measure(servers, name, body, options)
        for count in together:
            measure(servers, f'prose, {count} at once', CASES['prose'], options, count)
    finally:
        for server in servers.values():
            server.stop()


if __name__ == '__main__':
    main()
