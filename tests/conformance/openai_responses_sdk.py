# SPDX-License-Identifier: Apache-2.0
"""The vendor's Python SDK against Responses at BASE_URL: answers, tools, forms, refusals."""

import json
import os
import sys
import urllib.error
import urllib.request

try:
    from openai import BadRequestError, NotFoundError, OpenAI
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BASE = os.environ["BASE_URL"]
client = OpenAI(api_key="none", base_url=BASE + "/v1", max_retries=0, timeout=60)
MODEL = client.models.list().data[0].id

LINES = ["My dog is called Biscuit.", "I was born in Perth, by the way.", "What is my dog called?"]


def request(items, **more):
    return {"model": MODEL, "max_output_tokens": 60, "temperature": 0, "input": items,
            "store": False, **more}


def plain_turn(items, opening):
    return client.responses.create(**request(items, instructions=opening))


def streamed_turn(items, opening):
    with client.responses.stream(**request(items, instructions=opening)) as stream:
        events = list(stream)
        response = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert [event.sequence_number for event in events] == list(range(len(events)))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 1, "the answer came in one piece"
    assert "".join(pieces) == response.output_text
    return response


def converse(turn, opening):
    """Has the conversation, its items sent again each turn; returns its answers. Each turn reuses
    all that was stored before."""
    items, answers, stored = [], [], 0
    for line in LINES:
        items.append({"role": "user", "content": line})
        response = turn(items, opening)
        usage = response.usage
        assert usage.input_tokens_details.cached_tokens >= stored, (usage, stored)
        # The token that ended the answer was not run.
        stored = usage.total_tokens - 1
        items += response.output
        answers.append(response.output_text)
    return answers


plain = converse(plain_turn, "You help.")
assert "Biscuit" in plain[-1], plain
assert converse(streamed_turn, "You help!") == converse(plain_turn, "You help!")
print("holds   plain and streamed conversations agree and remember")

TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
question = [{"role": "user", "content": "What is the weather in Perth?"}]
forced = request(question, tools=[TOOL, {"type": "web_search"}], tool_choice="required")
called = client.responses.create(**forced)
calls = [item for item in called.output if item.type == "function_call"]
assert calls and all("city" in json.loads(call.arguments) for call in calls), called.output
assert called.model_extra["semantic"]["left_out"] == ["web_search"]
with client.responses.stream(**forced) as stream:
    streamed = stream.get_final_response()
assert [(i.name, i.arguments) for i in streamed.output if i.type == "function_call"] == [
    (call.name, call.arguments) for call in calls]
results = [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
           for call in calls]
after = client.responses.create(**request(question + called.output + results, tools=[TOOL]))
used = after.usage
assert used.input_tokens_details.cached_tokens >= called.usage.total_tokens - 1, used
print("holds   calls are made, streamed alike, and their results continue the memory")

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
formed = client.responses.create(
    **request(question, text={"format": {"type": "json_schema", "name": "person", "strict": True,
                                         "schema": SCHEMA}}))
if formed.status == "completed":
    assert set(json.loads(formed.output_text)) == {"name", "age"}, formed.output_text
cut = client.responses.create(**{**request("Tell me a story."), "max_output_tokens": 3})
assert cut.status == "incomplete", cut.status
assert cut.incomplete_details.reason == "max_output_tokens"
scored = client.responses.create(
    **request("Hi", include=["message.output_text.logprobs"], top_logprobs=2))
tokens = scored.output[0].content[0].logprobs
assert tokens and all(len(token.top_logprobs) == 2 for token in tokens)
print("holds   forms, limits and scores")

try:
    client.responses.create(**request("Hi", previous_response_id="resp_gone"))
    raise AssertionError("a response that is not kept was continued")
except NotFoundError as error:
    assert error.code == "previous_response_not_found", error.body
try:
    client.responses.create(**request("word " * 40_000))
    raise AssertionError("a prompt that is too long was taken")
except BadRequestError as error:
    assert error.code == "context_length_exceeded", error.body
print("holds   refusals have the vendor's codes")

upgrade = urllib.request.Request(BASE + "/v1/responses", headers={
    "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
try:
    urllib.request.urlopen(upgrade, timeout=10)
    raise AssertionError("a WebSocket was promised")
except urllib.error.HTTPError as error:
    assert error.code == 426, error.code
print("holds   who asks for a WebSocket is told to post")
