"""A request in the words of OpenAI's Responses API, which counts what it would cost. Pure.

Replies come by the API of chat completions, which has no such route. Both put the same texts before
the same tokenizer; what stands around a message may differ by a token or two.

Source: https://developers.openai.com/api/reference/resources/responses (input_tokens, read
2026-11-26), and the types of the package `openai` 3.54.
"""

from __future__ import annotations

from collections.abc import Iterator

from everturn_actors.model import AnyMessage, ModelRequest, Notice, Reply, ToolResult, UserMessage
from everturn_gateway.providers.counting.question import CountQuestion
from everturn_gateway.providers.transport.attached import told
from everturn_gateway.providers.transport.encoding import dumps


def openai_question(request: ModelRequest, base: str) -> CountQuestion:
    """Return the question for a request; `base` is the path under which the API stands."""
    body: dict[str, object] = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
    }
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
                "strict": False,
            }
            for tool in request.tools
        ]
    return CountQuestion(path=f"{base}/responses/input_tokens", body=dumps(body))


def _items(message: AnyMessage) -> Iterator[dict[str, object]]:
    match message:
        case UserMessage():
            yield {"role": "user", "content": told(message)}
        case Notice(text=text):
            yield {"role": "system", "content": text}
        case ToolResult(call_id=call_id):
            yield {"type": "function_call_output", "call_id": call_id, "output": told(message)}
        case Reply(text=text, calls=calls):
            if text:
                yield {"role": "assistant", "content": text}
            for call in calls:
                yield {
                    "type": "function_call",
                    "call_id": call.call_id,
                    "name": call.name,
                    "arguments": call.arguments,
                }
