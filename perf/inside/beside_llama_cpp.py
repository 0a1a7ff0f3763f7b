#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published GGUF files beside llama.cpp, K and V of 16 bit: perplexity, token ids, greedy answers.

beside_llama_cpp.py --llama-cpp PLACE [--text FILE] [--models DIR] [MODEL...]
    PLACE: a folder from which Python imports llama_cpp (the package llama-cpp-python), with numpy;
    left out, what SEMANTIC_LLAMA_CPP names.
    Prints a table, and each answer that differs: how far apart the two tokens are for either side
    and for `--compensated` logits of ours, whose activations are nearly floats.
    Without --text no perplexity is measured. Models that are not there are left out and named.

Exit status: 0 all within the bounds, 1 not, 77 there is nothing to compare with.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp_peer

CONTEXT = 512  # of a window; predictions of its second half count
PPL_BOUND = 0.5  # percent
# Both sides round activations to 8 bits, each its own way. Where the compensated logits of two
# tokens are closer than so many times what both sides' logits are off together, either may win.
NOISE_BOUND = 3.0

PROMPTS = [
    'What is the capital of France?',
    'Write a Python function that reverses a string.',
    'Explain what a hash table is in two sentences.',
    'Name three rivers in Asia.',
    'What is 17 plus 25?',
    '北京是哪个国家的首都？请用一句话回答。',
    'Translate "good morning" into Spanish, German and Italian.',
    'Write a haiku about the sea.',
    'Why is the sky blue?',
    'Give me a recipe for pancakes.',
    'What does the SQL statement SELECT COUNT(*) FROM users; do?',
    'Say this number again: 31415926535897932384626433832795',
    'List the planets of the solar system.',
    'Как тебя зовут?',
    'Write a C program that prints the numbers from 1 to 10.',
    'Who wrote Romeo and Juliet?',
    'Summarise: the cat sat on the mat, and the dog slept by the door.',
    'What are the primary colours?',
    '{"name": "Ada", "age": 36} - what is the age in this JSON?',
    'How do I list all files of a folder in bash?',
]


class Peer:
    """A model in llama.cpp with K and V of 16 bit; reads CONTEXT tokens at once."""

    def __init__(self, api, numpy, file, threads, context=CONTEXT):
        self.numpy = numpy
        self.model = llama_cpp_peer.Model(api, file)
        self.context = llama_cpp_peer.Context(self.model, context, CONTEXT, threads)

    def close(self):
        self.context.close()
        self.model.close()

    def has_template(self):
        return self.model.has_template()

    def tokenize(self, text, first):
        return self.model.tokenize(text, first, True)

    def read(self, ids, position, first_wanted):
        """Logits from ids[first_wanted] on."""
        self.context.decode(ids, position, first_wanted)
        for i in range(first_wanted, len(ids)):
            yield self.context.logits(self.numpy, i, self.model.width)

    def greedy(self, ids, count):
        """Returns the answer and, of each of its tokens, the logits that it was chosen from."""
        self.context.forget()
        said, seen, position, new = [], [], 0, ids
        for _ in range(count):
            logits = next(self.read(new, position, len(new) - 1)).copy()
            position += len(new)
            new = [int(logits.argmax())]
            said += new
            seen.append(logits)
        return said, seen

    def perplexity(self, ids, first):
        """As `semantic-eval perplexity --second-half` cuts and counts."""
        total, scored = 0.0, 0
        for begin in range(0, len(ids) - CONTEXT + 1, CONTEXT):
            window = ids[begin:begin + CONTEXT]
            if first is not None:
                window[0] = first
            self.context.forget()
            rows = self.read(window[:-1], 0, CONTEXT // 2)
            for position, logits in enumerate(rows, CONTEXT // 2):
                high = float(logits.max())
                mass = float(self.numpy.exp(logits - high, dtype=self.numpy.float64).sum())
                total += high + math.log(mass) - float(logits[window[position + 1]])
                scored += 1
        return math.exp(total / scored)


class Ours:
    """A model in semantic-eval."""

    def __init__(self, program, file, folder):
        self.program, self.file, self.folder = program, str(file), pathlib.Path(folder)

    def call(self, command, *words, given=''):
        done = subprocess.run([self.program, command, '--model', self.file, *words],
                              input=given.encode(), stdout=subprocess.PIPE, check=True,
                              stderr=subprocess.DEVNULL)
        return done.stdout.decode()

    def render(self, prompt):
        return self.call('render', given=json.dumps(
            {'messages': [{'role': 'user', 'content': prompt}]}))

    def tokenize(self, text, special):
        return json.loads(self.call('tokenize', *(['--special'] if special else []), given=text))

    def greedy(self, ids, count):
        path = self.folder / 'ids.json'
        path.write_text(json.dumps(ids))
        return json.loads(self.call('greedy', '--tokens', str(path), '--max-new', str(count),
                                    '--kv-bits', '16'))

    def logits(self, numpy, ids, compensated):
        """Of the token behind ids."""
        path, out = self.folder / 'ids.json', self.folder / 'logits.safetensors'
        path.write_text(json.dumps(ids))
        self.call('logits', '--tokens', str(path), '--out', str(out), '--positions',
                  str(len(ids) - 1), '--kv-bits', '16', *(['--compensated'] if compensated else []))
        data = out.read_bytes()
        header = int.from_bytes(data[:8], 'little')
        begin, end = json.loads(data[8:8 + header])['logits']['data_offsets']
        return numpy.frombuffer(data[8 + header + begin:8 + header + end], dtype=numpy.float32)

    def perplexity(self, text, tokens):
        path = self.folder / 'perplexity.csv'
        self.call('perplexity', '--text', text, '--kv', '16', '--context', str(CONTEXT), '--tokens',
                  str(tokens), '--second-half', '--csv', str(path))
        with open(path, newline='') as file:
            return float(next(csv.DictReader(file))['ppl'])


def difference(numpy, ours, ids, mine, theirs, their_logits):
    """What the logits behind ids say of two tokens, and how far they are off."""
    exact, own = (ours.logits(numpy, ids, compensated) for compensated in (True, False))

    def off(logits):
        return float((logits - exact).std())

    def margin(logits):
        return float(logits[theirs] - logits[mine])

    noise, spread = off(own) + off(their_logits), float(exact.std())
    return {'margins': [margin(own), margin(their_logits), margin(exact)],
            'noise': [100 * off(own) / spread, 100 * off(their_logits) / spread],
            'ratio': abs(margin(exact)) / noise}


def compare_answers(peer, ours, count):
    """Yields for each prompt (same ids, None or what the first difference is)."""
    has_template = peer.has_template()
    for prompt in PROMPTS:
        text = ours.render(prompt) if has_template else prompt
        ids = ours.tokenize(text, not has_template)
        same_ids = ids == peer.tokenize(text, not has_template)
        theirs, seen = peer.greedy(ids, count)
        answer = ours.greedy(ids, count)
        at = next((i for i, (a, b) in enumerate(zip(answer, theirs)) if a != b), None)
        if at is None:
            yield same_ids, None
            continue
        found = difference(peer.numpy, ours, ids + theirs[:at], answer[at], theirs[at], seen[at])
        yield same_ids, {'prompt': prompt, 'token': at, **found}


def compare_perplexity(peer, ours, text, tokens):
    """Returns ours, theirs, and whether the ids of the text are the same."""
    words = pathlib.Path(text).read_text()
    with_first, plain = ours.tokenize('a', True), ours.tokenize('a', False)
    first = with_first[0] if len(with_first) > len(plain) and with_first[0] != plain[0] else None
    ids = ours.tokenize(words, False)
    same = ids == peer.tokenize(words, False)
    if first is not None:
        ids.insert(0, first)
    return ours.perplexity(text, tokens), peer.perplexity(ids[:tokens], first), same


def compare(model, file, options, api, numpy):
    """Prints a model's row and its differences. Returns whether all is within the bounds."""
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(options.eval, file, folder)
        peer = Peer(api, numpy, file, options.threads)
        answers = list(compare_answers(peer, ours, options.answer_tokens))
        cells, good = '| | | ', True
        if options.text:
            mine, theirs, same = compare_perplexity(peer, ours, options.text, options.tokens)
            change = 100 * (mine / theirs - 1)
            cells = f'| {mine:.3f} | {theirs:.3f} | {change:+.2f} '
            good = same and abs(change) <= PPL_BOUND
        peer.close()
    differences = [found for _, found in answers if found]
    same_ids = sum(same for same, _ in answers)
    explained = sum(found['ratio'] <= NOISE_BOUND for found in differences)
    noises = [sum(side) / len(differences) for side in zip(*(d['noise'] for d in differences))]
    print(f'| {model} {cells}| {same_ids} of {len(answers)} '
          f'| {len(answers) - len(differences)} of {len(answers)} '
          f'| {explained} of {len(differences)} '
          f"| {' / '.join(f'{noise:.1f}' for noise in noises)} |", flush=True)
    for found in differences:
        mine, theirs, exact = found['margins']
        print(f"    {model}: token {found['token']}, theirs less ours {mine:+.2f} in our logits, "
              f"{theirs:+.2f} in theirs, {exact:+.2f} in compensated ones, {found['ratio']:.1f} "
              f"times the noise: {found['prompt']}", file=sys.stderr)
    return good and same_ids == len(answers) and explained == len(differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar='MODEL')
    llama_cpp_peer.add_options(parser)
    parser.add_argument('--text', default='')
    parser.add_argument('--eval', default='build/bin/semantic-eval')
    parser.add_argument('--answer-tokens', type=int, default=32)
    options = parser.parse_args()
    api, numpy = llama_cpp_peer.open_peer(options.llama_cpp)
    there = llama_cpp_peer.files_there(options.names, options.models)
    print(f'llama-cpp-python {api.__version__}, windows of {CONTEXT}, '
          f'{options.answer_tokens} tokens an answer')
    print('| model | perplexity | llama.cpp | change % | prompts of the same ids | same answers '
          '| differences within the noise | logits off, ours / llama.cpp, % |')
    print('|---|---|---|---|---|---|---|---|')
    # Every model's row is printed, whatever became of the one before.
    good = [compare(model, file, options, api, numpy) for model, file in there]
    sys.exit(0 if all(good) else 1)


if __name__ == '__main__':
    main()
