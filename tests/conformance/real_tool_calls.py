# SPDX-License-Identifier: Apache-2.0
"""Tool calls of a published model: how many required calls are of their schema, and how many calls
are the right ones where the model decides. CALLS says how many of each, REAL_MODEL names the file.
All replies are streamed: what is judged is what the pieces of the arguments make. Ends with 1 below
100 % of required calls or 90 % of right ones. REAL_RECIPE: K and V in that form, instead of the
measured one."""

import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

COUNT = int(os.environ.get("CALLS", "0"))


def tool(name, description, required=None, /, **properties):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def text(description=None, /, **more):
    return {"type": "string", **({"description": description} if description else {}), **more}


EVERYDAY = [
    tool(
        "get_weather",
        "Weather forecast for a city",
        ["city"],
        city=text(),
        days={"type": "integer", "description": "how many days"},
    ),
    tool(
        "convert_currency",
        "Converts an amount of money",
        amount={"type": "number"},
        source=text("ISO code, such as USD"),
        target=text("ISO code, such as EUR"),
    ),
    tool("set_alarm", "Sets an alarm clock", time=text("24-hour time, HH:MM")),
    tool("get_stock_price", "Current price of a share", symbol=text("ticker symbol")),
    tool(
        "translate",
        "Translates a text",
        text=text(),
        language=text("its English name, such as French"),
    ),
    tool(
        "roll_dice", "Rolls dice", count={"type": "integer"}, sides={"type": "integer"}
    ),
]

CITIES = "Paris Rome Tokyo Berlin Cairo Lima Oslo Madrid Vienna Dublin".split()
MONEY = "USD EUR GBP JPY CHF CAD AUD SEK".split()
SHARES = "AAPL MSFT GOOG AMZN TSLA NVDA META NFLX INTC AMD".split()
LANGUAGES = "French German Spanish Italian Dutch Swedish Polish".split()
PHRASES = ["good morning", "thank you", "where is the station?", "I am hungry", 'he said "no"']


def everyday_question(draw):
    """A question, and the tool and arguments that are right for it."""
    kind = draw.randrange(6)
    if kind == 0:
        city = draw.choice(CITIES)
        if draw.random() < 0.5:
            return f"What is the weather in {city}?", "get_weather", {"city": city}
        days = draw.randint(2, 9)
        question = f"Give me the weather forecast for {city} for the next {days} days."
        return question, "get_weather", {"city": city, "days": days}
    if kind == 1:
        source, target = draw.sample(MONEY, 2)
        amount = draw.randint(2, 900)
        right = {"amount": amount, "source": source, "target": target}
        return f"Convert {amount} {source} to {target}.", "convert_currency", right
    if kind == 2:
        at = f"{draw.randint(10, 23)}:{draw.choice(['00', '15', '30', '45'])}"
        return f"Set an alarm for {at}.", "set_alarm", {"time": at}
    if kind == 3:
        symbol = draw.choice(SHARES)
        return f"What is the stock price of {symbol}?", "get_stock_price", {"symbol": symbol}
    if kind == 4:
        phrase, language = draw.choice(PHRASES), draw.choice(LANGUAGES)
        question = f"Translate this into {language}: {phrase}"
        return question, "translate", {"text": phrase, "language": language}
    count, sides = draw.randint(2, 9), draw.choice([4, 6, 8, 10, 12, 20])
    question = f"Roll {count} dice with {sides} sides each."
    return question, "roll_dice", {"count": count, "sides": sides}


FORMS = [
    tool(
        "save_person",
        "Saves a person",
        name=text(maxLength=40),
        age={"type": "integer", "minimum": 0, "maximum": 120},
        email=text(pattern="^[a-z]{1,12}@[a-z]{1,12}\\.com$"),
        tags={"type": "array", "items": text(enum=["friend", "work", "family"]), "maxItems": 3},
    ),
    tool(
        "draw_shape",
        "Draws a shape",
        kind=text(enum=["circle", "square", "star"]),
        at={
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x", "y"],
        },
        filled={"type": "boolean"},
    ),
    tool(
        "write_note",
        "Writes a note",
        ["title"],
        title=text(maxLength=60),
        body=text("may have line breaks and quotes", maxLength=120),
        priority={"type": ["integer", "null"]},
    ),
]
REQUESTS = [
    "Make up something.",
    "My name is Ada, I am 36, ada@example.com, a friend.",
    "A big star, please, at 3.5 and -2.",
    'Note that he said "no\\yes" {twice}.',
    "Hello! How are you?",
    "I do not want you to call anything. Just say hi.",
    "Write two lines: one, and then two.",
    "<tool_call> is a tag. What does it do?",
    "日本語で書いてください。",
    "Count to ten.",
]


def is_of(schema, value):
    """Whether a value is of a schema, as far as those above go."""
    kinds = schema.get("type", [])
    of = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    if not any(of[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str) and len(value) > schema.get("maxLength", 10**9):
        return False
    if isinstance(value, list):
        fits = len(value) <= schema.get("maxItems", 10**9)
        return fits and all(is_of(schema["items"], item) for item in value)
    if isinstance(value, dict):
        known = schema["properties"]
        whole = all(key in value for key in schema["required"])
        return whole and all(key in known and is_of(known[key], value[key]) for key in value)
    if of["number"] and "minimum" in schema:
        return schema["minimum"] <= value <= schema["maximum"]
    return True


def ask(url, question, tools, choice, **more):
    """Returns the calls and the text of a streamed answer, and how many pieces it came in."""
    body = {
        "model": "any",
        "stream": True,
        "messages": [{"role": "user", "content": question}],
        "tools": tools,
        "tool_choice": choice,
        "max_tokens": 250,
        **more,
    }
    request = urllib.request.Request(
        url + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    calls, said, pieces = {}, "", 0
    with urllib.request.urlopen(request, timeout=300) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            for one in json.loads(line[6:])["choices"]:
                said += one["delta"].get("content") or ""
                for part in one["delta"].get("tool_calls", []):
                    call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
                    call["name"] += part["function"].get("name", "")
                    call["arguments"] += part["function"]["arguments"]
                    pieces += 1
    return list(calls.values()), said, pieces


def same(right, given):
    if isinstance(right, str):
        return isinstance(given, str) and right.lower() in given.lower()
    return given == right


def is_right(call, name, right):
    try:
        given = json.loads(call["arguments"])
    except ValueError:
        return False
    return call["name"] == name and all(same(right[key], given.get(key)) for key in right)


def required_calls(url, draw):
    well_formed = 0
    for i in range(COUNT):
        form = FORMS[i % len(FORMS)]
        name = form["function"]["name"]
        choice = draw.choice(["required", {"type": "function", "function": {"name": name}}])
        question = REQUESTS[(i // len(FORMS)) % len(REQUESTS)]
        calls, said, _ = ask(url, question, [form], choice, temperature=1, seed=i,
                             parallel_tool_calls=False)
        try:
            fits = len(calls) == 1 and calls[0]["name"] == name and is_of(
                form["function"]["parameters"], json.loads(calls[0]["arguments"])
            )
        except ValueError:
            fits = False
        well_formed += fits
        if not fits:
            print("not well-formed:", question, calls, said)
    print(f"required: {well_formed} of {COUNT} well-formed")
    return well_formed == COUNT


def free_calls(url, draw):
    right, bare, streamed = 0, 0, 0
    for _ in range(COUNT):
        question, name, arguments = everyday_question(draw)
        calls, said, pieces = ask(url, question, EVERYDAY, "auto", temperature=0)
        fits = len(calls) == 1 and is_right(calls[0], name, arguments)
        right += fits
        streamed += pieces > 2
        if not fits:
            print("not right:", question, calls, repr(said))
    print(f"auto: {right} of {COUNT} right; arguments of {streamed} in several pieces")
    return right >= 0.9 * COUNT


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_ready(server, url, seconds=900):
    """Waits for a server that loads its model, and does not for one that has ended."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and server.poll() is None:
        try:
            urllib.request.urlopen(url + "/health/ready", timeout=5)
            return True
        except OSError:
            time.sleep(0.2)
    return False


def main():
    if COUNT == 0:
        print("skipped: it runs where CALLS says how many")
        return 77
    folder = os.environ.get("SEMANTIC_REAL_MODELS", pathlib.Path.home() / ".semantic/models")
    model = pathlib.Path(folder) / (os.environ.get("REAL_MODEL", "qwen2.5-coder-1.5b") + ".gguf")
    if not model.exists():
        print(f"skipped: {model} is not there (bash etc/get-model.sh {model.stem} fetches it)")
        return 77
    program = os.environ["CONFORMANCE_SERVER"]
    recipe = os.environ.get("REAL_RECIPE")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as cache:
        # What the tests are told by variables is no option of the server's.
        told = {key: value for key, value in os.environ.items() if not key.startswith("SEMANTIC_")}
        server = subprocess.Popen(
            [program, "--model", model, "--port", str(port), "--cache-dir", cache]
            + (["--kv-recipe", recipe] if recipe else []),
            stdout=subprocess.DEVNULL,
            env=told,
        )
        try:
            if not is_ready(server, url):
                print(f"the server is not ready; it has ended with {server.poll()}")
                return 1
            began = time.monotonic()
            good = required_calls(url, random.Random(1))
            good = free_calls(url, random.Random(2)) and good
            print(f"{time.monotonic() - began:.0f} s")
            return 0 if good else 1
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
