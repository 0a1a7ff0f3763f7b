#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds to digests.json what the package tokenizers (seen with 0.23.3) makes of 10,000 lines in six scripts.
usage: make.py NAME TOKENIZER_JSON [NAME TOKENIZER_JSON ...]   (in its folder)"""
import json, os, sys
import tokenizers

ALL = (1 << 64) - 1


class Random:   # the same as in tests/engine/text/real_tokenizers_test.cpp
    def __init__(self): self.state = 20

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & ALL
        return (self.state >> 33) % bound


def lines():
    file = json.load(open('lines.json'))
    scripts, between, random = list(file['scripts'].items()), file['between'], Random()
    latin = file['scripts']['latin']['words']
    out = {name: [] for name, _ in scripts}
    for i in range(file['lines']):
        name, script = scripts[i % len(scripts)]
        line = ''
        for _ in range(3 + random.below(14)):
            kind = random.below(8)
            if kind < 5: line += script['words'][random.below(len(script['words']))]
            elif kind == 5: line += latin[random.below(len(latin))]
            else:
                first, last = script['ranges'][random.below(len(script['ranges']))]
                line += chr(first + random.below(last - first + 1))
            line += between[random.below(len(between))]
        out[name].append(line)
    return out


def digest(data):   # FNV-1a
    value = 0xcbf29ce484222325
    for byte in data: value = ((value ^ byte) * 0x100000001b3) & ALL
    return f'{value:016x}'


def digest_of_ids(all_ids):   # each line behind its number of ids
    return digest(byte for ids in all_ids for number in [len(ids)] + ids for byte in number.to_bytes(4, 'little'))


def digest_of_tokens(path):   # by which a GGUF of the same vocabulary is known; converters write some blanks as such
    file = json.load(open(path))
    by_id = {id: token for token, id in file['model']['vocab'].items()} | {t['id']: t['content'] for t in file['added_tokens']}
    return digest(''.join(by_id[id] for id in sorted(by_id)).replace('▁', ' ').encode())


def main():
    known = json.load(open('digests.json')) if os.path.exists('digests.json') else {}
    for name, path in zip(sys.argv[1::2], sys.argv[2::2]):
        made = tokenizers.Tokenizer.from_file(path)
        known[name] = {'tokens': digest_of_tokens(path)}
        known[name] |= {script: digest_of_ids([made.encode(line, add_special_tokens=False).ids for line in texts]) for script, texts in lines().items()}
    with open('digests.json', 'w') as out: json.dump(known, out, indent=1)


if __name__ == '__main__': main()
