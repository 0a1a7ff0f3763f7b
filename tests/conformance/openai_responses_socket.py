# SPDX-License-Identifier: Apache-2.0
"""The vendor's Python SDK over a WebSocket (`responses.connect()`) at BASE_URL: a prompt that is
read ahead, turns, calls, forms, refusals, an answer that is left, and the asynchronous client."""

import asyncio
import json
import os
import sys
import time
import urllib.request

try:
    import websockets  # noqa: F401, what the SDK connects with
    from openai import AsyncOpenAI, OpenAI
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BASE = os.environ["BASE_URL"]
to = {"api_key": "none", "base_url": BASE + "/v1", "max_retries": 0, "timeout": 60}
client = OpenAI(**to)
MODEL = client.models.list().data[0].id
DRAWN = {"model": MODEL, "max_output_tokens": 60, "temperature": 0, "store": False}
SYSTEM = {"role": "developer", "content": "You help people with their dogs. " * 20}
DOG, QUESTION = "My dog is called Biscuit.", "What is my dog called?"
LINES = [DOG, "I was born in Perth, by the way.", QUESTION]
LAST = ("response.completed", "response.incomplete", "response.failed", "error")


def user(text):
    return [{"role": "user", "content": text}]


def rest(connection):
    """The events of the response that comes next."""
    events = []
    while not events or events[-1].type not in LAST:
        events.append(connection.recv())
    return events


def ask(connection, **more):
    """The response, whose stream is as it should be."""
    connection.response.create(**{**DRAWN, **more})
    events = rest(connection)
    response = events[-1].response
    assert events[0].type == "response.created", events[0]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(pieces) == response.output_text, pieces
    return response


def cached(response):
    return response.usage.input_tokens_details.cached_tokens


def stored(response):
    """The token that ended the answer was not run."""
    return response.usage.total_tokens - 1


def shares(responses):
    return " ".join(f"{cached(each) / each.usage.input_tokens:.1%}" for each in responses)


with client.responses.connect() as connection:
    warm = ask(connection, generate=False, input=[SYSTEM])
    assert warm.status == "completed" and warm.output == [], warm
    said = []
    for line in LINES:
        before = said[-1] if said else warm
        said.append(ask(connection, previous_response_id=before.id, input=user(line)))
        known = stored(before) if before is not warm else 0.9 * warm.usage.input_tokens
        assert cached(said[-1]) >= known, (said[-1].usage, known)
    assert "Biscuit" in said[-1].output_text, said[-1].output_text
    print(f"holds   a socket warms up and then says what is new alone ({shares(said)} reused)")

    posted = [SYSTEM, *user(DOG), *said[0].output, *user(LINES[1])]
    whole = client.responses.create(**DRAWN, input=posted)
    assert whole.output_text == said[1].output_text, (whole.output_text, said[1].output_text)
    fork = ask(connection, input=[*posted, *said[1].output, *user(QUESTION)])
    assert fork.output_text == said[2].output_text
    print("holds   it says what a POST of the whole conversation says")

    connection.response.create(**DRAWN, previous_response_id="resp_none", input="x")
    (lost,) = rest(connection)
    assert lost.type == "error", lost
    assert lost.error.code == "previous_response_not_found", lost
    connection.response.create(**{**DRAWN, "max_output_tokens": -5}, input="x")
    (refused,) = rest(connection)
    assert refused.type == "error", refused
    assert ask(connection, input=DOG).status == "completed"
    print("holds   what is refused says so, and the socket goes on")

    for line in LINES:
        connection.response.create(**DRAWN, input=line)
    answers = [rest(connection)[-1].response for _ in LINES]
    for line, answer in zip(LINES, answers):
        assert answer.output_text == client.responses.create(**DRAWN, input=line).output_text
    print("holds   requests that come at once are answered in turn")

    for lane in ("one", "two"):
        connection.response.create(**DRAWN, stream_id=lane, input=DOG)
    for lane in ("one", "two"):
        assert all(event.stream_id == lane for event in rest(connection))
    connection.response.steer(input="Stop.", previous_response_id=said[-1].id)
    back = connection.recv()
    assert back.type == "response.steer.failed" and back.steer.input == "Stop.", back
    assert back.error.code == "steering_not_supported", back
    print("holds   events name the lane of their request, and what would steer is handed back")

    kept = ask(connection, input=DOG, store=True)
    assert client.responses.retrieve(kept.id).output_text == kept.output_text
    after = client.responses.create(**DRAWN, previous_response_id=kept.id, input=QUESTION)
    assert cached(after) >= stored(kept) and "Biscuit" in after.output_text, after
    print("holds   a response that is stored is read and followed by POST")

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
with client.responses.connect() as connection:
    question = [SYSTEM, *user("What is the weather in five towns?")]
    turns = [ask(connection, input=question, tools=[TOOL], tool_choice="required")]
    for degrees in range(5):
        calls = [item for item in turns[-1].output if item.type == "function_call"]
        assert calls and all("city" in json.loads(call.arguments) for call in calls), turns[-1]
        results = [{"type": "function_call_output", "call_id": call.call_id,
                    "output": f"{degrees} degrees"} for call in calls]
        turns.append(ask(connection, previous_response_id=turns[-1].id, input=results,
                         tools=[TOOL], tool_choice="required" if degrees < 4 else "none"))
        assert cached(turns[-1]) >= stored(turns[-2]) - 1, (turns[-1].usage, turns[-2].usage)
    print(f"holds   a loop of five calls goes on from each call ({shares(turns[1:])} reused)")

    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}},
              "required": ["name"], "additionalProperties": False}
    form = {"format": {"type": "json_schema", "name": "dog", "strict": True, "schema": schema}}
    formed = ask(connection, input=user(QUESTION), text=form)
    assert set(json.loads(formed.output_text)) == {"name"}, formed.output_text
    print("holds   an answer has its form")


def running():
    return json.load(urllib.request.urlopen(BASE + "/health/ready", timeout=30))["requests_running"]


texts = {"type": "array", "minItems": 9, "items": {"type": "string", "minLength": 10_000}}
endless = {"format": {"type": "json_schema", "name": "texts", "strict": False, "schema": texts}}
with client.responses.connect() as connection:
    connection.response.create(**{**DRAWN, "max_output_tokens": 30_000}, input="x", text=endless)
    while connection.recv().type != "response.output_text.delta":
        pass
    assert running() == 1
limit = time.monotonic() + 10
while running() > 0:
    assert time.monotonic() < limit, "the answer goes on although its client has left"
    time.sleep(0.02)
print("holds   an answer ends when its socket is left")


async def converse():
    async with AsyncOpenAI(**to) as sdk, sdk.responses.connect() as connection:
        answer = None
        for line in LINES:
            previous = {} if answer is None else {"previous_response_id": answer.id}
            await connection.response.create(**DRAWN, **previous, input=line)
            async for event in connection:
                if event.type in LAST:
                    break
            answer = event.response
        return answer.output_text


assert "Biscuit" in asyncio.run(converse())
print("holds   the asynchronous client converses")
