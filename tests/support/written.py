"""Sessions that stand in a log before their gateway is opened, with what no test has time for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from support.live import SESSION, LiveSession

from everturn_actors.events import (
    ApprovalAsked,
    ApprovalDecided,
    Body,
    CallFinished,
    CallStarted,
    ChunkMarked,
    DeliveryPlanned,
    ModelReplied,
    Received,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import ToolCall, Usage
from everturn_actors.spec import AgentSpec, ModelSpec

RESULT = "c1.txt"


def new_session() -> LiveSession:
    """Return a session of the agent `test`; each of its events comes a second after another."""
    model = ModelSpec(provider="scripted", name="scripted")
    return LiveSession(AgentSpec(name="test", version="1", model=model))


async def write_session(folder: Path, session: LiveSession, results: dict[str, str]) -> str:
    """Write its log into the workspace of a gateway that is opened on `folder` later."""
    async with open_file_store(folder / "workspace", keeps_index=False) as store:
        await store.append(SESSION, session.events, expected_seq=0)
        for name, text in results.items():
            await store.save_result(SESSION, name, text)
    return SESSION


def eventful(text: str = "Find me a flight") -> LiveSession:
    """Return a session in which all happened that a transcript tells of.

    Turn 1 waits for a person and runs a tool; its reply goes out in three parts. Then it is
    summarised. Turn 2 has its answer a minute after its step began.
    """
    session = new_session()
    call = ToolCall(call_id="c1", name="bash", arguments='{"command": "seq 1 5000"}')
    session.record(
        Received(text=text, sender="ana"),
        TurnStarted(turn=1, received=(2,), window_messages=100, delivers=True),
        StepStarted(turn=1, step=1, model="scripted"),
        ModelReplied(text="", calls=(call,), usage=Usage(input_tokens=421, cached_tokens=320)),
        ApprovalAsked(call_id="c1", arguments_hash="h", timeout_s=3600, reason="not allowed"),
        ApprovalDecided(call_id="c1", decision="allow_once", by="ana"),
        CallStarted(call_id="c1"),
        CallFinished(call_id="c1", text=f"1 ... 5000 {text}", path=RESULT),
        StepStarted(turn=1, step=2, model="scripted"),
        ModelReplied(text=f"Three flights were found. {text}"),
    )
    replied = session.known.last_seq
    session.record(
        TurnFinished(turn=1, outcome="answered"),
        DeliveryPlanned(item=replied, chunks=("one", "two", "three")),
        *(_marks(replied, ("sent", "sent", "unknown"))),
        Summarised(
            last_turn=1,
            messages=4,
            text=f"## Intent\nA flight. {text}",
            source="model",
            usage=Usage(input_tokens=8788, output_tokens=240),
        ),
    )
    session.record(Received(text="And back?"))
    session.record(
        TurnStarted(turn=2, received=(session.known.last_seq,), window_messages=100),
        StepStarted(turn=2, step=1, model="scripted"),
        ModelReplied(text="Back on Sunday."),
        TurnFinished(turn=2, outcome="answered"),
    )
    return session


def long_session(turns: int) -> LiveSession:
    """Return a session of `turns` turns of five events."""
    session = new_session()
    for turn in range(1, turns + 1):
        session.record(Received(text=f"question {turn}"))
        session.record(
            TurnStarted(turn=turn, received=(session.known.last_seq,), window_messages=100),
            StepStarted(turn=turn, step=1, model="scripted"),
            ModelReplied(text=f"answer {turn}"),
            TurnFinished(turn=turn, outcome="answered"),
        )
    return session


def _marks(item: int, ends: Sequence[str]) -> Sequence[Body]:
    marks: list[Body] = []
    for chunk, end in enumerate(ends):
        marks.append(ChunkMarked(item=item, chunk=chunk, mark="sending"))
        if end == "unknown":
            marks.append(ChunkMarked(item=item, chunk=chunk, mark="unknown", error="timed out"))
        else:
            marks.append(ChunkMarked(item=item, chunk=chunk, mark="sent", platform_id=f"p{chunk}"))
    return marks
