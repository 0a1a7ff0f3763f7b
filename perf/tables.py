# SPDX-License-Identifier: Apache-2.0
"""The tables of figures in perf/README.md, of the files in perf/results/.

tables.py                 writes each table of README.md that has a marker above it:
                          <!-- results/NAME.json -->
tables.py --check         writes nothing, names the tables that differ, and fails where one does
tables.py take RESULT.json --name NAME --commit COMMIT [--table N]
                          replaces results/NAME.json by a table of what `semantic-bench --out`
                          wrote, and adds a row to results.md, one a date, commit and name

A result file: "taken", a list of {date, commit, machine, command}, each null where nobody wrote it
down; "columns"; "rows". Cells are text as it is shown, numbers, or null for what could not be
measured.
"""

import argparse
import json
import pathlib
import re
import sys

PLACE = pathlib.Path(__file__).resolve().parent
MARKER = re.compile(r"^<!-- results/([a-z0-9-]+)\.json -->$")


def shown(cell):
    """A cell as people read it: 1,024; 12.3; what could not be measured as "-"."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{round(cell):,}"
    return f"{cell:.3g}"


def table_of(result):
    """The lines of a table in Markdown."""
    def line(cells):
        return "|" + "".join(f" {shown(cell)} |" if shown(cell) else " |" for cell in cells)

    columns = result["columns"]
    for row in result["rows"]:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells of {len(columns)} columns: {row}")
    return [line(columns), "|" + "---|" * len(columns), *(line(row) for row in result["rows"])]


def written(document, results):
    """`document` with the tables of `results`, and the names of those that differed. Every file has
    one marker, every marker a file."""
    lines = document.split("\n")
    made, names, differ = [], [], []
    i = 0
    while i < len(lines):
        made.append(lines[i])
        i += 1
        marker = MARKER.match(made[-1])
        if not marker:
            continue
        name = marker[1]
        names.append(name)
        if name not in results:
            raise ValueError(f"there is no results/{name}.json")
        end = i
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        table = table_of(results[name])
        if lines[i:end] != table:
            differ.append(name)
        made += table
        i = end
    for name in results:
        if names.count(name) != 1:
            raise ValueError(f"results/{name}.json is shown {names.count(name)} times")
    return "\n".join(made), differ


def text_of(result):
    """A result file's text, a row a line."""
    def listed(items):
        lines = ["    " + json.dumps(item, ensure_ascii=False) for item in items]
        return "[\n" + ",\n".join(lines) + "\n  ]"

    parts = [f'  "{key}": {listed(result[key])}' for key in ("taken", "columns", "rows")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def taken(report, number, commit):
    """The result file of a table, counted from 1, of what `semantic-bench --out` wrote."""
    if not report["complete"]:
        raise ValueError("the measurement broke off before its end")
    table = report["tables"][number - 1]
    machine = report["machine"]
    source = {
        "date": report["date"][:10],
        "commit": commit,
        "machine": "{cpu}, {cores} cores, load {load_average:.1f}".format(**machine),
        "command": report["command_line"],
    }
    return {"taken": [source], "columns": table["columns"], "rows": table["rows"]}


def with_row(history, name, result, model):
    """results.md with a row for this result, in place of that of the same date, commit and name."""
    source = result["taken"][0]
    begin = f"| {source['date']}, {source['commit']} |"
    end = f"| `results/{name}.json` |"
    row = f"{begin} {source['machine']} | {model} | `{source['command']}` {end}"
    lines = history.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(begin) and line.endswith(end):
            lines[i] = row
            return "\n".join(lines)
    first = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("|"))
    return "\n".join([*lines[:last], row, *lines[last:]])


def results_in(folder):
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    commands = parser.add_subparsers(dest="action")
    take = commands.add_parser("take")
    take.add_argument("report", type=pathlib.Path)
    take.add_argument("--name", required=True)
    take.add_argument("--commit", required=True)
    take.add_argument("--table", type=int, default=1)
    asked = parser.parse_args()
    if asked.action == "take":
        report = json.loads(asked.report.read_text())
        result = taken(report, asked.table, asked.commit)
        (PLACE / "results" / f"{asked.name}.json").write_text(text_of(result))
        history = PLACE / "results.md"
        row = with_row(history.read_text(), asked.name, result, report["server"]["model"])
        history.write_text(row)
    readme = PLACE / "README.md"
    document, differ = written(readme.read_text(), results_in(PLACE / "results"))
    for name in differ:
        print(f"perf/README.md: the table of results/{name}.json differs")
    if asked.check:
        sys.exit(1 if differ else 0)
    readme.write_text(document)


if __name__ == "__main__":
    main()
