"""Calls that wait for a person, in the answers of OpenAI's API, and answered by a message there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import Response
from pydantic import BaseModel
from support.gateway import HttpGateway
from support.openai_client import client_of
from support.shell_agents import results, running, shell_agent, until_asked
from support.tables import table

from everturn_gateway.config.settings import OpenAIApiConfig, ServerConfig

PAGE = {"X-OpenWebUI-Chat-Id": "0e1f7d5c-6f0e-4d8f-a1a5-3a9a2e5c1b77"}


def chat(*texts: str) -> list[ChatCompletionMessageParam]:
    """Return a whole history as a page sends it: user and assistant in turns."""
    return [
        {"role": "assistant", "content": text} if n % 2 else {"role": "user", "content": text}
        for n, text in enumerate(texts)
    ]


async def say(client: openai.AsyncOpenAI, *texts: str, streams: bool) -> str:
    """Send a page's history; return what the page shows then."""
    if not streams:
        answer = await client.chat.completions.create(
            model="second", messages=chat(*texts), extra_headers=PAGE
        )
        return answer.choices[0].message.content or ""
    async with client.chat.completions.stream(
        model="second", messages=chat(*texts), extra_headers=PAGE
    ) as stream:
        done = await stream.get_final_completion()
    assert done.choices[0].finish_reason == "stop"
    return done.choices[0].message.content or ""


async def the_session(gateway: HttpGateway) -> str:
    """Return the one session that there is."""
    (session,) = await gateway.service.reader.sessions(after="", limit=2)
    return session.session_id


@table("streams", [True, False], ids=["streamed", "whole"])
async def test_a_page_is_asked_and_answers(tmp_path: Path, streams: bool) -> None:
    """The answer ends with the question, a word in the chat lets the turn go on."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [running("echo hi > seen; cat seen"), "It says hi.", "bye"]
        asked = await say(client, "look", streams=streams)
        told = await say(client, "look", asked, "Yes!", streams=streams)
        session_id = await the_session(gateway)
        ran = await results(gateway, session_id)
        await say(client, "look", asked, "Yes!", told, "thanks", streams=streams)
        last = await the_session(gateway)

    assert "May bash run?" in asked
    assert "echo hi > seen; cat seen" in asked
    assert f"everturn approve {session_id} c1" in asked
    assert told == "It says hi."
    assert ran == ["hi"]
    assert last == session_id
    assert [m.text for m in gateway.provider.requests[2].messages] == [
        *("look", "I will look.", "hi", "It says hi.", "thanks")
    ]


@table("word", ["no", "deny c1", "what is it?"])
async def test_it_does_not_run(tmp_path: Path, word: str) -> None:
    """A no is an answer, and anything else that is said comes first."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [running("echo hi > seen"), "As you like."]
        asked = await say(client, "look", streams=True)
        told = await say(client, "look", asked, word, streams=True)
        ran = await results(gateway, await the_session(gateway))

    assert told == "As you like."
    assert not (gateway.config.workspace / "files" / "second" / "seen").exists()
    assert len(ran) == 1


async def test_only_who_may_is_asked_and_answers(tmp_path: Path) -> None:
    """Without the scope, or by a policy that names others, a word changes nothing."""
    # Without the scope a word changes nothing, and the question does not ask for one.
    folder = tmp_path / "scope"
    folder.mkdir()
    server = ServerConfig(require_token=True)
    async with shell_agent(folder, server=server) as gateway:
        gateway.provider.script += [running("true")]
        talks = await gateway.token("ann", "talk")
        async with client_of(gateway, key=talks) as client:
            asked = await say(client, "look", streams=True)
            with pytest.raises(openai.PermissionDeniedError) as refused:
                await say(client, "look", asked, "yes", streams=False)
        state = await gateway.service.view(await the_session(gateway))

    assert "May bash run?" in asked
    assert "answer in this chat" not in asked
    assert "everturn approve" in refused.value.message
    assert [each.call_id for each in state.open_approvals] == ["c1"]

    # The scope alone is not enough where the policy names others.
    folder = tmp_path / "policy"
    folder.mkdir()
    server = ServerConfig(require_token=True)
    async with shell_agent(folder, server=server, approvers=["bob"]) as gateway:
        gateway.provider.script += [running("true"), "done"]
        ann = await gateway.token("ann", "talk", "approve")
        async with client_of(gateway, key=ann) as client:
            asked = await say(client, "look", streams=True)
            with pytest.raises(openai.PermissionDeniedError):
                await say(client, "look", asked, "yes", streams=False)

    assert "answer in this chat" not in asked


async def test_a_stream_tells_of_it_and_goes_on(tmp_path: Path) -> None:
    """A client with a conversation of its own is told, and waits on: others may answer."""
    header = {"X-Everturn-Session": "desk"}
    shown, other = "", ""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [running("echo hi"), "It says hi."]
        stream = await client.chat.completions.create(
            model="second", messages=chat("look"), stream=True, extra_headers=header
        )
        async for chunk in stream:
            shown += chunk.choices[0].delta.content or ""
            if "answer in this chat" in shown and "(yes)" not in shown:
                answer = await client.chat.completions.create(
                    model="second", messages=chat("yes"), extra_headers=header
                )
                other = answer.choices[0].message.content or ""
                shown += "(yes)"

    assert shown.startswith("I will look.\n\n**May bash run?**")
    assert shown.endswith("It says hi.")
    assert other == "It says hi."


@table("streams", [True, False])
async def test_responses_tell_of_it(tmp_path: Path, streams: bool) -> None:
    """The question is an item of its own, and the next response answers it."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [running("echo hi"), "It says hi.", "bye"]
        one: Response = await client.responses.create(
            model="second", input="look", extra_headers=PAGE
        )
        two: Response
        if streams:
            async with client.responses.stream(
                model="second", input="yes", previous_response_id=one.id
            ) as stream:
                two = await stream.get_final_response()
        else:
            two = await client.responses.create(
                model="second", input="yes", previous_response_id=one.id
            )
        three = await client.responses.create(
            model="second", input="thanks", previous_response_id=two.id
        )

    assert [item.type for item in one.output] == ["message", "message"]
    assert "answer in this chat" in one.output_text
    assert (one.status, two.output_text, three.output_text) == ("incomplete", "It says hi.", "bye")
    assert one.incomplete_details
    assert one.incomplete_details.to_dict() == {"reason": "approval_required"}


def waits_for(gateway: HttpGateway, seconds: float) -> None:
    """Have answers that are not streamed end with a question after a time."""
    api = OpenAIApiConfig(approval_wait_s=seconds)
    gateway.config = replace(gateway.config, openai_api=api)


@table("named", ["header", "user", "metadata"])
async def test_who_waits_for_a_whole_answer_is_asked(tmp_path: Path, named: str) -> None:
    """The answer ends with the question; the word for it is the next message."""
    ways: dict[str, dict[str, Any]] = {
        "header": {"extra_headers": {"X-Everturn-Session": "desk"}},
        "user": {"user": "desk"},
        "metadata": {"metadata": {"conversation_id": "desk"}},
    }
    names = ways[named]
    said: list[str | None] = []
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        waits_for(gateway, 0)
        gateway.provider.script += [running("echo hi"), "It says hi."]
        for text in ("look", "yes"):
            answer = await client.chat.completions.create(
                model="second", messages=chat(text), **names
            )
            said.append(answer.choices[0].message.content)
            assert answer.choices[0].finish_reason == "stop"

    assert "answer in this chat with *yes* or *no*" in (said[0] or "")
    assert said[1] == "It says hi."


async def test_the_time_to_wait_passes_or_somebody_else_answers_in_it(tmp_path: Path) -> None:
    """Then the answer is the agent's, as if nobody had been asked; else the turn waits on."""
    # Nobody else answers meanwhile; the turn waits on behind the answer.
    folder = tmp_path / "passes"
    folder.mkdir()
    async with shell_agent(folder) as gateway, client_of(gateway) as client:
        waits_for(gateway, 1e-9)
        gateway.provider.script += [running("echo hi")]
        answer = await client.chat.completions.create(
            model="second", messages=chat("look"), user="desk"
        )
        state = await gateway.service.view(await the_session(gateway))

    assert "May bash run?" in (answer.choices[0].message.content or "")
    assert [each.call_id for each in state.open_approvals] == ["c1"]

    # Then the answer is the agent's, as if nobody had been asked.
    folder = tmp_path / "answers"
    folder.mkdir()
    answers: list[str | None] = []
    async with shell_agent(folder) as gateway, client_of(gateway) as client:
        waits_for(gateway, 3600)
        gateway.provider.script += ["hello", running("echo hi"), "It says hi."]

        async def say_it(text: str) -> None:
            answer = await client.chat.completions.create(
                model="second", messages=chat(text), user="desk"
            )
            answers.append(answer.choices[0].message.content)

        await say_it("hi")
        session_id = await the_session(gateway)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say_it, "look")
            asked = await until_asked(gateway, session_id)
            await gateway.service.decide(
                session_id, asked.call_id, "allow_once", arguments_hash=asked.arguments_hash
            )

    assert answers == ["hello", "It says hi."]


class Place(BaseModel):
    """What a program wants to know."""

    town: str


@table("streams", [True, False], ids=["streamed", "whole"])
async def test_a_form_leaves_no_room_for_a_question(tmp_path: Path, streams: bool) -> None:
    """It comes as the refusal, which clients show and do not read as JSON."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        waits_for(gateway, 0)
        gateway.provider.script += [running("echo hi"), '{"town": "Bonn"}']
        shown: list[tuple[str | None, Place | None]] = []
        for text in ("look", "yes"):
            asked: Any = {"model": "second", "messages": chat(text), "user": "desk"}
            if streams:
                async with client.chat.completions.stream(**asked, response_format=Place) as made:
                    message = (await made.get_final_completion()).choices[0].message
            else:
                parsed = await client.chat.completions.parse(**asked, response_format=Place)
                message = parsed.choices[0].message
            shown.append((message.refusal, message.parsed))

    assert "May bash run?" in (shown[0][0] or "")
    assert shown[0][1] is None
    assert shown[1] == (None, Place(town="Bonn"))


@table("streams", [True, False], ids=["streamed", "whole"])
async def test_so_it_is_with_responses(tmp_path: Path, streams: bool) -> None:
    """The question is a refusal beside the answer, in the stream as well."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [running("echo hi"), '{"town": "Bonn"}']
        found: list[Any] = []
        before: str | None = None
        for text in ("look", "yes"):
            asked: Any = {
                "model": "second",
                "input": text,
                "previous_response_id": before,
                "text_format": Place,
                "extra_headers": PAGE,
            }
            if streams:
                async with client.responses.stream(**asked) as made:
                    found.append(await made.get_final_response())
            else:
                found.append(await client.responses.parse(**asked))
            before = found[-1].id

    (part,) = found[0].output[-1].content
    assert part.type == "refusal"
    assert "May bash run?" in part.refusal
    assert [each.output_parsed for each in found] == [None, Place(town="Bonn")]


async def test_a_response_that_waits_is_fetched(tmp_path: Path) -> None:
    """One in the background is in progress, and says what it waits for."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [running("echo hi"), "It says hi."]
        one = await client.responses.create(model="second", input="look", background=True)
        await until_asked(gateway, await the_session(gateway))
        waiting = await client.responses.retrieve(one.id)
        done = await client.responses.create(
            model="second", input="yes", previous_response_id=one.id
        )

    assert waiting.status == "in_progress"
    assert waiting.output_text.startswith("I will look.")
    assert "May bash run?" in waiting.output_text
    assert (done.status, done.output_text) == ("completed", "It says hi.")


async def test_the_numbers_of_a_stream_go_on_behind_a_question(tmp_path: Path) -> None:
    """What follows the word has the numbers that it has in the whole response."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [running("echo hi"), "It says hi."]
        streams: list[list[Any]] = []
        for text in ("look", "yes"):
            before = streams[0][0].response.id if streams else None
            stream = await client.responses.create(
                model="second",
                input=text,
                previous_response_id=before,
                stream=True,
                extra_headers=PAGE,
            )
            streams.append([event async for event in stream])
        asked = [e for e in streams[0] if e.type == "response.output_text.delta"][-1]
        again = await client.responses.retrieve(
            streams[0][0].response.id, stream=True, starting_after=asked.sequence_number + 3
        )
        rest = [(e.type, e.sequence_number) async for e in again]

    assert "May bash run?" in asked.delta
    new = [(e.type, e.sequence_number) for e in streams[1] if e.type != "response.created"]
    assert rest[:2] == new[1:3]
    assert rest[-4:] == new[-4:]


async def test_several_calls_that_wait_are_named(tmp_path: Path) -> None:
    """One is asked about after the other; each word is about the one that waits."""
    async with shell_agent(tmp_path) as gateway, client_of(gateway) as client:
        first, second = running("echo one", "c1"), running("echo two", "c2")
        both = first.__class__(text="Both.", calls=(*first.calls, *second.calls))
        gateway.provider.script += [both, "done"]
        asked = await say(client, "look", streams=True)
        again = await say(client, "look", asked, "yes c1", streams=True)
        told = await say(client, "look", asked, "yes c1", again, "no c2", streams=True)
        ran = await results(gateway, await the_session(gateway))

    assert ("echo one" in asked, "echo two" in again, told) == (True, True, "done")
    assert ran[0] == "one"
    assert "two" not in ran[1]
