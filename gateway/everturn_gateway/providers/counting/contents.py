"""A request in the words of Gemini's own API, which counts what it would cost. Pure.

Replies come by the API beside it that is compatible with OpenAI's, which has no such route.

Source: https://ai.google.dev/api/tokens (models.countTokens) and
https://ai.google.dev/api/caching (FunctionDeclaration), read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import orjson

from everturn_actors.model import AnyMessage, ModelRequest, Notice, Reply, ToolResult, UserMessage
from everturn_gateway.providers.counting.question import CountQuestion
from everturn_gateway.providers.transport.attached import text_with_files
from everturn_gateway.providers.transport.encoding import dumps, object_bytes


def gemini_question(request: ModelRequest, base: str, key: str) -> CountQuestion:
    """Return the question for a request.

    Args:
        request: What would be sent.
        base: The path under which the compatible API stands.
        key: Which this API takes under another name.
    """
    name = request.model.removeprefix("models/")
    asked: dict[str, object] = {
        "model": f"models/{name}",
        "contents": [
            {"role": "model" if isinstance(each, Reply) else "user", "parts": list(_parts(each))}
            for each in request.messages
        ],
    }
    if request.system:
        asked["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        declared = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
        asked["tools"] = [{"functionDeclarations": declared}]
    return CountQuestion(
        path=f"{base.removesuffix('/openai')}/models/{quote(name, safe='')}:countTokens",
        body=dumps({"generateContentRequest": asked}),
        member="totalTokens",
        # A key is no bearer token here: beside this header too, Google refuses it as one of OAuth.
        headers={"authorization": "", "x-goog-api-key": key},
    )


def _parts(message: AnyMessage) -> Iterator[dict[str, object]]:
    match message:
        case UserMessage():
            yield {"text": text_with_files(message)}
        case Notice(text=text):
            yield {"text": text}
        case ToolResult(name=name):
            yield {
                "functionResponse": {"name": name, "response": {"output": text_with_files(message)}}
            }
        case Reply(text=text, calls=calls):
            if text or not calls:
                yield {"text": text}
            for call in calls:
                given = object_bytes(call.arguments)
                wrapped = {"arguments": call.arguments}  # what the model wrote is no object
                arguments: object = orjson.Fragment(given) if given else wrapped
                yield {"functionCall": {"name": call.name, "args": arguments}}
