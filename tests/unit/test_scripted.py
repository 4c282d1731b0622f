"""The scripted provider: which entry answers, and what a bad file says."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest
from support.tables import table

from everturn_actors.errors import ModelError, ModelRefusedError, RateLimitedError
from everturn_actors.model import ModelRequest, Reply, ToolCall, Usage, UserMessage
from everturn_gateway.errors import ConfigError
from everturn_gateway.providers.scripted import ScriptedReplies, load_script

TWO = "replies:\n  - text: one\n  - text: two\n"


def request(text: str = "hi", *, replies: int = 0) -> ModelRequest:
    """Return a request with so many model replies before its newest user message."""
    before = [m for _ in range(replies) for m in (UserMessage(text="q"), Reply(text="a"))]
    return ModelRequest(model="m", system="", messages=(*before, UserMessage(text=text)))


async def script(folder: Path, text: str, name: str = "script.yaml") -> ScriptedReplies:
    """Write a script and load it, off the loop as the library of agents does."""
    (folder / name).write_text(text, encoding="utf-8")
    return await anyio.to_thread.run_sync(load_script, folder / name, {})


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


@table(
    ("name", "text", "asked", "answers"),
    [
        # After a restart the next request gets the next entry, not the first one again.
        ("script.yaml", TWO, [("hi", 1), ("hi", 0), ("hi", 1)], ["two", "one", "two"]),
        # A demo goes on for ever, a test wants to know that it went too far.
        ("script.yaml", f"at_end: last\n{TWO}", [("hi", 2)], ["two"]),
        ("script.yaml", f"at_end: cycle\n{TWO}", [("hi", 2)], ["one"]),
        # Matched entries answer questions, the others keep their order around them.
        (
            "script.yaml",
            f"{TWO}  - {{match: 'weath.r', text: sunny}}\n",
            *([("The WEATHER?", 1), ("hi", 1)], ["sunny", "two"]),
        ),
        # A file that a program wrote is as good.
        ("script.json", '{"replies": [{"text": "x"}]}', [("hi", 0)], ["x"]),
    ],
)
async def test_the_place_is_the_number_of_replies_in_the_request(
    tmp_path: Path, name: str, text: str, asked: list[tuple[str, int]], answers: list[str]
) -> None:
    """So that a script needs no memory of its own."""
    scripted = await script(tmp_path, text, name)

    said = [await scripted.complete(request(each, replies=n), ignore) for each, n in asked]

    assert [each.text for each in said] == answers


async def test_a_reply_has_everything_a_model_gives(tmp_path: Path) -> None:
    """Tests of tools, usage and streaming need no model."""
    said: list[str] = []
    scripted = await script(
        tmp_path,
        """
replies:
  - chunks: ["Let me ", "look."]
    delay_ms: 1
    reasoning: hm
    calls: [{name: forecast, arguments: '{"city": "Bonn"}'}, {name: now, id: c9}]
    usage: {input: 10, output: 5, cached: 2}
""",
    )

    reply = await scripted.complete(request(), said.append)

    assert said == ["Let me ", "look."]
    assert reply == Reply(
        text="Let me look.",
        reasoning="hm",
        calls=(
            ToolCall(call_id="call_1", name="forecast", arguments='{"city": "Bonn"}'),
            ToolCall(call_id="c9", name="now"),
        ),
        usage=Usage(input_tokens=10, output_tokens=5, cached_tokens=2),
        stop_reason="tool_calls",
        model="m",
    )


async def test_an_error_comes_so_often_and_then_the_text(tmp_path: Path) -> None:
    """Retries can be shown: broken off twice, whole the third time."""
    scripted = await script(
        tmp_path,
        "replies:\n  - {text: a b, error: rate_limited, times: 2, after_chunks: 1,"
        " retry_after_ms: 500}\n",
    )
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(RateLimitedError) as raised:
            await scripted.complete(request(), said.append)
        assert raised.value.retry_after_s == 0.5

    assert (await scripted.complete(request(), said.append)).text == "a b"
    assert said == ["a", "a", "a", " b"]


@table("name", ["auth", "refused", "overflow", "rate_limited", "transient", "truncated"])
async def test_an_error_without_a_text_comes_every_time(tmp_path: Path, name: str) -> None:
    """An outage that never ends can be played as well."""
    scripted = await script(tmp_path, f"replies:\n  - error: {name}\n")
    for _ in range(3):
        with pytest.raises(ModelError, match=name):
            await scripted.complete(request(), ignore)


async def test_one_reply_too_many_is_a_clear_error(tmp_path: Path) -> None:
    """The author of the script sees what is missing."""
    scripted = await script(tmp_path, "replies:\n  - text: one\n")
    with pytest.raises(ModelRefusedError, match=r"script\.yaml: no entry fits: 1 come in order"):
        await scripted.complete(request(replies=1), ignore)


@table(
    ("text", "said"),
    [
        ("replies: []\n", "script.yaml:1: replies: needs 1 or more, and has 0"),
        ("replies:\n  - txt: a\n", "script.yaml:2: replies[0].txt: is not a known field; did you"),
        ("replies:\n  - text: a\n  - error: bang\n", "script.yaml:3: replies[1].error: must be"),
        (
            "replies:\n  - match: '('\n    text: a\n",
            "script.yaml:2: replies[0].match: is not a reg",
        ),
        (
            "replies:\n  - calls:\n    - name: f\n      arguments: '[1]'\n",
            "script.yaml:4: replies[0].calls[0].arguments: must be a JSON object",
        ),
        ("replies:\n  - delay_ms: 5\n", "script.yaml:2: replies[0]: needs text, chunks, calls"),
        ("replies:\n  - text: a\n    chunks: [b]\n", "script.yaml:3: replies[0].chunks: cannot"),
        ("replies:\n\t- text: a\n", "script.yaml:2: a tab cannot indent YAML"),
        ("- text: a\n", "script.yaml:1: must be a mapping"),
    ],
)
async def test_a_bad_file_names_the_line_and_the_field(
    tmp_path: Path, text: str, said: str
) -> None:
    """The author goes to that line and mends it."""
    with pytest.raises(ConfigError) as raised:
        await script(tmp_path, text)

    assert said in str(raised.value)
    assert "\n" not in str(raised.value)  # one fault is told once


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A wrong path is the most common mistake."""
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such file"):
        load_script(tmp_path / "none.yaml", {})
