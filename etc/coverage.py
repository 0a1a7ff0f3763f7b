#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what gcov says of a build's counters: coverage.py BUILD MODULE...

A line of the table: a module, how many of its lines have code, how many of them ran, the share;
then the ten files of more than 50 such lines that ran least.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

LEAST_SHOWN = 10
LINES_TO_COUNT = 50


def lines_of(counters):
    """[(source, line, how often)] of one object file."""
    counted = subprocess.run(['gcov', '--json-format', '--stdout', str(counters)],
                          capture_output=True, check=False)
    found = []
    for text in counted.stdout.decode(errors='replace').splitlines():
        if text.startswith('{'):
            found += [(source['file'], line['line_number'], line['count'])
                      for source in json.loads(text)['files'] for line in source['lines']]
    return found


def main():
    build, modules = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    root = build.parent
    ran = {}
    # Objects that nothing linked has started have no counters; their lines count as well.
    objects = sorted(build.rglob('*.gcno'))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(lines_of, objects):
            for source, line, count in found:
                path = pathlib.Path(build, source).resolve()
                if not path.is_relative_to(root) or path.is_relative_to(build):
                    continue
                name = str(path.relative_to(root))
                if name.split('/')[0] in modules:
                    lines = ran.setdefault(name, {})
                    lines[line] = max(lines.get(line, 0), count)
    print('| module | lines | ran | % |\n|---|---|---|---|')
    for module in [*modules, '']:
        lines = [count for name, of in ran.items() if name.startswith(module and module + '/')
                 for count in of.values()]
        hit = sum(count > 0 for count in lines)
        share = 100 * hit / len(lines) if lines else 0
        print(f'| {module or "all"} | {len(lines)} | {hit} | {share:.1f} |')
    shares = sorted((sum(count > 0 for count in of.values()) / len(of), name)
                    for name, of in ran.items() if len(of) > LINES_TO_COUNT)
    for share, name in shares[:LEAST_SHOWN]:
        print(f'{100 * share:5.1f} %  {name}')


if __name__ == '__main__':
    main()
