#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of 4 GB and more as a user meets them, beside llama.cpp's server on the same file: starts,
memory, swaps, reading and decoding at no depth and at depths, four agents at once.

real_sizes.py FILE.gguf --name NAME [--parts first,speed] [--kv 16,8] [--depths 0]
              [--sides own,peer] [--figures reads,decodes,agents] [--bin build/bin]
              [--peer FOLDER] [--cache DIR] [--threads 2] [--answer 48] [--reading 512]
              [--beside BESIDE.gguf] [--recipe NAME] [--out perf/results] [--max-seconds 570]
    NAME:   what the table calls the model, as "Llama 3.1 8B, 2 of 32 layers"
    FOLDER: of llama-server
    DIR:    the cache directory of a former run, whose packed weights are used again
    BESIDE: another model in FILE's folder, or FILE under another name (a link)

first: a start on an empty cache directory, which packs the weights and, without --recipe, measures
       what K and V need (calibration)
speed: of ours and then of llama.cpp, with flash attention, for each of K and V at 16 and at 8 bit:
       a later start, 512 new tokens, an answer, and at no depth four answers at once; with a depth,
       the same 512 tokens and the answer on top of so many; of these what --figures names
swap:  FILE and BESIDE asked in turn for a token, each loaded in the other's place: seconds from the
       end of the drain to ready, into each, the median of three; weights are packed before. The
       requests' own times, also printed, have in them what the server does before the drain

A speed is told twice: tokens a second of processor time (user and system) of one thread, which
other work on the machine changes little, and tokens a second of the clock. llama.cpp's threads spin
while one waits for another, which counts as their work: during other work, several of them look
slower than they are, and one thread is what to compare. A share is of what one core reads or
multiplies (the first line of kernels_bench), of the bytes or products that a token needs: of a
mixture's experts those that it uses. Memory: of the process's own, of mapped files that is
resident, of mapped files in all.

--out merges the rows into real-starts.json and real-speeds.json there. What --max-seconds cuts off
is not measured, said so, and the exit status is 3.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from hybrid_turns import Deadline, long_text, row, stream_events  # noqa: E402
from model_swaps import swaps_of  # noqa: E402
from own_server import POLL_SECONDS, Server, free_port  # noqa: E402
from tables import text_of  # noqa: E402

AGENTS, AGENT_ANSWER, AGENT_PROMPT = 4, 32, 16
SWAPS = 3
WARM_TOKENS = 96
MIB = 1024 * 1024
POOL_MIB, DISK_MIB, PACKED_MIB = 2048, 65536, 32768
FORMS = {'16': ('k16v16', 'f16'), '8': ('k8v8', 'q8_0')}
STARTS = ['model', 'file, MiB', 'first start, s', 'start, s', 'llama.cpp', 'RAM at the start, MiB',
          'llama.cpp', 'RAM after answers, MiB', 'llama.cpp', 'swaps, s']
SPEEDS = ['model', 'K and V', 'threads', 'figure', 'a thread, tok/s', 'llama.cpp', 'times',
          'the clock, tok/s', 'llama.cpp', 'of a core, %', 'load']
KEYS = {'real-starts': 1, 'real-speeds': 4}


class Needs:
    """What a token needs of a GGUF file: bytes that decoding reads, products that reading makes
    (the head left out, which only a prompt's last token meets)."""

    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    TEXT, LIST = 8, 9

    def __init__(self, path):
        self.size = os.stat(path).st_size
        with open(path, 'rb') as self.file:
            _, _, tensors, entries = self.take('<4sIQQ')
            self.metadata = dict(self.entry() for _ in range(entries))
            found = [self.tensor() for _ in range(tensors)]
            begin = -(-self.file.tell() // 32) * 32
        ends = sorted([offset for _, _, offset in found] + [self.size - begin])
        self.bytes = self.products = 0.0
        names = {name for name, _, _ in found}
        for name, sides, offset in found:
            if name == 'token_embd.weight' and 'output.weight' in names:
                continue
            share = self.used() if '_exps.' in name else 1.0
            self.bytes += share * (ends[ends.index(offset) + 1] - offset)
            if name.startswith('blk.') and len(sides) > 1 and name.endswith('weight'):
                product = 1
                for side in sides:
                    product *= side
                self.products += share * product

    def take(self, form):
        return struct.unpack(form, self.file.read(struct.calcsize(form)))

    def text(self):
        return self.file.read(self.take('<Q')[0]).decode('utf-8', 'replace')

    def value(self, kind):
        if kind == self.TEXT:
            return self.text()
        if kind != self.LIST:
            return int.from_bytes(self.file.read(self.SIZES[kind]), 'little')
        kind, count = self.take('<IQ')
        if kind in self.SIZES:
            self.file.seek(self.SIZES[kind] * count, 1)
        else:
            for _ in range(count):
                self.file.seek(self.take('<Q')[0], 1)
        return None

    def entry(self):
        return self.text(), self.value(self.take('<I')[0])

    def tensor(self):
        name, count = self.text(), self.take('<I')[0]
        sides = self.take(f'<{count}Q')
        _, offset = self.take('<IQ')
        return name, sides, offset

    def used(self):
        """The part of a mixture's experts that a token uses."""
        architecture = self.metadata['general.architecture']
        return (self.metadata[architecture + '.expert_used_count'] /
                self.metadata[architecture + '.expert_count'])


class Cost:
    """Of tokens: processor time, time."""

    def __init__(self, tokens, processor, seconds):
        self.tokens = tokens
        self.thread = tokens / processor if processor else None
        self.clock = tokens / seconds if seconds else None


class Watch:
    """Processor time of a process and time, since it was made."""

    def __init__(self, pid):
        self.pid = pid
        self.processor, self.begin = self.spent(), time.monotonic()

    def spent(self):
        text = pathlib.Path(f'/proc/{self.pid}/stat').read_text().rsplit(')', 1)[1].split()
        return (int(text[11]) + int(text[12])) / os.sysconf('SC_CLK_TCK')

    def cost(self, tokens):
        return Cost(tokens, self.spent() - self.processor, time.monotonic() - self.begin)


def memory(pid):
    """MiB: own + mapped and resident."""
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    own, files = (int(re.search(rf'{name}:\s+(\d+)', text)[1]) / 1024
                  for name in ('RssAnon', 'RssFile'))
    return f'{own:,.0f} + {files:,.0f}'


class Own:
    """semantic-server on a cache directory that stays."""

    name = 'Semantic'

    def __init__(self, options, deadline, cache, recipe):
        self.deadline = deadline
        deepest = max(options.depths)
        more = ['--cache-budget-mb', str(POOL_MIB), '--disk-budget-mb', str(DISK_MIB),
                '--packed-budget-mb', str(PACKED_MIB), '--speculation', 'off',
                '--compute-threads', str(options.threads), '--context-tokens', str(deepest + 4096)]
        if recipe:
            more += ['--kv-recipe', recipe]
        self.server = Server(options.bin / 'semantic-server', options.file, more, caches=cache)
        self.process, self.start_seconds = self.server.process, self.server.start_seconds

    def log_text(self):
        self.server.log.seek(0)
        return self.server.log.read()

    def ask(self, session, messages, tokens):
        """Returns what the request cost, by its computed tokens, and the answer's text."""
        body = {'model': 'any', 'messages': messages, 'max_tokens': tokens, 'temperature': 0,
                'ignore_eos': True}
        request = urllib.request.Request(
            self.server.url + '/v1/messages', json.dumps(body).encode(),
            {'content-type': 'application/json', 'x-session-id': session})
        watch = Watch(self.process.pid)
        with urllib.request.urlopen(request, timeout=self.deadline.left()) as reply:
            answer = json.load(reply)
        usage = answer['usage']
        computed = usage['input_tokens'] + usage.get('cache_creation_input_tokens', 0)
        if usage['output_tokens'] != tokens:
            raise RuntimeError(f'{usage["output_tokens"]} tokens of {tokens} were answered')
        cost = watch.cost(tokens if tokens > 1 else computed)
        return cost, computed, ''.join(part.get('text', '') for part in answer['content'])

    def speeds(self, depth, new_tokens, answer):
        """What reading costs, and an answer on top of that, whose prompt is known by then; at no
        depth an answer on a short prompt."""
        session, messages = f'deep-{depth}', []
        if depth:
            messages.append({'role': 'user', 'content': long_text(depth)})
            _, _, text = self.ask(session, messages, 1)
            messages.append({'role': 'assistant', 'content': text.strip() or '.'})
        messages.append({'role': 'user', 'content': f'{depth + 1}. {long_text(new_tokens)}'})
        read, _, _ = self.ask(session, messages, 1)
        if not answer:
            return read, None
        if not depth:
            session, messages = 'shallow', [{'role': 'user', 'content': 'Who are you?'}]
            self.ask(session, messages, 1)
        decoded, computed, _ = self.ask(session, messages, answer)
        if computed > AGENT_PROMPT:
            raise RuntimeError(f'{computed} tokens of a known prompt were computed again')
        return read, decoded

    def agents(self):
        def one(index, tokens):
            asked = [{'role': 'user', 'content': f'Agent {index}, who are you?'}]
            self.ask(f'agent-{index}', asked, tokens)

        return at_once(one, self.process.pid)

    def stop(self):
        self.server.stop()


class Peer:
    """llama.cpp's server, asked by token ids, without a warm-up."""

    name = 'llama.cpp'

    def __init__(self, options, deadline, kind):
        self.deadline = deadline
        self.random = random.Random(1)
        deepest = max(options.depths)
        slots = 1 if deepest else AGENTS
        port = free_port()
        self.url = f'http://127.0.0.1:{port}'
        self.log = tempfile.TemporaryFile('w+')
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [options.peer / 'llama-server', '-m', options.file, '--host', '127.0.0.1', '--port',
             str(port), '-c', str((deepest + 1024) * slots), '-np', str(slots), '-fa', 'on',
             '-ctk', kind, '-ctv', kind, '-t', str(options.threads), '-tb', str(options.threads),
             '--no-warmup', '--cache-ram', '0'], stdout=self.log, stderr=subprocess.STDOUT)
        try:
            while self.process.poll() is None:
                deadline.left()
                try:
                    urllib.request.urlopen(self.url + '/health', timeout=5).read()
                    self.start_seconds = time.monotonic() - begin
                    return
                except OSError:
                    time.sleep(POLL_SECONDS)
        except TimeoutError:
            self.stop()
            raise
        self.log.seek(0)
        raise SystemExit(f'llama.cpp did not start: {self.log.read()[-2000:]}')

    def ids(self, count):
        return [self.random.randrange(1000, 30000) for _ in range(count)]

    def ask(self, ids, tokens, slot=0):
        """Returns what was paid until the first token, and for those after it."""
        body = {'prompt': ids, 'n_predict': tokens, 'stream': True, 'temperature': 0,
                'ignore_eos': True, 'cache_prompt': True, 'timings_per_token': True,
                'id_slot': slot}
        watch, read, after, timings = Watch(self.process.pid), None, None, {}
        for _, event in stream_events(self.url + '/completion', body, {}, self.deadline):
            timings = event.get('timings', timings)
            if read is None and timings:
                read = watch.cost(timings['prompt_n'])
                after, first = Watch(self.process.pid), timings['predicted_n']
        return read, after.cost(timings['predicted_n'] - first)

    def speeds(self, depth, new_tokens, answer):
        ids = self.ids(depth)
        if depth:
            self.ask(ids, 1)
            return self.ask(ids + self.ids(new_tokens), answer)
        read, _ = self.ask(self.ids(new_tokens), 1)
        return read, self.ask(self.ids(AGENT_PROMPT), answer)[1] if answer else None

    def agents(self):
        prompts = [self.ids(AGENT_PROMPT) for _ in range(AGENTS)]
        return at_once(lambda index, tokens: self.ask(prompts[index], tokens, index),
                       self.process.pid)

    def stop(self):
        self.process.kill()
        self.process.wait(60)
        self.log.close()


def at_once(ask, pid):
    """What answers of all agents cost together, their prompts known."""
    for index in range(AGENTS):
        ask(index, 1)
    watch = Watch(pid)
    with concurrent.futures.ThreadPoolExecutor(AGENTS) as threads:
        for each in [threads.submit(ask, index, AGENT_ANSWER) for index in range(AGENTS)]:
            each.result()
    return watch.cost(AGENTS * AGENT_ANSWER)


class Roofs:
    """Of one core: bytes and int8 products a second, the best of all times they were measured."""

    def __init__(self, options):
        self.program = options.bin / 'kernels_bench'
        self.bytes = self.products = 0.0

    def measure(self):
        said = subprocess.run([self.program, '--benchmark_filter=none_of_them'], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60).stdout
        found = re.search(r'memory ([\d.]+) GB/s.* int8 ([\d.]+) GOP/s', said)
        self.bytes = max(self.bytes, float(found[1]) * 1e9)
        self.products = max(self.products, float(found[2]) * 1e9 / 2)


class Rows:
    """What was measured, printed as it comes and merged into files at the end of each part."""

    def __init__(self, options):
        self.options = options
        self.found = {'real-starts': {}, 'real-speeds': {}}

    def add(self, table, key, cells):
        columns = STARTS if table == 'real-starts' else SPEEDS
        old = self.found[table].setdefault(key, [*key, *[None] * (len(columns) - len(key))])
        for index, cell in cells.items():
            old[index] = cell
        row(*('-' if cell is None else cell for cell in old))

    def keep(self):
        if not self.options.out:
            return
        for table, columns in (('real-starts', STARTS), ('real-speeds', SPEEDS)):
            path = self.options.out / f'{table}.json'
            result = json.loads(path.read_text()) if path.exists() else {'taken': [], 'rows': []}
            result['columns'] = columns
            rows = {tuple(each[:KEYS[table]]): each + [None] * (len(columns) - len(each))
                    for each in result['rows']}
            for key, cells in self.found[table].items():
                old = rows.setdefault(key, cells)
                rows[key] = [then if now is None else now for now, then in zip(cells, old)]
            result['rows'] = list(rows.values())
            path.write_text(text_of(result))


def rounded(number):
    return None if number is None else float(f'{number:.3g}')


def measure_first(options, deadline, rows, cache):
    """Its log's lines of weights and of the recipe say where the time went."""
    server = Own(options, deadline, cache, options.recipe)
    try:
        spent = Watch(server.process.pid).processor
        packed = float(re.search(r'after ([\d.]+) s, packed now', server.log_text())[1])
        more = server.start_seconds - packed
        cell = f'{packed:.1f} + {"-" if options.recipe else f"{more:.0f}"} ({spent:.0f})'
        rows.add('real-starts', (options.name,),
                 {1: round(os.stat(options.file).st_size / MIB), 2: cell})
        print(f'load {os.getloadavg()[0]:.1f}, K and V {server.server.recipe()}', flush=True)
        for line in server.log_text().splitlines():
            if re.search(r'weights|recipe|memory for|KV', line):
                print(line[:300], flush=True)
    finally:
        server.stop()


def measure_server(server, options, rows, form, needs, roofs):
    """One server's columns of the rows; it is stopped."""
    is_peer = isinstance(server, Peer)
    starts = (options.name,)
    has_memory = form == '16' and not max(options.depths)  # those of a cut file say nothing
    try:
        if has_memory:
            rows.add('real-starts', starts, {4 if is_peer else 3: f'{server.start_seconds:.1f}',
                                             6 if is_peer else 5: memory(server.process.pid)})
        for depth in options.depths:
            load = os.getloadavg()[0]
            # What is not asked for is read all the same, so that every page was touched once.
            reads, decodes = 'reads' in options.figures, 'decodes' in options.figures
            read, decoded = server.speeds(depth, options.reading if reads or depth else WARM_TOKENS,
                                          options.answer if decodes else 0)
            if reads:
                add_speed(rows, options, form, f'reads {options.reading} on {depth:,}', is_peer,
                           read, None if depth else needs.products / roofs.products, load)
            if decodes:
                add_speed(rows, options, form, f'decodes on {depth:,}', is_peer, decoded,
                           None if depth else needs.bytes / roofs.bytes, load)
            if 'agents' in options.figures and not max(options.depths):
                add_speed(rows, options, form, f'{AGENTS} agents', is_peer, server.agents(), None,
                           os.getloadavg()[0])
        if has_memory:
            rows.add('real-starts', starts, {8 if is_peer else 7: memory(server.process.pid)})
    finally:
        server.stop()


def add_speed(rows, options, form, figure, is_peer, cost, least, load):
    """`least`: seconds of a core that a token takes at its roof; None: not known."""
    key = (options.name, ' / '.join(FORMS[form]), options.threads, figure)
    cells = {5 if is_peer else 4: rounded(cost.thread), 8 if is_peer else 7: rounded(cost.clock)}
    old = rows.found['real-speeds'].get(key)
    if is_peer and old and old[4] and cost.thread:
        cells[6] = rounded(old[4] / cost.thread)
    if not is_peer and least and cost.thread:
        cells[9] = round(100 * cost.thread * least)
    cells[10] = f'{old[10]}, {load:.1f}' if old and is_peer else f'{load:.1f}'
    rows.add('real-speeds', key, cells)


def measure_speed(options, deadline, rows, cache):
    needs, roofs = Needs(options.file), Roofs(options)
    print(f'a token: {needs.bytes / 1e6:,.0f} MB, {needs.products / 1e6:,.0f} M products')
    for form in options.kv:
        roofs.measure()
        recipe, kind = FORMS[form]
        if 'own' in options.sides:
            measure_server(Own(options, deadline, cache, recipe), options, rows, form, needs, roofs)
        if 'peer' in options.sides:
            measure_server(Peer(options, deadline, kind), options, rows, form, needs, roofs)
    print(f'a core reads {roofs.bytes / 1e9:.1f} GB/s and makes {roofs.products / 1e9:.0f} billion '
          'products a second', flush=True)


def measure_swap(options, deadline, rows, cache):
    names = [pathlib.Path(file).stem for file in (options.file, options.beside)]
    server = Server(options.bin / 'semantic-server', options.file,
                    ['--models-dir', str(pathlib.Path(options.file).absolute().parent),
                     '--auto-swap', 'on', '--kv-recipe', 'k8v8', '--context-tokens', '2048',
                     '--cache-budget-mb', '512', '--disk-budget-mb', str(DISK_MIB),
                     '--packed-budget-mb', str(PACKED_MIB)], caches=cache)
    try:
        for name in names + names[:1] + SWAPS * [names[1], names[0]]:
            deadline.left()
            begin = time.monotonic()
            server.post('/v1/messages', {'model': name, 'max_tokens': 1, 'temperature': 0,
                                         'messages': [{'role': 'user', 'content': 'Hi'}]})
            print(f'request to {name}: {time.monotonic() - begin:.2f} s', flush=True)
        server.log.seek(0)
        swaps = swaps_of(server.log.read())[2:]
    finally:
        server.stop()
    for model, seconds in swaps:
        print(f'into {model}: {seconds:.2f} s', flush=True)
    medians = {name: statistics.median(seconds for model, seconds in swaps if model == name)
               for name in names}
    cells = [f'{medians[names[0]]:.2f}', f'{medians[names[1]]:.2f} into {names[1]}']
    rows.add('real-starts', (options.name,), {9: ', '.join(cells)})
    print(f'load {os.getloadavg()[0]:.1f}', flush=True)


PARTS = {'first': measure_first, 'speed': measure_speed, 'swap': measure_swap}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file')
    parser.add_argument('--name', required=True)
    parser.add_argument('--parts', default='first,speed')
    parser.add_argument('--kv', type=lambda text: text.split(','), default=['16', '8'])
    parser.add_argument('--depths', type=lambda text: [int(each) for each in text.split(',')],
                        default=[0])
    parser.add_argument('--sides', type=lambda text: text.split(','), default=['own', 'peer'])
    parser.add_argument('--figures', type=lambda text: text.split(','),
                        default=['reads', 'decodes', 'agents'])
    parser.add_argument('--bin', type=pathlib.Path, default=pathlib.Path('build/bin'))
    parser.add_argument('--peer', type=pathlib.Path, default=pathlib.Path('/usr/local/bin'))
    parser.add_argument('--cache', default='')
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--answer', type=int, default=48)
    parser.add_argument('--reading', type=int, default=512)
    parser.add_argument('--beside', default='')
    parser.add_argument('--recipe', default='')
    parser.add_argument('--out', type=pathlib.Path)
    parser.add_argument('--max-seconds', type=float, default=570)
    options = parser.parse_args()
    deadline, rows = Deadline(options.max_seconds), Rows(options)
    with tempfile.TemporaryDirectory() as own_cache:
        try:
            for part in options.parts.split(','):
                PARTS[part](options, deadline, rows, options.cache or own_cache)
        except TimeoutError as error:
            print(f'not measured further: {error}', flush=True)
            sys.exit(3)
        finally:
            rows.keep()


if __name__ == '__main__':
    main()
