#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden models' GGUF files beside llama.cpp, as F32, Q8_0 and Q4_K, K and V of 16 bit: logits
and greedy answers on the tokens of the golden references.

golden_beside_llama_cpp.py --llama-cpp PLACE [MODEL...]
    PLACE: as beside_llama_cpp.py has it. MODEL: a name in tests/golden/gguf; left out, all.
    llama.cpp's own quantiser makes the files (the types of Q8_0 and Q4_K_M; a row that is no
    whole block gets the type that it falls back to).
    Prints a table. "off": root mean square of the difference to `--compensated` logits of ours,
    whose activations are nearly floats, over their spread; of positions, the median. Of each
    answer's first difference: whether both sides' noise explains it.

Exit status: 0 all within the bounds, 1 not, 77 there is nothing to compare with.
"""

import argparse
import ctypes
import json
import pathlib
import struct
import sys
import tempfile

import beside_llama_cpp
import llama_cpp_peer

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / 'tests' / 'golden'
MODEL_CONTEXT = 8192  # above the length to which Phi-3 has other factors of rope
# Of EXAONE 4 llama.cpp gives windows to files of 64 layers alone.
LEFT_OUT = ('exaone4',)
BF16_BYTES, STEP = 2, struct.Struct('<BQQ')
TYPES = {'F32': 0, 'Q8_0': 7, 'Q4_K': 15}  # llama_ftype
# Percent, of ours and of llama.cpp's logits. F32 differs by llama.cpp's table of GELU in f16 alone;
# blocks by activations of 8 bits, of which we correct more where there is a router. LFM2 multiplies
# three products with each other.
OFF_BOUNDS = {'F32': (0.01, 0.1), 'Q8_0': (8.0, 15.0), 'Q4_K': (8.0, 15.0)}


def folder_of(name):
    """The golden folder whose weights the GGUF has."""
    for folder in (name, name + '-published'):
        if (GOLDEN / 'models' / folder / 'model.safetensors').exists():
            return GOLDEN / 'models' / folder
    raise SystemExit(f'{name}: no golden model has its weights')


def followed(recipe, weights):
    """The file that a recipe of tests/golden/gguf/make_recipe.py puts together."""
    made, at = bytearray(), 0
    while at < len(recipe):
        kind, first, count = STEP.unpack_from(recipe, at)
        at += STEP.size
        if kind == 2:
            made += recipe[at:at + first]
            at += first
        elif kind == 0:
            made += weights[first:first + count]
        else:
            for i in range(first, first + BF16_BYTES * count, BF16_BYTES):
                made += b'\0\0' + weights[i:i + BF16_BYTES]
    return bytes(made)


def write_original(name, file):
    whole = GOLDEN / 'gguf' / f'{name}.gguf'
    if whole.exists():
        file.write_bytes(whole.read_bytes())
        return
    file.write_bytes(followed((GOLDEN / 'gguf' / f'{name}.recipe').read_bytes(),
                              (folder_of(name) / 'model.safetensors').read_bytes()))


def quantise(api, original, file, file_type):
    params = api.llama_model_quantize_default_params()
    params.ftype, params.nthread = file_type, 1
    status = api.llama_model_quantize(str(original).encode(), str(file).encode(),
                                      ctypes.byref(params))
    if status != 0:
        raise RuntimeError(f'llama.cpp does not quantise {original.name}')


def tensor(numpy, file, name):
    data = file.read_bytes()
    header = int.from_bytes(data[:8], 'little')
    found = json.loads(data[8:8 + header])[name]
    begin, end = found['data_offsets']
    kind = {'I64': numpy.int64, 'F32': numpy.float32}[found['dtype']]
    return numpy.frombuffer(data[8 + header + begin:8 + header + end],
                            dtype=kind).reshape(found['shape'])


def off(numpy, got, expected):
    """Percent of the spread; the median over positions, because a router's other choice changes
    its own."""
    each = numpy.sqrt(((got - expected) ** 2).mean(axis=1)) / expected.std(axis=1)
    return 100 * float(numpy.median(each))


def all_logits(ours, numpy, ids, positions, compensated):
    ids_file, out = ours.folder / 'ids.json', ours.folder / 'all.safetensors'
    ids_file.write_text(json.dumps(ids))
    ours.call('logits', '--tokens', str(ids_file), '--out', str(out), '--positions',
              ','.join(map(str, positions)), '--kv-bits', '16',
              *(['--compensated'] if compensated else []))
    return tensor(numpy, out, 'logits')


def compare_answers(ours, peer, ids, prompts, count):
    """Yields None for the same answer, else what its first difference is."""
    for length in prompts:
        prompt = ids[:length]
        theirs, seen = peer.greedy(prompt, count)
        answer = ours.greedy(prompt, count)
        at = next((i for i, (a, b) in enumerate(zip(answer, theirs)) if a != b), None)
        if at is None:
            yield None
            continue
        yield {'prompt': length, 'token': at,
               **beside_llama_cpp.difference(peer.numpy, ours, prompt + theirs[:at], answer[at],
                                             theirs[at], seen[at])}


def compare(name, kind, original, options, api, numpy, folder):
    """Prints a row. Returns whether all is within the bounds."""
    file = pathlib.Path(folder) / f'{name}-{kind}.gguf'
    quantise(api, original, file, TYPES[kind])
    expected = folder_of(name) / 'expected.safetensors'
    ids = [int(each) for each in tensor(numpy, expected, 'input_ids')]
    positions = [int(each) for each in tensor(numpy, expected, 'positions')]
    answers = json.loads(expected.with_suffix('.json').read_text())['greedy']
    ours = beside_llama_cpp.Ours(options.eval, file, folder)
    peer = beside_llama_cpp.Peer(api, numpy, file, options.threads, MODEL_CONTEXT)
    try:
        theirs = numpy.array(list(peer.read(ids, 0, 0)))[positions]
        exact, own = (all_logits(ours, numpy, ids, positions, each) for each in (True, False))
        found = list(compare_answers(ours, peer, ids, [each['prompt_tokens'] for each in answers],
                                     len(answers[0]['new_tokens'])))
    finally:
        peer.close()
        file.unlink()
    differences = [each for each in found if each]
    explained = sum(each['ratio'] <= beside_llama_cpp.NOISE_BOUND for each in differences)
    mine, other, apart = (off(numpy, *pair) for pair in
                          ((own, exact), (theirs, exact), (own, theirs)))
    print(f'| {name} | {kind} | {mine:.3f} | {other:.3f} | {apart:.3f} '
          f'| {len(found) - len(differences)} of {len(found)} '
          f'| {explained} of {len(differences)} |', flush=True)
    for each in differences:
        print(f"    {name} {kind}: after {each['prompt']}, token {each['token']}, "
              f"{each['ratio']:.1f} times the noise", file=sys.stderr)
    bounds = OFF_BOUNDS[kind]
    return (mine <= bounds[0] and other <= bounds[1] and explained == len(differences) and
            not (kind == 'F32' and differences))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar='MODEL')
    llama_cpp_peer.add_options(parser)
    parser.add_argument('--eval', default='build/bin/semantic-eval')
    options = parser.parse_args()
    api, numpy = llama_cpp_peer.open_peer(options.llama_cpp)
    names = options.names or sorted(each.stem for each in (GOLDEN / 'gguf').iterdir()
                                    if each.suffix in ('.recipe', '.gguf') and
                                    each.stem not in LEFT_OUT)
    print('| model | type | ours off, % | llama.cpp off, % | apart, % | same answers '
          '| differences within the noise |')
    print('|---|---|---|---|---|---|---|')
    good = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            original = pathlib.Path(folder) / f'{name}.gguf'
            write_original(name, original)
            # Every row is printed, whatever became of the one before.
            good += [compare(name, kind, original, options, api, numpy, folder) for kind in TYPES]
    sys.exit(0 if all(good) else 1)


if __name__ == '__main__':
    main()
