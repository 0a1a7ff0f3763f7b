# SPDX-License-Identifier: Apache-2.0
"""The vendor's Python SDK against the server at BASE_URL: a plain and a streamed conversation."""

import os
import sys

try:
    from anthropic import Anthropic, BadRequestError
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

client = Anthropic(api_key="none", base_url=os.environ["BASE_URL"], max_retries=0, timeout=60)

LINES = ["My dog is called Biscuit.", "I was born in Perth, by the way.", "What is my dog called?"]


def request(messages, session):
    return {
        "model": "any",
        "max_tokens": 60,
        "messages": messages,
        # Not among the SDK's own parameters any more.
        "extra_body": {"temperature": 0},
        "extra_headers": {"X-Session-ID": session},
    }


def plain_turn(messages, session):
    return client.messages.create(**request(messages, session))


def streamed_turn(messages, session):
    with client.messages.stream(**request(messages, session)) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert len(pieces) > 1, "the answer came in one piece"
    assert "".join(pieces) == message.content[0].text
    return message


def converse(turn, session):
    """Has the conversation; returns its answers. Each turn reuses all that was stored before."""
    messages, answers, stored = [], [], 0
    for line in LINES:
        messages.append({"role": "user", "content": line})
        message = turn(messages, session)
        usage = message.usage
        assert usage.cache_read_input_tokens >= stored, (usage, stored)
        prompt = (
            usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
        )
        counted = client.messages.count_tokens(model="any", messages=messages)
        assert prompt == counted.input_tokens, (usage, counted)
        # The token that ended the answer was not run.
        stored = prompt + usage.output_tokens - 1
        messages.append({"role": "assistant", "content": message.content[0].text})
        answers.append(message.content[0].text)
    return answers


plain = converse(plain_turn, "plain")
assert "Biscuit" in plain[-1], plain
assert converse(streamed_turn, "streamed") == plain

try:
    client.messages.create(model="any", max_tokens=5, messages=[])
    raise AssertionError("an empty conversation was taken")
except BadRequestError as error:
    assert "messages" in str(error), error
print("holds   plain and streamed conversations agree and remember")
