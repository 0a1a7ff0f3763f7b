# SPDX-License-Identifier: Apache-2.0
"""The vendor's Python SDK against chat completions at BASE_URL: plain, streamed, with tools."""

import os
import sys

try:
    from openai import BadRequestError, OpenAI
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

client = OpenAI(api_key="none", base_url=os.environ["BASE_URL"] + "/v1", max_retries=0, timeout=60)
MODEL = client.models.list().data[0].id

LINES = ["My dog is called Biscuit.", "I was born in Perth, by the way.", "What is my dog called?"]


def request(messages, session):
    return {
        "model": MODEL,
        "max_completion_tokens": 60,
        "temperature": 0,
        "messages": messages,
        "extra_body": {"session_id": session},
    }


def plain_turn(messages, session):
    return client.chat.completions.create(**request(messages, session))


def streamed_turn(messages, session):
    options = {"include_usage": True}
    with client.chat.completions.stream(
        **request(messages, session), stream_options=options
    ) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    assert len(pieces) > 1, "the answer came in one piece"
    assert "".join(pieces) == completion.choices[0].message.content
    return completion


def converse(turn, session):
    """Has the conversation; returns its answers. Each turn reuses all that was stored before."""
    messages, answers, stored = [], [], 0
    for line in LINES:
        messages.append({"role": "user", "content": line})
        completion = turn(messages, session)
        usage = completion.usage
        assert usage.prompt_tokens_details.cached_tokens >= stored, (usage, stored)
        # The token that ended the answer was not run.
        stored = usage.total_tokens - 1
        answer = completion.choices[0].message.content
        messages.append({"role": "assistant", "content": answer})
        answers.append(answer)
    return answers


plain = converse(plain_turn, "plain")
assert "Biscuit" in plain[-1], plain
assert converse(streamed_turn, "streamed") == plain
print("holds   plain and streamed conversations agree and remember")

tools = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
asked = request([{"role": "user", "content": "What is the weather in Perth?"}], "tools")
with client.chat.completions.stream(**asked, tools=tools) as stream:
    streamed = stream.get_final_completion().choices[0]
called = client.chat.completions.create(**asked, tools=tools).choices[0]
assert streamed.finish_reason == called.finish_reason
functions = [
    [call.function.name + call.function.arguments for call in one.message.tool_calls or []]
    for one in (streamed, called)
]
assert functions[0] == functions[1], functions
print("holds   tools are called alike, streamed and plain")

drawn = {"temperature": 1.5, "seed": 7, "n": 2, "logprobs": True, "top_logprobs": 2}
asked = {**request([{"role": "user", "content": "Tell me a short story."}], "drawn"), **drawn}
made = client.chat.completions.create(**asked).choices
# Put together by hand: the SDK's helper takes an answer at its limit of tokens for an error.
texts, scores = ["", ""], [[], []]
for chunk in client.chat.completions.create(**asked, stream=True):
    for choice in chunk.choices:
        texts[choice.index] += choice.delta.content or ""
        scores[choice.index] += choice.logprobs.content if choice.logprobs else []
for one in made:
    assert one.message.content == texts[one.index]
    assert one.logprobs.content == scores[one.index]
    spelt = b"".join(bytes(token.bytes) for token in one.logprobs.content)
    assert spelt.decode("utf-8", "ignore") == one.message.content, (spelt, one.message.content)
    assert all(len(token.top_logprobs) == 2 for token in one.logprobs.content)
print("holds   choices and log probabilities agree, streamed and plain")

for more, expected in (({"n": 129}, BadRequestError), ({"temperature": 9}, BadRequestError)):
    try:
        asked = request([{"role": "user", "content": "Hi"}], "mistaken")
        client.chat.completions.create(**{**asked, **more})
        raise AssertionError(f"{more} was taken")
    except expected as error:
        assert error.param == next(iter(more)), error
print("holds   mistakes come as the error classes of the SDK")
