#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logits of the golden GGUF files of hybrids, as this program and as llama.cpp computes them.

golden_logits.py --llama-cpp FOLDER [NAME...]
    FOLDER: from where Python imports llama_cpp (the package llama-cpp-python), with numpy; left
    out, what SEMANTIC_LLAMA_CPP names. NAME: of tests/golden/gguf/NAME.gguf; left out, all of them.
    Each file is written with its matrices as F32, Q8_0 and Q4_0 and read by both programs: 120
    tokens, in pieces of 48. Prints the root mean square of the difference over the spread of
    llama.cpp's logits, of each position, the median: in per cent, of the logits as they are and of
    `--compensated` ones, whose activations are nearly floats.

Exit status: 0 all within the bounds, 1 not, 77 there is nothing to compare with.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import llama_cpp_peer

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / 'tests/golden/gguf'
TOKENS, PIECE = 120, 48
# Per cent, by the type of the weights. Both programs multiply F32 weights with float activations.
# With weights in blocks both round activations to 8 bits, each in its own way, which alone moves
# the logits of so small a model by 2 to 7 % of their spread; a layer that is read wrong, by 30.
BOUNDS = {'F32': 0.2, 'Q8_0': 10.0, 'Q4_0': 10.0}
ALIGNMENT = 32
F32, BF16 = 0, 30
SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q',
           12: 'd'}
STRING, ARRAY = 8, 9


class Reader:
    """The header of a GGUF file."""

    def __init__(self, data):
        self.data, self.at = data, 4
        _, tensors, pairs = self.number('I'), self.number('Q'), self.number('Q')
        begin = self.at
        for _ in range(pairs):
            self.string()
            self.skip_value(self.number('I'))
        self.pairs, self.pair_count = data[begin:self.at], pairs
        entries = [self.entry() for _ in range(tensors)]
        self.at += -self.at % ALIGNMENT
        self.tensors = [(name, shape, kind, self.at + offset)
                        for name, shape, kind, offset in entries]

    def number(self, letter):
        value, = struct.unpack_from('<' + letter, self.data, self.at)
        self.at += struct.calcsize('<' + letter)
        return value

    def string(self):
        size = self.number('Q')
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.number('I'), self.number('Q')
            if element == ARRAY:
                raise ValueError('arrays of arrays are in no golden file')
            for _ in range(count):
                self.skip_value(element)
        else:
            self.number(SCALARS[kind])

    def entry(self):
        name = self.string()
        shape = [self.number('Q') for _ in range(self.number('I'))]
        return name, shape, self.number('I'), self.number('Q')


def q8_0(numpy, values):
    """Blocks of a scale in half precision and 32 codes."""
    blocks = values.reshape(-1, 32)
    scales = (numpy.abs(blocks).max(axis=1, keepdims=True) / 127).astype(numpy.float16)
    codes = numpy.rint(blocks / numpy.where(scales == 0, 1, scales).astype(numpy.float32))
    return numpy.hstack([scales.view(numpy.uint8),
                         codes.clip(-127, 127).astype(numpy.int8).view(numpy.uint8)]).tobytes()


def q4_0(numpy, values):
    """Blocks of a scale in half precision and 32 codes; code i and code i + 16 share a byte."""
    blocks = values.reshape(-1, 32)
    furthest = numpy.abs(blocks).argmax(axis=1)[:, None]
    scales = (numpy.take_along_axis(blocks, furthest, 1) / -8).astype(numpy.float16)
    codes = numpy.rint(blocks / numpy.where(scales == 0, 1, scales).astype(numpy.float32)) + 8
    codes = codes.clip(0, 15).astype(numpy.uint8)
    return numpy.hstack([scales.view(numpy.uint8), codes[:, :16] | codes[:, 16:] << 4]).tobytes()


def f32(_, values):
    return values.tobytes()


TYPES = {'F32': (F32, f32), 'Q8_0': (8, q8_0), 'Q4_0': (2, q4_0)}


def retype(numpy, data, kind, pack):
    """The file with its BF16 matrices in another type; all else as it is."""
    file = Reader(data)
    head, body = b'', b''
    for name, shape, old, begin in file.tensors:
        count = int(numpy.prod(shape))
        if old == BF16:
            halves = numpy.frombuffer(data, numpy.uint16, count, begin)
            kind_now = kind
            packed = pack(numpy, (halves.astype(numpy.uint32) << 16).view(numpy.float32))
        elif old == F32:
            kind_now, packed = old, data[begin:begin + 4 * count]
        else:
            raise ValueError(f'{name} is of type {old}')
        body += bytes(-len(body) % ALIGNMENT)
        encoded = name.encode()
        head += struct.pack('<Q', len(encoded)) + encoded + struct.pack('<I', len(shape))
        head += struct.pack(f'<{len(shape)}QIQ', *shape, kind_now, len(body))
        body += packed
    counts = struct.pack('<IQQ', 3, len(file.tensors), file.pair_count)
    head = b'GGUF' + counts + file.pairs + head
    return head + bytes(-len(head) % ALIGNMENT) + body


def llama_cpp_logits(api, numpy, file, ids, threads):
    model = llama_cpp_peer.Model(api, file)
    context = llama_cpp_peer.Context(model, 512, PIECE, threads)
    rows = []
    for begin in range(0, len(ids), PIECE):
        piece = ids[begin:begin + PIECE]
        context.decode(piece, begin, 0)
        rows += [context.logits(numpy, i, model.width).copy() for i in range(len(piece))]
    context.close()
    model.close()
    return numpy.array(rows)


def own_logits(numpy, program, file, ids, compensated, folder):
    tokens, out = folder / 'ids.json', folder / 'logits.safetensors'
    tokens.write_text(json.dumps(ids))
    subprocess.run([program, 'logits', '--model', str(file), '--tokens', str(tokens), '--out',
                    str(out), '--kv-bits', '16', '--chunk', str(PIECE),
                    *(['--compensated'] if compensated else [])],
                   check=True, stdout=subprocess.DEVNULL, timeout=300)
    data = out.read_bytes()
    header = int.from_bytes(data[:8], 'little')
    begin, end = json.loads(data[8:8 + header])['logits']['data_offsets']
    logits = numpy.frombuffer(data[8 + header + begin:8 + header + end], numpy.float32)
    return logits.reshape(len(ids), -1)


def median_error(numpy, got, expected):
    spread = expected.std(axis=1)
    return 100 * float(numpy.median(numpy.sqrt(((got - expected)**2).mean(axis=1)) / spread))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar='NAME')
    llama_cpp_peer.add_options(parser)
    parser.add_argument('--eval', default='build/bin/semantic-eval')
    options = parser.parse_args()
    api, numpy = llama_cpp_peer.open_peer(options.llama_cpp)
    names = options.names or sorted(path.stem for path in GOLDEN.glob('*.gguf'))
    print(f'llama-cpp-python {api.__version__}, {TOKENS} tokens in pieces of {PIECE}')
    print('| model | type | logits off, % | compensated, % |\n|---|---|---|---|')
    good = True
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for name in names:
            golden = (GOLDEN / f'{name}.gguf').read_bytes()
            for type_name, (kind, pack) in TYPES.items():
                file = folder / 'model.gguf'
                file.write_bytes(retype(numpy, golden, kind, pack))
                peer = llama_cpp_peer.Model(api, file)
                ids = [(i * 37 + 11) % peer.width for i in range(TOKENS)]
                peer.close()
                theirs = llama_cpp_logits(api, numpy, file, ids, options.threads)
                rounded, compensated = (
                    median_error(numpy, own_logits(numpy, options.eval, file, ids, each, folder),
                                 theirs) for each in (False, True))
                print(f'| {name} | {type_name} | {rounded:.3f} | {compensated:.4f} |', flush=True)
                good &= max(rounded, compensated) <= BOUNDS[type_name]
    sys.exit(0 if good else 1)


main()
