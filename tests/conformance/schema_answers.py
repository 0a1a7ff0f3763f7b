# SPDX-License-Identifier: Apache-2.0
"""Answers drawn at random to every schema of tests/golden/schemas, validated by an independent
implementation of JSON Schema, formats included. usage: schema_answers.py ENGINE_TESTS;
SCHEMA_DRAWS says how many answers to each schema."""

import collections
import datetime
import decimal
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    from jsonschema import Draft202012Validator, FormatChecker, ValidationError
    from jsonschema.validators import extend, validator_for
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

formats = FormatChecker(["date", "uuid", "ipv4", "ipv6"])  # those that a grammar holds
formats.checkers = {**formats.checkers}


@formats.checks("date-time", ValueError)
def is_moment(value):
    return not isinstance(value, str) or bool(
        re.match(r"\d{4}-\d\d-\d\dT", value) and datetime.datetime.fromisoformat(value)
    )


@formats.checks("time")
def is_time(value):
    return not isinstance(value, str) or bool(
        re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(Z|[+-]\d\d:\d\d)", value)
    )


@formats.checks("email")
def is_mail(value):
    return not isinstance(value, str) or bool(re.fullmatch(r"[^@\s]+@[^@\s]+\.[A-Za-z]+", value))


def multiple_of(validator, step, value, schema):
    """In decimals, as both were written: 0.07 is seven times 0.01."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if decimal.Decimal(repr(value)) % decimal.Decimal(repr(step)):
            yield ValidationError(f"{value} is not a multiple of {step}")


def left_out(schema, keywords):
    """The schema without the keywords that the server names as not held."""
    if isinstance(schema, list):
        return [left_out(each, keywords) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: left_out(v, keywords) for k, v in schema.items() if k not in keywords}


def without_dropped(line):
    sentences = [each.split(": ", 1)[1] for each in line["dropped"]]
    keywords = {word for each in sentences for word in re.findall(r"'(\$?\w+)'", each)}
    if any(each.startswith("pattern '") for each in sentences):
        keywords |= {"pattern"}
    if "patternProperties" in keywords:
        keywords.add("additionalProperties")
    if keywords & {"if", "then", "else"}:
        keywords |= {"if", "then", "else"}
    return left_out(line["schema"], keywords)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "answers.jsonl")
    subprocess.run(
        [sys.argv[1], "--gtest_filter=schema_corpus.answers_drawn_*"],
        env={"SCHEMA_DRAWS": "4", **os.environ, "SCHEMA_ANSWERS": path},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]

validators, wrong = {}, collections.Counter()
for line in lines:
    name = line["of"] + ": " + line["name"]
    if name not in validators:
        schema = without_dropped(line)
        kind = validator_for(schema, default=Draft202012Validator)
        kind = extend(kind, {"multipleOf": multiple_of})
        validators[name] = kind(schema, format_checker=formats)
    try:
        error = next(validators[name].iter_errors(json.loads(line["answer"])), None)
    except Exception as failure:  # what the validator itself cannot read of the schema
        error = failure
    if error is None:
        continue
    wrong[name] += 1
    if wrong[name] == 1:
        print(f"{name}: {line['answer'][:300]}\n    {str(error)[:300]}")
assert len(lines) >= 1000, len(lines)
assert not wrong, f"{sum(wrong.values())} of {len(lines)} answers are wrong"
print(f"{len(lines)} answers drawn to {len(validators)} schemas validate")
