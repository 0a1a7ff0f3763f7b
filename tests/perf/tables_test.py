# SPDX-License-Identifier: Apache-2.0
"""perf/README.md shows what perf/results/ has; what a measurement wrote gets there unchanged."""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))

import tables  # noqa: E402

RESULT = {"taken": [], "columns": ["what", "ms"], "rows": [["a", 1024], ["", None]]}
TABLE = "| what | ms |\n|---|---|\n| a | 1,024 |\n| | - |"
REPORT = {
    "complete": True,
    "date": "2026-11-29T12:00:00Z",
    "command_line": "semantic-bench agents",
    "machine": {"cpu": "a processor", "cores": 2, "load_average": 0.123},
    "tables": [{"columns": ["x"], "rows": [[1]]}, {"columns": ["y"], "rows": [[2.5]]}],
}


class Tables(unittest.TestCase):
    def test_readme_shows_what_the_result_files_have(self):
        readme = (PERF / "README.md").read_text()
        self.assertEqual(tables.written(readme, tables.results_in(PERF / "results")), (readme, []))

    def test_every_table_of_figures_is_written_from_a_file(self):
        lines = (PERF / "README.md").read_text().split("\n## Figures\n")[1].split("\n")
        above = [before for before, line in zip(lines, lines[1:]) if line.startswith("|")]
        unmarked = [line for line in above if not line.startswith(("|", "<!-- results/"))]
        self.assertEqual(unmarked, [])

    def test_result_files_say_when_and_on_what_they_were_taken(self):
        for name, result in tables.results_in(PERF / "results").items():
            self.assertTrue(result["taken"], name)
            for source in result["taken"]:
                self.assertEqual(set(source), {"date", "commit", "machine", "command"}, name)

    def test_a_table_that_differs_is_named_and_written_again(self):
        for old in (TABLE.replace("1,024", "1,025"), TABLE + "\n| b | 2 |", "not a table"):
            rest = "" if old.startswith("|") else "\n" + old
            document = f"before\n<!-- results/one.json -->\n{old}\nafter"
            expected = f"before\n<!-- results/one.json -->\n{TABLE}{rest}\nafter"
            self.assertEqual(tables.written(document, {"one": RESULT}), (expected, ["one"]))
            self.assertEqual(tables.written(expected, {"one": RESULT}), (expected, []))

    def test_each_file_has_one_marker_and_each_marker_a_file(self):
        marker = "<!-- results/one.json -->\n"
        one = {"one": RESULT}
        for document, results in (("", one), (marker, {}), (2 * marker, one)):
            with self.assertRaises(ValueError):
                tables.written(document, results)

    def test_a_row_has_a_cell_of_each_column(self):
        with self.assertRaises(ValueError):
            tables.table_of({"columns": ["a"], "rows": [[1, 2]]})

    def test_what_was_measured_is_taken_as_it_is(self):
        result = tables.taken(REPORT, 2, "abc")
        self.assertEqual((result["columns"], result["rows"]), (["y"], [[2.5]]))
        self.assertEqual(
            result["taken"],
            [
                {
                    "date": "2026-11-29",
                    "commit": "abc",
                    "machine": "a processor, 2 cores, load 0.1",
                    "command": "semantic-bench agents",
                }
            ],
        )
        self.assertEqual(json.loads(tables.text_of(result)), result)
        with self.assertRaises(ValueError):
            tables.taken(REPORT | {"complete": False}, 1, "abc")

    def test_results_keep_one_row_a_date_commit_and_name(self):
        history = "text\n\n| a |\n|---|\n| old |\n\nmore"
        result = tables.taken(REPORT, 1, "abc")
        once = tables.with_row(history, "one", result, "a model")
        self.assertEqual(once.count("results/one.json"), 1)
        self.assertTrue(once.startswith("text\n\n| a |\n|---|\n| old |\n| 2026-11-29, abc |"))
        self.assertEqual(tables.with_row(once, "one", result, "a model"), once)
        other = tables.with_row(once, "one", tables.taken(REPORT, 1, "abd"), "a model")
        self.assertEqual(other.count("results/one.json"), 2)


if __name__ == "__main__":
    unittest.main()
