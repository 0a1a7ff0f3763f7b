# SPDX-License-Identifier: Apache-2.0
"""The vendor's Python SDK against what Responses have beside a turn, at BASE_URL: the background,
conversations, compaction, embeddings."""

import os
import sys
import time

try:
    from openai import BadRequestError, NotFoundError, OpenAI
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

client = OpenAI(api_key="none", base_url=os.environ["BASE_URL"] + "/v1", max_retries=0, timeout=60)
MODEL = client.models.list().data[0].id
DRAWN = {"model": MODEL, "max_output_tokens": 60, "temperature": 0}
DOG, QUESTION = "My dog is called Biscuit.", "What is my dog called?"


def refused(kind, ask):
    try:
        ask()
    except kind as error:
        return error
    raise AssertionError("it was not refused")


def stored(response):
    """The token that ended the answer was not run."""
    return response.usage.total_tokens - 1


queued = client.responses.create(**DRAWN, input=DOG, background=True)
assert queued.status == "queued" and queued.background, queued
response = queued
while response.status in ("queued", "in_progress"):
    time.sleep(0.02)
    response = client.responses.retrieve(queued.id)
assert response.status == "completed", response
assert response.output_text == client.responses.create(**DRAWN, input=DOG).output_text
print("    a response in the background is polled until it is complete")

numbers, last = [], None
with client.responses.create(**DRAWN, input=DOG, background=True, stream=True) as stream:
    for event in stream:
        numbers.append(event.sequence_number)
        if len(numbers) == 1:
            started = event.response.id
        if len(numbers) == 3:
            break
with client.responses.retrieve(started, stream=True, starting_after=numbers[-1]) as stream:
    for last in stream:
        numbers.append(last.sequence_number)
assert numbers == list(range(len(numbers))), numbers
assert last.type == "response.completed", last
print("    its stream is left and resumed without a gap")

assert client.responses.cancel(queued.id).status == "completed", "one that has ended is as it is"
plain = client.responses.create(**DRAWN, input=DOG)
refused(BadRequestError, lambda: client.responses.cancel(plain.id))
print("    one that was not made in the background is not cancelled")

conversation = client.conversations.create(items=[{"role": "user", "content": DOG}],
                                           metadata={"of": "mine"})
first = client.responses.create(**DRAWN, input="I live in Perth.", conversation=conversation.id)
second = client.responses.create(**DRAWN, input=QUESTION, conversation={"id": conversation.id})
assert second.conversation.id == conversation.id
assert second.usage.input_tokens_details.cached_tokens >= stored(first), second.usage
roles = [item.role for item in client.conversations.items.list(conversation.id, order="asc")]
assert roles == ["user", "user", "assistant", "user", "assistant"], roles
assert client.conversations.retrieve(conversation.id).metadata == {"of": "mine"}
assert client.conversations.update(conversation.id, metadata={}).metadata == {}
added = client.conversations.items.create(conversation.id,
                                          items=[{"role": "user", "content": "More."}])
item = client.conversations.items.retrieve(added.first_id, conversation_id=conversation.id)
client.conversations.items.delete(item.id, conversation_id=conversation.id)
assert client.conversations.delete(conversation.id).deleted
refused(NotFoundError, lambda: client.conversations.retrieve(conversation.id))
print("    a conversation is made, used, read and deleted")

compacted = client.responses.compact(model=MODEL, input=[{"role": "user", "content": DOG}])
assert [item.type for item in compacted.output] == ["message", "compaction"], compacted
history = [item.to_dict() for item in compacted.output]
on = client.responses.create(**DRAWN, input=[*history, {"role": "user", "content": QUESTION}])
assert on.status in ("completed", "incomplete"), on
print("    a conversation that is summed up goes on from the summary")

error = refused(BadRequestError, lambda: client.embeddings.create(model=MODEL, input="x"))
assert "no embedding model" in error.message, error
print("    embeddings are refused in words")
