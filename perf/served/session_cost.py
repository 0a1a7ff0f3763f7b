#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What turns of sessions cost: in a long one, and many agents at once beside one after the other.

session_cost.py MODEL [--messages 300] [--tokens 16] [--agents 30] [--answer 48] [--part both]

The long session has three agents, who speak in turn. A line of the table is a sixth of its turns:
how many extend what their agent has, the median of the tokens computed for a turn (ahead of it
too), and of its time. The many are asked the same in a broadcast of one session, and each alone in
a session of its own, one after the other, with the same prompts; tokens of answers a second, of
the whole round. Nothing but 127.0.0.1 is asked.
"""

import argparse
import statistics
import time

from own_server import Server

NAMES = 'Ada Bob Cid'.split()
SESSIONS = '/v1/coordination/sessions'


def agents(names):
    return [{'agent_id': name.lower(), 'display_name': name,
             'system_prompt': 'You keep a diary of what you see.'} for name in names]


def long_session(server, messages, tokens):
    session = server.post(SESSIONS, {
        'agents': agents(NAMES),
        'initial_prompt': 'You meet at the harbour and tell each other what you see.'})
    path = f'{SESSIONS}/{session["session_id"]}/turn'
    matches, computed, times = [], [], []
    for _ in range(messages):
        begin = time.monotonic()
        said = server.post(path, {'temperature': 0, 'max_tokens': tokens})['semantic']
        times.append(1000 * (time.monotonic() - begin))
        matches.append(said['match'])
        computed.append(said['computed_tokens'] + said['read_ahead_tokens'])
    print('| turns | extend, % | computed, median | most | ms, median |')
    print('|---|---|---|---|---|')
    part = max(messages // 6, 1)
    for first in range(0, messages, part):
        # The very first turn has nothing to extend.
        own = slice(max(first, 1), first + part)
        extends = sum(match == 'extend' for match in matches[own])
        print(f'| {own.start + 1} to {min(own.stop, messages)} '
              f'| {100 * extends / len(matches[own]):.1f} | {statistics.median(computed[own]):.0f} '
              f'| {max(computed[own])} | {statistics.median(times[own]):.1f} |', flush=True)


def answered(reply):
    said = reply['semantic']
    return sum(one['output_tokens'] for one in (said if isinstance(said, list) else [said]))


def many_at_once(server, count, answer):
    names = [f'Guest{i + 1}' for i in range(count)]
    asked = {'initial_prompt': 'Tell a long story about the sea.'}
    how = {'temperature': 0, 'max_tokens': answer}
    session = server.post(SESSIONS, {**asked, 'agents': agents(names), 'topology': 'broadcast'})
    begin = time.monotonic()
    together = answered(server.post(f'{SESSIONS}/{session["session_id"]}/round', how))
    at_once = together / (time.monotonic() - begin)
    alone = [server.post(SESSIONS, {**asked, 'agents': agents([name + 'x'])})['session_id']
             for name in names]
    begin = time.monotonic()
    apart = sum(answered(server.post(f'{SESSIONS}/{each}/turn', how)) for each in alone)
    in_turn = apart / (time.monotonic() - begin)
    print('| agents | at once, tok/s | one after the other, tok/s | times |')
    print('|---|---|---|---|')
    print(f'| {count} | {at_once:.1f} ({together} tokens) | {in_turn:.1f} ({apart} tokens) '
          f'| {at_once / in_turn:.2f} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--messages', type=int, default=300)
    parser.add_argument('--tokens', type=int, default=16)
    parser.add_argument('--agents', type=int, default=30)
    parser.add_argument('--answer', type=int, default=48)
    parser.add_argument('--part', choices=('both', 'long', 'many'), default='both')
    options = parser.parse_args()
    server = Server(options.server, options.model, ['--max-batch', str(options.agents)])
    try:
        if options.part != 'many':
            long_session(server, options.messages, options.tokens)
        if options.part != 'long':
            many_at_once(server, options.agents, options.answer)
    finally:
        server.stop()


if __name__ == '__main__':
    main()
