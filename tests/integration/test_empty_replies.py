"""A reply that says nothing is no answer: it is asked for again, then the turn fails in words."""

from __future__ import annotations

from pathlib import Path

from support.command import everturn, write_agent
from support.model_api import Answer, open_model_api
from support.tables import table
from support.tool_doubles import Deed, by_name

from everturn_actors.events import ReplyBroken
from everturn_actors.model import IncomingMessage, Reply, Upload
from everturn_actors.ports import ToolOutput
from everturn_actors.service import TurnResult
from everturn_actors.testing import (
    ScriptedProvider,
    TestService,
    calling,
    open_test_service,
    texts,
)

EMPTY = Reply(text=" \u200b\n")
THOUGHTS = Reply(text="", reasoning="hm, let me see")
CUT_OFF = Reply(text="", reasoning="hm, let me", stop_reason="length")


async def say(test: TestService, text: str = "go") -> TurnResult:
    """Submit a message and wait for its answer."""
    return await (await test.service.submit(IncomingMessage(text=text, key=test.key()))).result()


async def broken(test: TestService, result: TurnResult) -> list[str]:
    """Return why replies could not be used, oldest first."""
    events = await test.service.history(result.session_id, after=0, limit=100)
    return [e.body.reason for e in events if isinstance(e.body, ReplyBroken)]


@table(
    ("reply", "reason"),
    [
        (EMPTY, "it was empty"),
        (THOUGHTS, "it was empty after its thinking"),
        (CUT_OFF, "it reached the output limit before it said anything"),
    ],
)
async def test_an_empty_reply_is_asked_for_once_more_and_then_fails_in_words(
    reply: Reply, reason: str
) -> None:
    """Whoever asked gets an answer, or reads why there is none; never an empty line."""
    async with open_test_service(provider=ScriptedProvider(reply, "here", reply, reply)) as test:
        answered, failed = await say(test), await say(test, "again")

        assert (answered.outcome, answered.text) == ("answered", "here")
        assert reason in texts(test.provider.requests[1])[-1]
        assert (failed.outcome, failed.text) == ("failed", "")
        assert "2 times in a row" in failed.error
        assert reason in failed.error
        assert len(await broken(test, failed)) == 3
        assert len(test.provider.requests) == 4


async def test_an_empty_reply_after_a_call_is_asked_for_again() -> None:
    """What was said beside the call was written before the model knew what the call gives."""
    talking = Reply(text="Let me look.", calls=calling(("c1", "look")).calls)
    provider = ScriptedProvider(talking, "", "It is blue.")
    async with open_test_service(provider=provider, tools=by_name(Deed("look"))) as test:
        result = await say(test)

        assert (result.outcome, result.text) == ("answered", "It is blue.")


async def test_a_turn_that_sent_a_file_may_end_without_a_word() -> None:
    """The file is the answer; asked again, a model would only talk about it."""
    picture = ToolOutput(text="sent", files=(Upload(data=b"hello", file_name="a.txt"),))
    draw = Deed("draw", gives=lambda _call: picture)
    provider = ScriptedProvider(calling(("c1", "draw")), "", "never")
    async with open_test_service(provider=provider, tools=by_name(draw)) as test:
        result = await say(test)

        assert (result.outcome, result.text) == ("answered", "")
        assert await broken(test, result) == []


@table(
    ("stop_reason", "words"),
    [("refusal", "the model declined"), ("content_filter", "content filter")],
)
async def test_an_answer_that_was_held_back_is_told_as_that(stop_reason: str, words: str) -> None:
    """Asked again, whoever held it back would do so again; and people should know who it was."""
    provider = ScriptedProvider(Reply(text="", stop_reason=stop_reason), "never")
    async with open_test_service(provider=provider) as test:
        result = await say(test)

        assert result.outcome == "failed"
        assert words in result.error
        assert len(provider.requests) == 1


async def test_a_command_never_prints_an_empty_line_for_an_answer(tmp_path: Path) -> None:
    """A script must not take nothing for an answer."""
    async with open_model_api() as api:
        api.default = Answer(text="")
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        done = await everturn("run", "hello", cwd=tmp_path, env={"OPENAI_API_KEY": "sk-test"})

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("everturn: no answer: the model's reply could not be used, 2 times")
