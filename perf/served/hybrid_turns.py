#!/usr/bin/env python3
"""What a further turn of a long conversation costs on a model with recurrent layers: its memory
hot, read from disk, after kill -9, and read anew; and what a conversation of many turns writes.

hybrid_turns.py FILE.gguf [--server build/bin/semantic-server] [--tokens 8192] [--turns 43]
                [--rounds 3] [--recipe k5s-v4r-w16]

Prints the seconds to the first token, medians of the rounds, the machine's load before each way,
and bytes of states and of all files written in a turn. Made models say nothing, so answers have 8
tokens.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
import urllib.request

from own_server import Server

ANSWER = {'max_tokens': 8, 'temperature': 0}


def call(server, path, body=None, method='POST'):
    request = urllib.request.Request(
        server.url + path, None if body is None else json.dumps(body).encode(),
        {'content-type': 'application/json'}, method=method)
    return urllib.request.urlopen(request, timeout=3600)


def ask(server, session, messages):
    """Returns (seconds to the first token, text, usage)."""
    body = {'model': 'any', 'stream': True, 'messages': messages, **ANSWER}
    request = urllib.request.Request(
        server.url + '/v1/messages', json.dumps(body).encode(),
        {'content-type': 'application/json', 'x-session-id': session})
    begin = time.monotonic()
    first, text, usage = None, '', {}
    with urllib.request.urlopen(request, timeout=3600) as stream:
        for line in stream:
            if not line.startswith(b'data: '):
                continue
            event = json.loads(line[6:])
            if event['type'] == 'content_block_delta':
                first = first or time.monotonic() - begin
                text += event['delta'].get('text', '')
            usage |= event.get('message', {}).get('usage', {}) | event.get('usage', {})
    return first, text, usage


def metrics(server):
    text = call(server, '/metrics', method='GET').read().decode()
    lines = (line.rsplit(' ', 1) for line in text.splitlines() if not line.startswith('#'))
    return {name: float(value) for name, value in lines}


def written(server):
    samples = metrics(server)
    return (samples['semantic_store_state_written_bytes_total'],
            samples['semantic_store_written_bytes_total'])


def long_text(tokens):
    """About so many tokens of the embedded tokenizer."""
    return ' '.join(f'On day {i} the gardener counted {i * 7 % 100} lamps.'
                    for i in range(tokens // 14))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--tokens', type=int, default=8192)
    parser.add_argument('--turns', type=int, default=43)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--recipe', default='k5s-v4r-w16')
    options = parser.parse_args()
    more = ['--kv-recipe', options.recipe, '--cache-budget-mb', '1024']
    with tempfile.TemporaryDirectory() as caches:
        def start():
            return Server(options.server, options.file, more, caches=caches)

        server = start()
        messages = [{'role': 'user', 'content': long_text(options.tokens)}]
        ways = {'anew': [], 'hot': [], 'from disk': [], 'after kill -9': []}
        took, text, usage = ask(server, 'talk', messages)
        read = sum(usage[name] for name in ('input_tokens', 'cache_creation_input_tokens',
                                            'cache_read_input_tokens'))
        print(f'{read} tokens read in {took:.2f} s, {read / took:.0f} a second; '
              f'load {os.getloadavg()[0]:.1f}', flush=True)
        for i in range(options.rounds):
            for way in ways:
                messages += [{'role': 'assistant', 'content': text},
                             {'role': 'user', 'content': f'And on day {i}?'}]
                session = 'talk'
                if way == 'anew':
                    # Nothing begins so.
                    session = f'anew-{i}'
                    asked = [{'role': 'user', 'content': f'{i}. {messages[0]["content"]}'},
                             *messages[1:]]
                    took = ask(server, session, asked)[0]
                    del messages[-2:]
                    ways[way].append(took)
                    continue
                if way == 'from disk':
                    call(server, '/v1/agents/sess_talk/evict').read()
                if way == 'after kill -9':
                    server.process.kill()
                    server.process.wait(60)
                    server = start()
                load = os.getloadavg()[0]
                took, text, usage = ask(server, session, messages)
                ways[way].append(took)
                print(f'  {way}: {took:.3f} s, {usage["cache_read_input_tokens"]} tokens from '
                      f'memory, load {load:.1f}', flush=True)
        for way, seconds in ways.items():
            print(f'{way:14} {statistics.median(seconds):8.3f} s')
        states, all_bytes = written(server)
        messages = []
        for turn in range(options.turns):
            messages.append({'role': 'user', 'content': f'{turn}. {long_text(100)}'})
            messages.append({'role': 'assistant', 'content': ask(server, 'turns', messages)[1]})
        now = written(server)
        print(f'{options.turns} turns wrote {(now[0] - states) / 1e6:.1f} MB of states, '
              f'{(now[1] - all_bytes) / 1e6:.1f} MB in all; a turn '
              f'{(now[0] - states) / options.turns / 1e6:.2f} and '
              f'{(now[1] - all_bytes) / options.turns / 1e6:.2f} MB')
        server.stop()


if __name__ == '__main__':
    main()
