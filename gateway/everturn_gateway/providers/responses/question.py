"""A request in the words of OpenAI's Responses API, which counts what it would cost. Pure.

Replies may come by the API of chat completions, which has no such route. Both put the same texts
before the same tokenizer; what stands around a message may differ by a token or two.

Source: https://developers.openai.com/api/reference/resources/responses (input_tokens, read
2026-11-26), and the types of the package `openai` 3.54.
"""

from __future__ import annotations

from collections.abc import Collection

from everturn_actors.model import ModelRequest
from everturn_gateway.providers.counting.question import CountQuestion
from everturn_gateway.providers.responses.wire import BodyWriter


def openai_question(
    request: ModelRequest,
    base: str,
    writer: BodyWriter | None = None,
    *,
    leave_out: Collection[str] = (),
    replays: bool = True,
) -> CountQuestion:
    """Return the question for a request.

    Args:
        request: What is to be counted.
        base: The path under which the API stands.
        writer: Who writes the requests of this model; None = they go by another API.
        leave_out: Parameters that this model was found to refuse.
        replays: Whether what the model gave encrypted stands in it.
    """
    body = (writer or BodyWriter()).body(request, leave_out=leave_out, replays=replays, counts=True)
    return CountQuestion(path=f"{base}/responses/input_tokens", body=body)
