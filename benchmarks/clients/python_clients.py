"""The Python clients of OpenAI's API, each doing what people do with it. Run by `clients.py`.

Prints one line of JSON for each thing that was tried: client, version, what, and the fault or null.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version

URL, MODEL = os.environ["OPENAI_BASE_URL"], "helper"
QUESTION, ANSWER = "What is the weather in Bonn?", "It rains in Bonn."

Try = Callable[[], object]


def with_openai() -> dict[str, Try]:
    import openai
    from pydantic import BaseModel

    client = openai.OpenAI()
    messages = [{"role": "user", "content": QUESTION}]
    tool = {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
        },
    }

    class Place(BaseModel):
        town: str

    def chat() -> object:
        return (
            client.chat.completions.create(model=MODEL, messages=messages)
            .choices[0]
            .message.content
        )

    def stream() -> object:
        chunks = client.chat.completions.create(model=MODEL, messages=messages, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    def tools(*, streams: bool) -> object:
        asked = list(messages)
        for _ in range(3):
            if streams:
                with client.chat.completions.stream(model=MODEL, messages=asked, tools=[tool]) as s:
                    message = s.get_final_completion().choices[0].message
            else:
                made = client.chat.completions.create(model=MODEL, messages=asked, tools=[tool])
                message = made.choices[0].message
            if not message.tool_calls:
                return message.content
            asked.append(message.to_dict())
            asked += [
                {"role": "tool", "tool_call_id": call.id, "content": "rain"}
                for call in message.tool_calls
            ]
        return "it did not end"

    def structured() -> object:
        parsed = client.chat.completions.parse(
            model=MODEL, messages=messages, response_format=Place
        )
        found = parsed.choices[0].message.parsed
        return ANSWER if found and found.town == "Bonn" else found

    def responses_tools() -> object:
        flat = {"type": "function", **tool["function"]}
        made = client.responses.create(model=MODEL, input=QUESTION, tools=[flat])
        outputs = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "rain"}
            for item in made.output
            if item.type == "function_call"
        ]
        return client.responses.create(
            model=MODEL, input=outputs, previous_response_id=made.id, tools=[flat]
        ).output_text

    def responses_stream() -> object:
        with client.responses.stream(model=MODEL, input=QUESTION) as made:
            return made.get_final_response().output_text

    def responses_parsed() -> object:
        parsed = client.responses.parse(model=MODEL, input=QUESTION, text_format=Place)
        return ANSWER if parsed.output_parsed == Place(town="Bonn") else parsed

    return {
        "responses": lambda: client.responses.create(model=MODEL, input=QUESTION).output_text,
        "responses, streamed": responses_stream,
        "responses, tools": responses_tools,
        "responses, structured output": responses_parsed,
        "chat": chat,
        "stream": stream,
        "tools": lambda: tools(streams=False),
        "tools, streamed": lambda: tools(streams=True),
        "structured output": structured,
    }


def with_langchain() -> dict[str, Try]:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    model = ChatOpenAI(model=MODEL, use_responses_api=False)
    responses = ChatOpenAI(model=MODEL, use_responses_api=True)

    @tool
    def weather(town: str) -> str:
        """Tell the weather."""
        return f"rain in {town}"

    class Place(BaseModel):
        """A place."""

        town: str

    def tools(model: ChatOpenAI) -> object:
        bound, messages = model.bind_tools([weather]), [HumanMessage(QUESTION)]
        for _ in range(3):
            reply = bound.invoke(messages)
            if not reply.tool_calls:
                return reply.text
            messages.append(reply)
            messages += [
                ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
                for call in reply.tool_calls
            ]
        return "it did not end"

    def structured() -> object:
        found = model.with_structured_output(Place, method="json_schema").invoke(QUESTION)
        return ANSWER if found.town == "Bonn" else found

    return {
        "chat": lambda: model.invoke(QUESTION).content,
        "stream": lambda: "".join(str(chunk.content) for chunk in model.stream(QUESTION)),
        "tools": lambda: tools(model),
        "structured output": structured,
        "responses": lambda: responses.invoke(QUESTION).text,
        "responses, streamed": lambda: "".join(c.text for c in responses.stream(QUESTION)),
        "responses, tools": lambda: tools(responses),
    }


def with_pydantic_ai() -> dict[str, Try]:
    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

    model = OpenAIChatModel(MODEL)
    responses = OpenAIResponsesModel(MODEL)

    class Place(BaseModel):
        town: str

    def agent(model: object) -> Agent:
        made = Agent(model)

        @made.tool_plain
        def weather(town: str) -> str:
            """Tell the weather."""
            return f"rain in {town}"

        return made

    def structured() -> object:
        found = Agent(model, output_type=NativeOutput(Place)).run_sync(QUESTION).output
        return ANSWER if found.town == "Bonn" else found

    return {
        "chat": lambda: Agent(model).run_sync(QUESTION).output,
        "tools": lambda: agent(model).run_sync(QUESTION).output,
        "responses": lambda: Agent(responses).run_sync(QUESTION).output,
        "responses, tools": lambda: agent(responses).run_sync(QUESTION).output,
        "structured output": structured,
    }


def with_instructor() -> dict[str, Try]:
    import instructor
    import openai
    from pydantic import BaseModel

    class Place(BaseModel):
        town: str

    def structured(mode: instructor.Mode) -> object:
        client = instructor.from_openai(openai.OpenAI(), mode=mode)
        found = client.chat.completions.create(
            model=MODEL, response_model=Place, messages=[{"role": "user", "content": QUESTION}]
        )
        return ANSWER if found.town == "Bonn" else found

    return {
        "structured output": lambda: structured(instructor.Mode.JSON_SCHEMA),
        "structured output by tools": lambda: structured(instructor.Mode.TOOLS),
    }


def with_llm() -> dict[str, Try]:
    from llm.default_plugins.openai_models import Chat

    def model() -> Chat:
        return Chat(MODEL, api_base=URL, can_stream=True, supports_tools=True)

    def weather(town: str) -> str:
        """Tell the weather."""
        return f"rain in {town}"

    return {
        "chat": lambda: model().prompt(QUESTION, stream=False, key="x").text(),
        "stream": lambda: "".join(model().prompt(QUESTION, stream=True, key="x")),
        "tools": lambda: model().chain(QUESTION, tools=[weather], key="x").text(),
    }


CLIENTS = {
    "openai": with_openai,
    "langchain-openai": with_langchain,
    "pydantic-ai-slim": with_pydantic_ai,
    "instructor": with_instructor,
    "llm": with_llm,
}


def main() -> None:
    """Try each client."""
    for name, make in CLIENTS.items():
        for what, attempt in make().items():
            try:
                said = attempt()
                fault = None if said == ANSWER else f"it gave {said!r}"
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"
            line = {"client": name, "version": version(name), "what": what, "fault": fault}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
