# SPDX-License-Identifier: Apache-2.0
"""What the vendors' Python SDKs do when they are refused, lose patience or leave: against a server
at BASE_URL with one place, no queue and the key k1."""

import http.client
import json
import os
import sys
import time
import urllib.parse

try:
    import anthropic
    import openai
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

URL = os.environ["BASE_URL"]
# Longer than the 16 tokens that a memory may be cut short by where a prompt parts from it.
STORY_TEXT = "Tell me a long story of a ship, its crew and the harbour that they never left."
STORY = [{"role": "user", "content": STORY_TEXT}]
LONG_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 10_000}, "minItems": 9}
# An answer that does not end before its client leaves.
ENDLESS = {
    "model": "any",
    "messages": STORY,
    "max_tokens": 100_000,
    "stream": True,
    "output_config": {"format": {"type": "json_schema", "schema": LONG_TEXTS}},
}


class Place:
    """The server's only place, taken until it is left."""

    def __init__(self):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=30)
        headers = {"content-type": "application/json", "x-api-key": "k1"}
        self.connection.request("POST", "/v1/messages", json.dumps(ENDLESS), headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def leave(self):
        self.answer.close()
        self.connection.close()


class Anthropic:
    name = "anthropic"
    sdk = anthropic
    full = 529

    def client(self, **more):
        options = {"api_key": "k1", "base_url": URL, "max_retries": 3, "timeout": 30}
        return anthropic.Anthropic(**{**options, **more})

    def ask(self, client, **more):
        return client.messages.create(
            **{"model": "any", "max_tokens": 3, "messages": STORY, **more}
        )

    def endless(self, client, **more):
        return self.ask(
            client,
            max_tokens=ENDLESS["max_tokens"],
            extra_body={"output_config": ENDLESS["output_config"]},
            **more,
        )

    def read_of(self, answer):
        return answer.usage.cache_read_input_tokens


class OpenAI:
    name = "openai"
    sdk = openai
    full = 503

    def client(self, **more):
        options = {"api_key": "k1", "base_url": URL + "/v1", "max_retries": 3, "timeout": 30}
        return openai.OpenAI(**{**options, **more})

    def ask(self, client, **more):
        return client.chat.completions.create(
            **{"model": "any", "max_tokens": 3, "messages": STORY, **more}
        )

    def endless(self, client, **more):
        form = {"name": "texts", "strict": True, "schema": LONG_TEXTS}
        return self.ask(
            client,
            max_tokens=ENDLESS["max_tokens"],
            response_format={"type": "json_schema", "json_schema": form},
            **more,
        )

    def read_of(self, answer):
        return answer.usage.prompt_tokens_details.cached_tokens


def spied(vendor, on_answer=lambda answer: None, **options):
    """A client, and the answers that it has got, those that it does not show too."""
    answers = []

    def see(answer):
        answers.append(answer)
        on_answer(answer)

    http_client = vendor.sdk.DefaultHttpxClient(event_hooks={"response": [see]})
    return vendor.client(http_client=http_client, **options), answers


def raised(kind, what):
    try:
        what()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def asked_until_there_is_a_place(vendor):
    place = Place()
    client, answers = spied(
        vendor, lambda answer: place.leave() if answer.status_code == vendor.full else None
    )
    assert vendor.ask(client).id
    refused = answers[0]
    assert refused.status_code == vendor.full, refused
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["x-should-retry"] == "true"
    assert refused.headers["request-id"]
    assert len(answers) > 1 and answers[-1].status_code == 200, answers


def patience_ends_with_the_sdks_own_error(vendor):
    place = Place()
    at = []
    client, answers = spied(vendor, lambda _: at.append(time.monotonic()), max_retries=1)
    error = raised(vendor.sdk.InternalServerError, lambda: vendor.ask(client))
    assert error.status_code == vendor.full, error
    assert error.request_id == answers[-1].headers["request-id"]
    assert len(answers) == 2, answers
    wait = int(answers[0].headers["retry-after"])
    assert at[1] - at[0] >= wait, "it came back before it was told to"
    place.leave()


def asked_once_what_can_never_succeed(vendor):
    sdk = vendor.sdk
    wrong = [
        (sdk.BadRequestError, {}, {"messages": []}),
        (sdk.BadRequestError, {}, {"max_tokens": "x"}),
        (sdk.AuthenticationError, {"api_key": "k2"}, {}),
    ]
    for kind, options, more in wrong:
        client, answers = spied(vendor, **options)
        error = raised(kind, lambda: vendor.ask(client, **more))
        assert error.request_id == answers[0].headers["request-id"]
        assert len(answers) == 1, more


def free_again(vendor):
    """Asks until the place is free. Returns: the answer."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return vendor.ask(vendor.client(max_retries=0))
        except vendor.sdk.InternalServerError as error:
            assert error.status_code == vendor.full, error
            assert time.monotonic() < deadline, "the work of who has left goes on"
            time.sleep(0.05)


def a_client_that_times_out_has_left(vendor):
    free_again(vendor)
    impatient = vendor.client(timeout=0.5, max_retries=0)
    begin = time.monotonic()
    raised(vendor.sdk.APITimeoutError, lambda: vendor.endless(impatient))
    assert time.monotonic() - begin < 10
    assert vendor.read_of(free_again(vendor)) > 0, "what it had read was forgotten"


def a_stream_that_is_left_frees_its_place(vendor):
    free_again(vendor)
    stream = vendor.endless(vendor.client(max_retries=0), stream=True)
    for count, _ in enumerate(stream):
        if count == 5:
            break
    stream.close()
    assert vendor.read_of(free_again(vendor)) > 0


for vendor in (Anthropic(), OpenAI()):
    for promise in (
        asked_until_there_is_a_place,
        patience_ends_with_the_sdks_own_error,
        asked_once_what_can_never_succeed,
        a_client_that_times_out_has_left,
        a_stream_that_is_left_frees_its_place,
    ):
        promise(vendor)
        free_again(vendor)
        print(f"holds   {vendor.name}: {promise.__name__.replace('_', ' ')}")
