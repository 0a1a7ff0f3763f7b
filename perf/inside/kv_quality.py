#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each form of K and V costs published models: perplexity, KL divergence, same top token.

kv_quality.py run FOLDER [--eval PROGRAM] [--models DIR] [--model NAME]... [--forms LIST]
                  [--tokens N] TEXT...
    Runs `semantic-eval perplexity` for every model of MODELS (or those named) over every text, one
    after another, into FOLDER/MODEL.TEXT.csv and, by depth too, FOLDER/MODEL.TEXT.log; what is
    there already is kept. Takes hours; fewer forms take less.
kv_quality.py show FOLDER [--svg FILE]
    Prints the table of all that FOLDER holds, and draws KL divergence by form and model.
"""

import argparse
import csv
import math
import pathlib
import subprocess

FORMS = ('16,k8v8,k8m-v5r,k7s-v5r-w16,k7s-v5r,k6s-v5r-w16,k6s-v5r,k6s-v4r-w16,k5s-v4r-w16,k5s-v4r,'
         'k4s-v4r-w16,k4v4')
MODELS = ['semantic-tiny', 'smollm2-135m', 'gemma3-270m', 'qwen2.5-coder-0.5b',
          'qwen2.5-coder-1.5b']


def file_of(model, folder):
    published = pathlib.Path(folder).expanduser() / f'{model}.gguf'
    return published if published.exists() else pathlib.Path('etc/models') / model


def run(options):
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for model in options.model or MODELS:
        for text in options.texts:
            made = folder / f'{model}.{pathlib.Path(text).stem}.csv'
            if made.exists():
                continue
            print(made, flush=True)
            unfinished = made.with_suffix('.part')
            with open(made.with_suffix('.log'), 'w') as log:
                subprocess.run(
                    [options.eval, 'perplexity', '--model', str(file_of(model, options.models)),
                     '--text', text, '--kv', options.forms, '--context', '8192',
                     '--tokens', str(options.tokens), '--compensated', '--csv', str(unfinished)],
                    check=True, stdout=log)
            unfinished.rename(made)


def rows_of(folder):
    """Yields (model, text, row of the CSV with numbers as numbers)."""
    for model in MODELS:
        for path in sorted(pathlib.Path(folder).glob(f'{model}.*.csv')):
            with open(path, newline='') as file:
                for row in csv.DictReader(file):
                    numbers = {k: float(v) for k, v in row.items() if k not in ('model', 'kv')}
                    yield model, path.name[len(model) + 1:-4], {**numbers, 'kv': row['kv']}


def show_table(rows):
    print('| model | text | K and V | bytes % | perplexity | change % | ± | KL | same top % |')
    print('|---|---|---|---|---|---|---|---|---|')
    for model, text, row in rows:
        kv = {'4': 'k4v4', '16': 'k16v16'}.get(row['kv'], row['kv'])
        print(f"| {model} | {text} | {kv} | {row['kv_bytes_pct']:.1f} | {row['ppl']:.3f} "
              f"| {row['ppl_change_pct']:+.2f} | {1.96 * row['ppl_change_se']:.2f} "
              f"| {row['kl_mean']:.4f} | {row['same_top_pct']:.1f} |")


COLOURS = ['#9c6b4e', '#4269d0', '#efb118', '#ff725c', '#6cc5b0']


def draw(rows, path):
    """Bars of the mean KL divergence on the first text of each model, on a logarithmic axis, a
    group for each form."""
    values = {}
    text_of = {}
    for model, text, row in rows:
        if row['kl_mean'] > 0 and text_of.setdefault(model, text) == text:
            values.setdefault(row['kv'], {})[model] = row['kl_mean']
    forms = [f for f in FORMS.split(',') if f in values]
    models = [m for m in MODELS if any(m in values[f] for f in forms)]
    low, high = 1e-4, 10.0
    left, top, width, height = 70, 40, 1000, 300
    group = width / len(forms)

    def y(value):
        share = math.log10(max(value, low) / low) / math.log10(high / low)
        return top + height * (1 - min(share, 1))

    out = ['<svg xmlns="http://www.w3.org/2000/svg" '
           f'width="{left + width + 20}" height="{height + 150}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="20" font-size="14">KL divergence from K and V of 16 bits, '
           'windows of 8,192 tokens</text>']
    for power in range(-4, 2):
        at = y(10.0 ** power)
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}" '
                   'stroke="#ddd"/>')
        out.append(f'<text x="{left - 8}" y="{at + 4:.1f}" '
                   f'text-anchor="end">{10.0 ** power:g}</text>')
    for i, form in enumerate(forms):
        bar = group * 0.8 / len(models)
        for j, model in enumerate(models):
            if model not in values[form]:
                continue
            at = y(values[form][model])
            out.append(f'<rect x="{left + group * (i + 0.1) + bar * j:.1f}" y="{at:.1f}" '
                       f'width="{bar:.1f}" height="{top + height - at:.1f}" fill="{COLOURS[j]}"/>')
        name = {'4': 'k4v4'}.get(form, form)
        x, below = left + group * (i + 0.5), top + height + 14
        out.append(f'<text x="{x:.1f}" y="{below}" text-anchor="end" '
                   f'transform="rotate(-30 {x:.1f} {below})">{name}</text>')
    for j, model in enumerate(models):
        x = left + 160 * j
        out.append(f'<rect x="{x}" y="{top + height + 80}" width="12" height="12" '
                   f'fill="{COLOURS[j]}"/>')
        out.append(f'<text x="{x + 18}" y="{top + height + 91}">{model}</text>')
    out.append('</svg>')
    pathlib.Path(path).write_text('\n'.join(out) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser('run')
    running.add_argument('folder')
    running.add_argument('texts', nargs='+', metavar='TEXT')
    running.add_argument('--eval', default='build/bin/semantic-eval')
    running.add_argument('--models', default='~/.semantic/models')
    running.add_argument('--model', action='append', choices=MODELS)
    running.add_argument('--forms', default=FORMS)
    running.add_argument('--tokens', type=int, default=24576)
    running.set_defaults(call=run)
    showing = commands.add_parser('show')
    showing.add_argument('folder')
    showing.add_argument('--svg')
    showing.set_defaults(call=lambda o: (show_table(list(rows_of(o.folder))),
                                         o.svg and draw(list(rows_of(o.folder)), o.svg)))
    options = parser.parse_args()
    options.call(options)


main()
