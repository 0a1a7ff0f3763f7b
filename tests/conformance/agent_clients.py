# SPDX-License-Identifier: Apache-2.0
"""Agent frameworks and clients as they are, against the server: plain and streamed turns, a loop of
five tool calls, structured output, an abort, and a conversation that goes on behind kill -9. From
the second turn on the server's own count says how much of each prompt came from memory.

agent_clients.py CLIENT...: one line with the share of every turn, and what did not hold. Their
packages (agent_clients.txt) are half a gigabyte, so AGENT_PYTHON names a Python that has them.
AGENT_CLIENT_PARTS: only these parts, with commas. Nothing but 127.0.0.1 is asked.
"""

import asyncio
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PYTHON = os.environ.get("AGENT_PYTHON")
if PYTHON is None:
    print("skipped: AGENT_PYTHON names no Python that has the clients (agent_clients.txt)")
    sys.exit(77)
if sys.executable != PYTHON:
    os.execv(PYTHON, [PYTHON, *sys.argv])

import pydantic  # noqa: E402

MODEL = "semantic-tiny"
LINES = ["My dog is called Biscuit.", "I was born in Perth, by the way.", "What is my dog called?"]
CALLS = 5
FOLDER = pathlib.Path(__file__).parent
REUSED_LEAST = 0.95
START_SECONDS = 30
PART_SECONDS = 300
STEPS = 8  # of one loop of calls
# As much as a small agent's own instructions: what a turn adds is little beside it.
INSTRUCTIONS = "You are a helpful assistant. " + " ".join(
    f"Rule {i}: be kind, be brief and say what is true of the harbour, the boats and the weather."
    for i in range(1, 61)
)

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or its import asks the network


class Dog(pydantic.BaseModel):
    """A dog."""

    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=20)


class Server:
    """semantic-server on a free port, with the caches of one folder over all its starts."""

    def __init__(self, folder, model):
        self.folder = folder
        self.model = model
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        self.start()

    def start(self):
        told = {key: value for key, value in os.environ.items() if not key.startswith("SEMANTIC_")}
        options = ["--port", str(self.port), "--cache-dir", self.folder, "--cache-budget-mb", "512"]
        self.process = subprocess.Popen(
            [os.environ["CONFORMANCE_SERVER"], "--model", str(self.model), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=told,
        )
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + "/health/ready", timeout=5).read()
                return
            except OSError:
                time.sleep(0.05)
        self.process.kill()
        raise RuntimeError("the server is not ready")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.start()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0, "the server did not end well"

    def counts(self):
        """Prompt tokens computed and reused so far."""
        computed = reused = 0
        text = urllib.request.urlopen(self.url + "/metrics", timeout=30).read().decode()
        for line in text.splitlines():
            if line.startswith("semantic_tokens_prefilled_total "):
                computed += float(line.split()[-1])
            if line.startswith("semantic_tokens_reused_total"):
                reused += float(line.split()[-1])
        return computed, reused

    def running(self):
        ready = json.load(urllib.request.urlopen(self.url + "/health/ready", timeout=30))
        return ready["requests_running"]


class OpenAIAgents:
    """The OpenAI Agents SDK, which speaks Responses."""

    def __init__(self, url):
        import agents

        self.sdk = agents
        agents.set_tracing_disabled(True)
        client = agents.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=2)
        agents.set_default_openai_client(client, use_for_tracing=False)
        self.called = 0
        self.history = []

    def agent(self, **more):
        settings = self.sdk.ModelSettings(temperature=0, max_tokens=60)
        return self.sdk.Agent(
            name="a", instructions=INSTRUCTIONS, model=MODEL, model_settings=settings, **more
        )

    async def say(self, text):
        asked = self.history + [{"role": "user", "content": text}]
        result = await self.sdk.Runner.run(self.agent(), asked)
        self.history = result.to_input_list()
        return result.final_output

    async def pieces(self, text):
        asked = self.history + [{"role": "user", "content": text}]
        result = self.sdk.Runner.run_streamed(self.agent(), asked)
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                if event.data.type == "response.output_text.delta":
                    yield event.data.delta
        self.history = result.to_input_list()

    async def with_tool(self, text, weather):
        tool = self.sdk.function_tool(weather)
        asked = self.history + [{"role": "user", "content": text}]
        try:
            result = await self.sdk.Runner.run(self.agent(tools=[tool]), asked, max_turns=STEPS)
        except self.sdk.MaxTurnsExceeded:
            return  # the model would call for ever
        self.history = result.to_input_list()

    async def dog(self):
        result = await self.sdk.Runner.run(self.agent(output_type=Dog), "Tell me of a dog.")
        return result.final_output


class PydanticAI:
    """Pydantic AI over one of three wires."""

    def __init__(self, url, wire):
        import pydantic_ai
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
        from pydantic_ai.providers.openai import OpenAIProvider

        self.lib = pydantic_ai
        self.by_call = wire == "messages"  # it asks for no schema there, but for a call
        if wire == "messages":
            provider = AnthropicProvider(base_url=url, api_key="none")
            self.model = AnthropicModel(MODEL, provider=provider)
        else:
            kind = OpenAIChatModel if wire == "chat" else OpenAIResponsesModel
            self.model = kind(
                MODEL, provider=OpenAIProvider(base_url=url + "/v1", api_key="none")
            )
        self.history = []

    def agent(self, **more):
        settings = {"temperature": 0, "max_tokens": 60}
        return self.lib.Agent(
            self.model, instructions=INSTRUCTIONS, model_settings=settings, **more
        )

    async def say(self, text):
        result = await self.agent().run(text, message_history=self.history)
        self.history = result.all_messages()
        return result.output

    async def pieces(self, text):
        async with self.agent().run_stream(text, message_history=self.history) as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                yield piece
            self.history = result.all_messages()

    async def with_tool(self, text, weather):
        limits = self.lib.UsageLimits(request_limit=STEPS)
        try:
            result = await self.agent(tools=[weather]).run(
                text, message_history=self.history, usage_limits=limits
            )
        except self.lib.UsageLimitExceeded:
            return  # the model would call for ever
        self.history = result.all_messages()

    async def dog(self):
        form = Dog if self.by_call else self.lib.NativeOutput(Dog)
        return (await self.agent(output_type=form).run("Tell me of a dog.")).output


class LangGraph:
    """LangGraph's agent over ChatOpenAI."""

    def __init__(self, url):
        from langchain_openai import ChatOpenAI
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.prebuilt import create_react_agent

        self.make = create_react_agent
        self.model = ChatOpenAI(
            model=MODEL, base_url=url + "/v1", api_key="none", temperature=0, max_tokens=60
        )
        self.saver = InMemorySaver()
        self.thread = {"configurable": {"thread_id": "one"}}

    def graph(self, tools):
        return self.make(self.model, tools, prompt=INSTRUCTIONS, checkpointer=self.saver)

    async def say(self, text):
        graph = self.graph([])
        said = await graph.ainvoke({"messages": [("user", text)]}, self.thread)
        return said["messages"][-1].content

    async def pieces(self, text):
        graph = self.graph([])
        asked = {"messages": [("user", text)]}
        async for piece, _ in graph.astream(asked, self.thread, stream_mode="messages"):
            if piece.content:
                yield piece.content

    async def with_tool(self, text, weather):
        from langgraph.errors import GraphRecursionError

        steps = {"recursion_limit": 2 * STEPS}
        try:
            await self.graph([weather]).ainvoke({"messages": [("user", text)]}, self.thread | steps)
        except GraphRecursionError:
            return  # the model would call for ever

    async def dog(self):
        return await self.model.with_structured_output(Dog).ainvoke("Tell me of a dog.")


class ByMessages:
    """Clients that leave the conversation, and the loop of tools, to who calls them. A subclass
    says ask(more) -> message and stream(more), over self.messages."""

    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }

    def __init__(self):
        self.messages = [{"role": "system", "content": INSTRUCTIONS}]

    async def say(self, text):
        self.messages.append({"role": "user", "content": text})
        said = await self.ask()
        self.messages.append({"role": "assistant", "content": said["content"]})
        return said["content"]

    async def pieces(self, text):
        self.messages.append({"role": "user", "content": text})
        whole = ""
        async for piece in self.stream():
            whole += piece
            yield piece
        self.messages.append({"role": "assistant", "content": whole})

    async def with_tool(self, text, weather):
        self.messages.append({"role": "user", "content": text})
        for _ in range(STEPS):
            said = await self.ask(tools=[self.tool])
            self.messages.append(said)
            for call in said.get("tool_calls") or []:
                arguments = call["function"]["arguments"]
                arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
                result = {"role": "tool", "content": weather(**arguments)}
                if call.get("id"):
                    result["tool_call_id"] = call["id"]
                self.messages.append(result)
            if not said.get("tool_calls"):
                return


class LiteLLM(ByMessages):
    """LiteLLM over chat completions or Messages."""

    def __init__(self, url, wire):
        super().__init__()
        import litellm

        self.lib = litellm
        self.to = (
            {"model": "anthropic/" + MODEL, "api_base": url}
            if wire == "messages"
            else {"model": "openai/" + MODEL, "api_base": url + "/v1"}
        )

    def send(self, messages, **more):
        return self.lib.acompletion(
            **self.to, messages=messages, api_key="none", temperature=0, max_tokens=60, **more
        )

    async def ask(self, **more):
        said = (await self.send(self.messages, **more)).choices[0].message
        return said.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True) | {
            "content": said.content or ""
        }

    async def stream(self):
        async for chunk in await self.send(self.messages, stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    async def dog(self):
        asked = [{"role": "user", "content": "Tell me of a dog."}]
        said = await self.send(asked, response_format=Dog)
        return Dog.model_validate_json(said.choices[0].message.content)


class Ollama(ByMessages):
    """Ollama's Python client."""

    def __init__(self, url):
        super().__init__()
        import ollama

        self.client = ollama.AsyncClient(host=url)
        self.options = {"temperature": 0, "num_predict": 60}

    async def ask(self, **more):
        said = await self.client.chat(MODEL, self.messages, options=self.options, **more)
        return said.message.model_dump(exclude_none=True) | {"content": said.message.content or ""}

    async def stream(self):
        parts = await self.client.chat(MODEL, self.messages, options=self.options, stream=True)
        async for part in parts:
            if part.message.content:
                yield part.message.content

    async def dog(self):
        asked = [{"role": "user", "content": "Tell me of a dog."}]
        said = await self.client.chat(
            MODEL, asked, options=self.options, format=Dog.model_json_schema()
        )
        return Dog.model_validate_json(said.message.content)


class Llm:
    """The `llm` tool's library, with the server as one of its OpenAI-compatible models."""

    def __init__(self, url):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="llm-"))
        (folder / "extra-openai-models.yaml").write_text(
            f"- model_id: here\n  model_name: {MODEL}\n  api_base: {url}/v1\n"
            "  supports_tools: true\n  supports_schema: true\n"
        )
        os.environ["LLM_USER_PATH"] = str(folder)
        import llm

        self.lib = llm
        self.model = llm.get_async_model("here")
        self.model.key = "none"
        self.talk = self.model.conversation()
        self.drawn = {"temperature": 0, "max_tokens": 60}

    async def say(self, text):
        return await self.talk.prompt(text, system=INSTRUCTIONS, **self.drawn).text()

    async def pieces(self, text):
        async for piece in self.talk.prompt(text, system=INSTRUCTIONS, **self.drawn):
            if piece:
                yield piece

    async def with_tool(self, text, weather):
        chain = self.talk.chain(
            text, system=INSTRUCTIONS, tools=[weather], options=self.drawn, chain_limit=STEPS
        )
        try:
            async for answer in chain.responses():
                await answer.text()
        except ValueError as error:  # the model would call for ever
            if "Chain limit" not in str(error):
                raise

    async def dog(self):
        said = self.model.prompt("Tell me of a dog.", schema=Dog, **self.drawn)
        return Dog.model_validate_json(await said.text())


CLIENTS = {
    "openai-agents": OpenAIAgents,
    "pydantic-ai-chat": lambda url: PydanticAI(url, "chat"),
    "pydantic-ai-responses": lambda url: PydanticAI(url, "responses"),
    "pydantic-ai-messages": lambda url: PydanticAI(url, "messages"),
    "langgraph": LangGraph,
    "litellm-chat": lambda url: LiteLLM(url, "chat"),
    "litellm-messages": lambda url: LiteLLM(url, "messages"),
    "llm": Llm,
    "ollama": Ollama,
}


class Shares:
    """Of the prompts since the last look the share that came from memory."""

    def __init__(self, server):
        self.server = server
        self.before = server.counts()
        self.all = []

    def restart(self):
        self.before = (0, 0)  # counters begin anew

    def take(self, begins=False):
        now = self.server.counts()
        computed, reused = (a - b for a, b in zip(now, self.before))
        self.before = now
        if not begins:
            self.all.append(reused / max(computed + reused, 1))
        return computed, reused


async def converse(make, server, shares):
    """Plain turns, of which the last comes behind kill -9; each but the first extends memory."""
    client = make(server.url)
    for number, line in enumerate(LINES):
        said = await client.say(line)
        shares.take(begins=number == 0)
        if number == 1:
            server.kill()
            shares.restart()
    assert "Biscuit" in said, f"behind kill -9 it said {said!r}"


async def stream(make, server, shares):
    client = make(server.url)
    for number, line in enumerate(LINES):
        pieces = [piece async for piece in client.pieces(line)]
        assert len(pieces) > 1, f"the answer came in {len(pieces)} pieces"
        shares.take(begins=number == 0)
    assert "Biscuit" in "".join(pieces), pieces


async def use_tools(make, server, shares):
    """A loop of five calls, each a request of its own; small models call what is demanded of them,
    so that five_calls.mjs stands between."""
    cities = []

    def get_weather(city: str) -> str:
        """The weather of a city."""
        cities.append(city)
        shares.take(begins=len(cities) == 1)
        return f"It is {len(cities) + 10} degrees in {city}."

    command = ["node", str(FOLDER / "five_calls.mjs"), server.url, "get_weather"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as proxy:
        url = proxy.stdout.readline().strip()
        assert url, "the proxy does not start: does CONFORMANCE_NPM name the npm packages?"
        try:
            await make(url).with_tool("What is the weather in five cities?", get_weather)
        finally:
            proxy.stdin.close()
    shares.take()
    assert len(cities) == CALLS, f"{len(cities)} calls: {cities}"


async def be_structured(make, server, shares):
    dog = await make(server.url).dog()
    assert isinstance(dog, Dog), dog
    shares.take(begins=True)


async def abort(make, server, shares):
    """An answer that is left ends, and the turn behind it finds the memory as it was."""
    client = make(server.url)
    await client.say(LINES[0])
    shares.take(begins=True)
    stream = client.pieces("Tell me a long story of a dog.")
    async for _ in stream:
        break
    await stream.aclose()
    limit = time.monotonic() + 10
    while server.running() > 0:
        assert time.monotonic() < limit, "the answer goes on"
        await asyncio.sleep(0.05)
    shares.take()
    assert await client.say("Hello.") is not None
    shares.take()


PARTS = {
    "turns": converse,
    "stream": stream,
    "five calls": use_tools,
    "structured": be_structured,
    "abort": abort,
}


def run(name):
    make = CLIENTS[name]
    broken = 0
    for part, hold in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder, pathlib.Path(os.environ["CONFORMANCE_MODEL"]))
            shares = Shares(server)
            try:
                asyncio.run(asyncio.wait_for(hold(make, server, shares), PART_SECONDS))
                low = [share for share in shares.all if share < REUSED_LEAST]
                fault = f"of a prompt {min(low):.0%} came from memory" if low else ""
            except Exception as error:  # whatever a client raises is its verdict
                fault = f"{type(error).__name__}: {error}"[:400]
            said = " ".join(f"{share:.1%}" for share in shares.all)
            print(f"{'BROKEN' if fault else 'holds'}  {name}, {part}: {said} {fault}", flush=True)
            broken += bool(fault)
            server.stop()
    return broken


def main():
    parts = os.environ.get("AGENT_CLIENT_PARTS")
    for part in list(PARTS):
        if parts and part not in parts.split(","):
            del PARTS[part]
    names = sys.argv[1:] or list(CLIENTS)
    return 1 if sum(run(name) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())
