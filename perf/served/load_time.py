#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a server takes from its start to its first request, beside reading the model's file.

load_time.py FILE.gguf [--server build/bin/semantic-server] [--rounds 5]

Both in turn, from the page cache: the file is read once before. What a model's K and V need is
measured at its first start ever; that start is made, told and left out. Prints seconds.

Exit status: 0 the median start takes at most twice the median reading, 1 it takes longer.
"""

import argparse
import mmap
import statistics
import tempfile
import time

from own_server import Server

BOUND = 2.0


def seconds_to_read(path):
    """Into memory of the server's kind, huge pages: on a virtual machine that gives free memory
    back to its host, getting such pages anew takes longer than filling them."""
    begin = time.monotonic()
    with open(path, 'rb', buffering=0) as file:
        size = file.seek(0, 2)
        file.seek(0)
        with mmap.mmap(-1, size) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)
            at = 0
            with memoryview(memory) as bytes_of:
                while at < size:
                    at += file.readinto(bytes_of[at:])
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file')
    parser.add_argument('--server', default='build/bin/semantic-server')
    parser.add_argument('--rounds', type=int, default=5)
    options = parser.parse_args()
    seconds_to_read(options.file)
    read, started = [], []
    with tempfile.TemporaryDirectory() as caches:
        for i in range(options.rounds + 1):
            server = Server(options.server, options.file, caches=caches)
            server.stop()
            if i == 0:
                print(f'first start, with its measurement: {server.start_seconds:.2f}')
                continue
            started.append(server.start_seconds)
            read.append(seconds_to_read(options.file))
            print(f'start {started[-1]:.2f}, reading {read[-1]:.2f}', flush=True)
    ratio = statistics.median(started) / statistics.median(read)
    print(f'median start {statistics.median(started):.2f}, '
          f'reading {statistics.median(read):.2f}: {ratio:.2f} times')
    return 0 if ratio <= BOUND else 1


if __name__ == '__main__':
    raise SystemExit(main())
