# SPDX-License-Identifier: Apache-2.0
"""Answers held to a form, at BASE_URL: 1,000 random schemas through the vendors' Python SDKs, each
answer validated by an independent implementation of JSON Schema. STRUCTURED_CASES says how many."""

import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

try:
    from anthropic import Anthropic
    from jsonschema import Draft202012Validator
    from openai import BadRequestError, OpenAI
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

URL = os.environ["BASE_URL"]
# A schema may allow answers that never end, and temperature 1.2 finds them: such a one is cut off
# by the limit of tokens, says nothing, and is asked for again with more room.
DRAWS = 12
CASES = int(os.environ.get("STRUCTURED_CASES", "1000"))
openai = OpenAI(api_key="none", base_url=URL + "/v1", max_retries=2, timeout=120)
anthropic = Anthropic(api_key="none", base_url=URL, max_retries=2, timeout=120)
MODEL = openai.models.list().data[0].id

WORDS = ["name", "age", "city", "tags", "size", "über", "a b", "x-y", "left", "right", "kind"]
PATTERNS = [
    "^[a-z]{1,6}$", "^(red|green|blue)$", r"^\d{3}-\d{4}$", "^[A-Z][a-z]+( [A-Z][a-z]+)?$",
    r"^[\w.]{1,8}@[a-z]{2,5}\.(com|org)$", '^"[^"]?"$', r"^\\[nt]$", "^[^a-m]{2}$",
]  # fmt: skip


def bounds(rng, low, high, integer):
    pair = sorted(rng.uniform(low, high) for _ in range(2))
    pair = [round(x) if integer else round(x, rng.randint(0, 4)) for x in pair]
    made = {}
    if rng.random() < 0.7:
        made["minimum"] = pair[0]
    if rng.random() < 0.7:
        made["maximum"] = pair[1]
    elif rng.random() < 0.3:
        made["exclusiveMaximum"] = pair[1] + 1
    return made


def scalar(rng):
    kind = rng.randrange(9)
    if kind == 0:
        least = rng.randint(0, 3)
        return {"type": "string", "minLength": least, "maxLength": least + rng.randint(0, 6)}
    if kind == 1:
        return {"type": "string", "pattern": rng.choice(PATTERNS)}
    if kind == 2:
        return {"type": "integer", **bounds(rng, -300, 300, True)}
    if kind == 3:
        return {"type": "number", **bounds(rng, -50, 50, False)}
    if kind == 4:
        values = ["on", "off", 3, -1.5, None, True, "é\n", [1, "two"], {"deep": False}]
        return {"enum": rng.sample(values, rng.randint(1, 4))}
    if kind == 5:
        return {"type": "string", "format": rng.choice(["date", "time", "uuid", "ipv4"])}
    if kind == 6:
        return {"type": rng.sample(["boolean", "null", "integer"], 2)}
    if kind == 7:
        return {"const": rng.choice(["fixed", 7, None])}
    return {"type": rng.choice(["boolean", "null", "integer", "number"])}


def schema_of(rng, depth):
    kind = rng.randrange(8) if depth > 0 else 7
    if kind <= 2:
        names = rng.sample(WORDS, rng.randint(0, 5))
        made = {
            "type": "object",
            "properties": {name: schema_of(rng, depth - 1) for name in names},
            "required": [name for name in names if rng.random() < 0.7],
        }
        if rng.random() < 0.8:
            made["additionalProperties"] = False
        return made
    if kind == 3:
        least = rng.randint(0, 2)
        return {
            "type": "array",
            "items": schema_of(rng, depth - 1),
            "minItems": least,
            "maxItems": least + rng.randint(0, 2),
        }
    if kind == 4:
        return {"anyOf": [schema_of(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    if kind == 5:
        return {
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": name}, "of": scalar(rng)},
                 "required": ["kind", "of"], "additionalProperties": False}
                for name in ("circle", "square")
            ]
        }  # fmt: skip
    if kind == 6:
        return {"type": "array", "prefixItems": [scalar(rng), scalar(rng)], "items": False,
                "minItems": 2}  # fmt: skip
    return scalar(rng)


def tree(rng):
    """One that refers to itself."""
    node = {
        "type": "object",
        "properties": {
            "value": scalar(rng),
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 1},
        },
        "required": ["value", "children"],
        "additionalProperties": False,
    }
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}


def object_schema(rng):
    return {
        "type": "object",
        "properties": {name: schema_of(rng, 2) for name in rng.sample(WORDS, 2)},
        "required": [],
        "additionalProperties": False,
    }


def as_text(rng, schema, seed, limit):
    """As the text of an answer: in one dialect or the other. Returns: the text, or None when the
    limit of tokens cut it off."""
    ask = [{"role": "user", "content": "Tell me about the dog."}]
    if rng.random() < 0.5:
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        choice = openai.chat.completions.create(
            model=MODEL, messages=ask, max_completion_tokens=limit, temperature=1.2, seed=seed,
            response_format=form,
        ).choices[0]  # fmt: skip
        return choice.message.content if choice.finish_reason == "stop" else None
    reply = anthropic.messages.create(
        model=MODEL, messages=ask, max_tokens=limit,
        extra_body={"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    )  # fmt: skip
    return reply.content[0].text if reply.stop_reason == "end_turn" else None


def as_arguments(rng, schema, limit):
    """As the arguments of a call that is asked for. Returns: those, or None as above."""
    ask = [{"role": "user", "content": "Call it."}]
    if rng.random() < 0.5:
        tool = {"type": "function",
                "function": {"name": "act", "parameters": schema, "strict": True}}  # fmt: skip
        choice = openai.chat.completions.create(
            model=MODEL, messages=ask, tools=[tool], tool_choice="required", temperature=1.2,
            max_completion_tokens=limit, parallel_tool_calls=False,
        ).choices[0]  # fmt: skip
        if choice.finish_reason != "tool_calls":
            return None
        assert len(choice.message.tool_calls) == 1
        return json.loads(choice.message.tool_calls[0].function.arguments)
    reply = anthropic.messages.create(
        model=MODEL, messages=ask, max_tokens=limit,
        tools=[{"name": "act", "input_schema": schema}],
        tool_choice={"type": "tool", "name": "act", "disable_parallel_tool_use": True},
    )  # fmt: skip
    if reply.stop_reason != "tool_use":
        return None
    return reply.content[-1].input


def one(seed):
    rng = random.Random(seed)
    calls = seed % 4 == 3
    if calls:
        schema = object_schema(rng)
    else:
        schema = tree(rng) if seed % 20 == 0 else schema_of(rng, 3)
    for draw in range(DRAWS):
        limit = 600 * (draw + 1)
        if calls:
            value = as_arguments(rng, schema, limit)
            cut = value is None  # arguments are objects
        else:
            text = as_text(rng, schema, seed + draw * CASES, limit)
            cut = text is None
            value = None if cut else json.loads(text)
        if not cut:
            Draft202012Validator(schema).validate(value)
            return "valid"
    return "cut"


def checked(seed):
    try:
        return one(seed)
    except BadRequestError as error:
        # The only refusal that random bounds can earn.
        return "refused" if "no finite answer" in str(error) else f"{seed}: {error}"
    except Exception as error:  # noqa: BLE001: each case reports for itself
        return f"{seed}: {type(error).__name__}: {error}"


with ThreadPoolExecutor(16) as pool:
    results = list(pool.map(checked, range(CASES)))
count = {name: results.count(name) for name in ("valid", "cut", "refused")}
wrong = [result for result in results if result not in count]
print(f"{CASES} schemas: {count}, {len(wrong)} wrong")
for line in wrong[:10]:
    print(line[:600])
assert not wrong
assert count["cut"] == 0, "an answer came to no end in all its draws"

# What cannot be held to is refused, in each dialect, by place and keyword.
try:
    openai.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "x"}],
        response_format={"type": "json_schema",
                         "json_schema": {"name": "n", "strict": True, "schema": {"not": {}}}},
    )  # fmt: skip
    raise AssertionError("'not' was accepted")
except BadRequestError as error:
    assert "'not' is not supported" in str(error), error
answer = openai.chat.completions.create(
    model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=40,
    response_format={"type": "json_schema",
                     "json_schema": {"name": "n", "schema": {"type": "boolean", "not": {}}}},
)  # fmt: skip
assert json.loads(answer.choices[0].message.content) in (True, False), answer
assert answer.semantic["not_held"] == ["#: 'not' is not supported"], answer
print("ok: unsupported keywords are refused by name, or named where the schema is not strict")
