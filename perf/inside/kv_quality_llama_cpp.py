#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp's own forms of K and V cost published GGUF files, beside its f16.

kv_quality_llama_cpp.py --llama-cpp PLACE [--forms LIST] [--tokens N] [--models DIR]
                        TEXT [MODEL...]
    PLACE: a folder from which Python imports llama_cpp (the package llama-cpp-python), with numpy;
    left out, what SEMANTIC_LLAMA_CPP names.
    One window of N tokens of TEXT, flash attention; prints a row as soon as a model is done.
    Perplexity, its change with the interval of 95 %, mean KL divergence from f16, same top token:
    counted as `semantic-eval perplexity` counts (kv_quality.py).

Exit status: 0; 1 the text is too short; 77 there is nothing to measure.
"""

import argparse
import math
import pathlib

import llama_cpp_peer

CHUNK = 256  # tokens of one step: their logits are held in every form at once
FIRST = 'f16'  # what the others are compared with


class Form:
    """A context of a model with K and V in one form."""

    def __init__(self, numpy, model, form, options):
        self.numpy, self.width = numpy, model.width
        of = getattr(model.api, f'GGML_TYPE_{form.upper()}')
        self.context = llama_cpp_peer.Context(
            model, options.tokens, CHUNK, options.threads, type_k=of, type_v=of,
            flash_attn_type=model.api.LLAMA_FLASH_ATTN_TYPE_ENABLED)

    def log_probabilities(self, ids, position):
        """Reads ids from `position` on; [ids, vocabulary]."""
        self.context.decode(ids, position, 0)
        logits = self.numpy.stack([self.context.logits(self.numpy, i, self.width)
                                   for i in range(len(ids))]).astype(self.numpy.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - self.numpy.log(self.numpy.exp(logits).sum(axis=1, keepdims=True))


class Score:
    """What one form said of every token that was predicted."""

    def __init__(self):
        self.surprises, self.divergences, self.same = [], [], 0

    def add(self, numpy, said, first, wanted):
        """`said`, `first`: log probabilities of this form and of FIRST, [rows, vocabulary]."""
        self.surprises += (-said[numpy.arange(len(wanted)), wanted]).tolist()
        self.divergences += (numpy.exp(first) * (first - said)).sum(axis=1).tolist()
        self.same += int((said.argmax(axis=1) == first.argmax(axis=1)).sum())


def measure(api, numpy, file, options):
    """Returns form → Score."""
    model = llama_cpp_peer.Model(api, file)
    ids = model.tokenize(pathlib.Path(options.text).read_text(), True, False)
    if len(ids) < options.tokens:
        raise SystemExit(f'{options.text} has {len(ids)} tokens, {options.tokens} are wanted')
    ids = ids[:options.tokens]
    forms = {name: Form(numpy, model, name, options) for name in options.forms}
    scores = {name: Score() for name in forms}
    for begin in range(0, len(ids) - 1, CHUNK):
        chunk = ids[begin:min(begin + CHUNK, len(ids) - 1)]
        wanted = ids[begin + 1:begin + 1 + len(chunk)]
        first = None
        for name, form in forms.items():
            said = form.log_probabilities(chunk, begin)
            first = said if first is None else first
            scores[name].add(numpy, said, first, wanted)
    for form in forms.values():
        form.context.close()
    model.close()
    return scores


def show(numpy, model, scores):
    first = numpy.array(scores[FIRST].surprises)
    for name, score in scores.items():
        rise = numpy.array(score.surprises) - first
        ratio = math.exp(rise.mean())
        doubt = 1.96 * ratio * rise.std(ddof=1) / math.sqrt(len(rise))
        print(f'| {model} | {name} | {math.exp(numpy.mean(score.surprises)):.3f} '
              f'| {100 * (ratio - 1):+.2f} ± {100 * doubt:.2f} '
              f'| {numpy.mean(score.divergences):.4f} | {100 * score.same / len(rise):.1f} |',
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('text', metavar='TEXT')
    parser.add_argument('names', nargs='*', metavar='MODEL')
    llama_cpp_peer.add_options(parser)
    parser.add_argument('--forms', default='q8_0,q4_0', type=lambda names: names.split(','))
    options = parser.parse_intermixed_args()
    options.forms = [FIRST] + [form for form in options.forms if form != FIRST]
    api, numpy = llama_cpp_peer.open_peer(options.llama_cpp)
    there = llama_cpp_peer.files_there(options.names, options.models)
    print(f'llama-cpp-python {api.__version__}, {options.tokens} tokens')
    print('| model | K and V | perplexity | change, % | mean KL | same top, % |')
    print('|---|---|---|---|---|---|')
    for model, file in there:
        show(numpy, model, measure(api, numpy, file, options))


main()
