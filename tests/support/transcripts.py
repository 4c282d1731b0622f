"""Transcripts of OpenAI-style messages: builders for examples, and strategies for broken ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st
from support.context_policies import POLICIES
from support.conversations import short_texts, texts

from everturn_actors.context.policy import Applied, Limits, apply_policy
from everturn_actors.model import ToolDefinition
from everturn_gateway.commands.context.transcript import read_transcript, write_messages

Json: TypeAlias = dict[str, Any]

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def user(text: str) -> Json:
    """Return a user message."""
    return {"role": "user", "content": text}


def said(text: str) -> Json:
    """Return an assistant message without calls."""
    return {"role": "assistant", "content": text}


def called(*ids: str, name: str = "bash", arguments: str = "{}") -> Json:
    """Return an assistant message with a call for each id."""
    calls = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
        for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, text: str) -> Json:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def step(call_id: str, text: str, *, name: str = "bash") -> list[Json]:
    """Return one call and its result."""
    return [called(call_id, name=name), result(call_id, text)]


def run(
    name: str,
    messages: Sequence[Json],
    *,
    window: int | None = None,
    reserve: int | None = None,
    turn_start: int | None = None,
    system: str = "",
    numbers: Mapping[str, Any] | None = None,
    window_messages: int | None = None,
    scale: float = 1.0,
    tools: Sequence[ToolDefinition] = (),
) -> tuple[Applied, list[Json]]:
    """Return what a policy makes of a transcript, and the request's messages."""
    transcript = read_transcript(list(messages))
    prompt = "\n\n".join(part for part in (system, transcript.system) if part)
    limits = Limits(
        window_tokens=window,
        output_tokens=reserve,
        window_messages=window_messages,
        scale=scale,
    )
    applied = apply_policy(
        POLICIES[name].with_numbers(numbers or {}),
        transcript.view(turn_start),
        limits,
        system=prompt,
        tools=tools,
    )
    return applied, write_messages(transcript, applied, system)


_ids = st.sampled_from(["a", "b", "c", "large/../d"])
_arguments = st.sampled_from(["{}", '{"content":"' + "x" * 3000 + '"}', "{broken", "[1]", ""])
_names = st.sampled_from(["bash", "write_file", "record_attempt"])


@st.composite
def _steps(draw: st.DrawFn) -> list[Json]:
    ids = draw(st.lists(_ids, max_size=3))
    calls = [
        {
            "id": i,
            "type": "function",
            "function": {"name": draw(_names), "arguments": draw(_arguments)},
        }
        for i in ids
    ]
    reply: Json = {"role": "assistant", "content": draw(st.one_of(st.none(), texts))}
    if calls:
        reply["tool_calls"] = calls
    return [reply, *(result(i, draw(texts)) for i in draw(st.permutations(ids)))]


@st.composite
def transcripts(
    draw: st.DrawFn, *, broken: bool = True, turns: int = 8, steps: int = 4
) -> list[Json]:
    """Draw a transcript with a user message; where `broken`, some messages are lost or doubled."""
    messages: list[Json] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(short_texts)})
    for _ in range(draw(st.integers(1, turns))):
        content: Any = draw(texts)
        if draw(st.integers(0, 4)) == 0:
            content = [{"type": "text", "text": content}, IMAGE]
        messages.append({"role": "user", "content": content})
        for _ in range(draw(st.integers(0, steps))):
            messages += draw(_steps())
            if draw(st.integers(0, 5)) == 0:
                messages.append(user(f"[steering] {draw(short_texts)}"))
    if broken:
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(messages) - 1))
            kind = draw(st.sampled_from(["lose", "double", "aside"]))
            if kind == "lose" and len(messages) > 1:
                del messages[at]
            elif kind == "double":
                messages.insert(at, messages[at])
            else:
                messages.insert(at, {"role": "system", "content": draw(short_texts)})
    if not any(message["role"] == "user" for message in messages):
        messages.append(user(draw(texts)))
    return messages
