#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes NAME.recipe: how NAME.gguf, which llama.cpp's converter made of a folder's weights, is put
together from the folder's model.safetensors. Most of its bytes are rows of that file, in another
order or widened to F32; a recipe names them instead of repeating them.

    make_recipe.py NAME.gguf FOLDER/model.safetensors NAME.recipe

A recipe is a row of steps, each of a byte and two little-endian 64-bit numbers:
    0 offset length   bytes of model.safetensors
    1 offset count    as many BF16 numbers of it, as F32
    2 length 0        the bytes that follow
tests/engine/model/weights/golden_gguf.cpp follows it.
"""
import json
import struct
import sys

BF16, F32 = 30, 0


def read_sources(data):
    """Every row of every tensor, as bytes, and where it is; and of F32 tensors the same."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    rows = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        size = {"BF16": 2, "F32": 4}[tensor["dtype"]]
        width = tensor["shape"][-1] * size
        begin, end = (8 + length + each for each in tensor["data_offsets"])
        for at in range(begin, end, width):
            rows.setdefault(data[at : at + width], at)
    return rows


class reader:
    kinds = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind):
        size = struct.calcsize("<" + kind)
        value = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += size
        return value

    def text(self):
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner = self.number("I")
            return [self.value(inner) for _ in range(self.number("Q"))]
        return self.number(self.kinds[kind])

    def tensors(self):
        """(offset in the file, type, row length in elements, rows), by offset."""
        self.at = 8
        count, pairs = self.number("Q"), self.number("Q")
        keys = {}
        for _ in range(pairs):
            key = self.text()
            keys[key] = self.value(self.number("I"))
        found = []
        for _ in range(count):
            self.text()
            shape = [self.number("Q") for _ in range(self.number("I"))]
            kind, offset = self.number("I"), self.number("Q")
            rows = 1
            for each in shape[1:]:
                rows *= each
            found.append((offset, kind, shape[0], rows))
        step = keys.get("general.alignment", 32)
        begin = (self.at + step - 1) // step * step
        return sorted((begin + offset, kind, width, rows) for offset, kind, width, rows in found)


def main():
    made, source = (open(path, "rb").read() for path in sys.argv[1:3])
    rows = read_sources(source)
    steps = []  # [kind, offset or bytes, length]

    def literal(data):
        if steps and steps[-1][0] == 2:
            steps[-1][1] += data
        elif data:
            steps.append([2, data, 0])

    def take(kind, offset, length, size):
        if steps and steps[-1][0] == kind and steps[-1][1] + steps[-1][2] * size == offset:
            steps[-1][2] += length
        else:
            steps.append([kind, offset, length])

    end = 0
    for begin, kind, width, count in reader(made).tensors():
        literal(made[end:begin])
        end = begin
        for _ in range(count):
            data = made[end : end + width * {BF16: 2, F32: 4}[kind]]
            end += len(data)
            narrow = b"".join(data[i + 2 : i + 4] for i in range(0, len(data), 4))
            if data in rows:
                take(0, rows[data], len(data), 1)
            elif kind == F32 and narrow in rows and not any(data[0::4]) and not any(data[1::4]):
                take(1, rows[narrow], width, 2)
            else:
                literal(data)
    literal(made[end:])
    with open(sys.argv[3], "wb") as out:
        for kind, first, length in steps:
            if kind == 2:
                out.write(struct.pack("<BQQ", 2, len(first), 0) + first)
            else:
                out.write(struct.pack("<BQQ", kind, first, length))


if __name__ == "__main__":
    main()
