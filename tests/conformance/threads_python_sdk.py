# SPDX-License-Identifier: Apache-2.0
"""The vendor's Python SDK against the server at BASE_URL: its tool runner, which keeps a thread."""

import json
import os
import sys

try:
    from anthropic import Anthropic, DefaultHttpxClient, NotFoundError, beta_tool
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sent = []
client = Anthropic(
    api_key="none",
    base_url=os.environ["BASE_URL"],
    max_retries=0,
    timeout=60,
    http_client=DefaultHttpxClient(
        event_hooks={"request": [lambda request: sent.append(json.loads(request.content))]}
    ),
)


@beta_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    assert city == "Perth", city
    return "sunny, 21 degrees"


runner = client.beta.messages.tool_runner(
    model="any",
    max_tokens=60,
    tools=[get_weather],
    messages=[{"role": "user", "content": "What is the weather in Perth?"}],
    extra_body={"temperature": 0},
)
final = runner.until_done()
assert "Perth is sunny" in final.content[0].text, final
threads = [body["thread"]["type"] for body in sent]
assert threads == ["create", "continue"], threads
assert len(sent[1]["messages"]) == 1 and "tools" not in sent[1], sent[1]
assert final.usage.cache_read_input_tokens > 0, final.usage

try:
    client.beta.messages.create(
        model="any",
        max_tokens=5,
        messages=[{"role": "user", "content": "Hi."}],
        extra_body={"thread": {"type": "continue", "previous_message_id": "msg_none"}},
    )
    raise AssertionError("an unknown thread was continued")
except NotFoundError as error:
    assert error.body["error"]["details"]["error_code"] == "thread_not_found", error.body
print("holds   the tool runner keeps a thread and sends only what is new")
