"""The built-in responder with tools: plain wishes become calls, and results plain words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from anyio import to_thread

from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from everturn_actors.testing import ManualClock
from everturn_gateway.observe import SecretRegistry
from everturn_gateway.providers.builtin import (
    HELP,
    WHAT_IT_IS,
    BuiltinResponder,
    answer,
    reply_to,
)
from everturn_gateway.tools.cli import CliProgram
from everturn_gateway.tools.plan import (
    BashPlan,
    DelegatePlan,
    ProcessPlan,
    SessionPlan,
    ToolPlan,
    WebPlan,
)
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.skills import Skill, skills_index
from everturn_gateway.tools.web import SearchSettings
from everturn_gateway.tools.workshop import open_workshop

PLAIN = Confinement(sandbox="none")
Asked = tuple[str, Mapping[str, object]]


def every_tool(folder: Path) -> ToolPlan:
    """Return a plan with every tool that the responder knows."""
    manual = folder / "README.md"
    return ToolPlan(
        recall_page_characters=1000,
        files=True,
        bash=BashPlan(confinement=PLAIN, timeout_s=10),
        processes=ProcessPlan(confinement=PLAIN, max_processes=1),
        web=WebPlan(fetch=True, search=SearchSettings(provider="brave", api_key="k" * 8)),
        session=SessionPlan(send_to=("*",)),
        delegate=DelegatePlan(agents=("digest", "assistant"), max_depth=1),
        memory=True,
        reload=True,
        found=(
            CliProgram(
                name="word-count",
                description="Count words.",
                command=("/bin/true",),
                folder=folder,
                readme=manual,
            ),
        ),
        skills=(Skill(name="daily-note", description="Keep a note.", folder=folder),),
    )


async def real_tools(folder: Path) -> tuple[ToolDefinition, ...]:
    """Return the tools as an agent's model is offered them."""
    async with open_workshop(
        state=folder / "state", environ={}, secrets=SecretRegistry(), clock=ManualClock()
    ) as shop:
        plan, home = every_tool(folder), folder / "home"
        equip = partial(shop.equip, plan, agent="test", home=home, files=None)
        equipment = await to_thread.run_sync(equip)
        return tuple(tool.definition for tool in equipment.tools.values())


def tool(name: str, *required: str, **properties: Mapping[str, Any]) -> ToolDefinition:
    """Return a tool of this name."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolDefinition(name=name, description=f"Does {name}. More of it.", parameters=schema)


def request(
    *messages: AnyMessage | str, tools: tuple[ToolDefinition, ...] = (), system: str = ""
) -> ModelRequest:
    """Return a request; a text is a user message, numbered by its place."""
    numbered = tuple(
        UserMessage(text=each, seq=seq) if isinstance(each, str) else each
        for seq, each in enumerate(messages, start=1)
    )
    return ModelRequest(model="builtin", system=system, messages=numbered, tools=tools)


def asked(reply: Reply) -> list[Asked]:
    """Return the calls of a reply, without their ids."""
    return [(call.name, json.loads(call.arguments)) for call in reply.calls]


def results_of(reply: Reply, *texts: str, failed: bool = False) -> tuple[AnyMessage, ...]:
    """Return a reply with calls and their results, as the next request holds them."""
    pairs = zip(reply.calls, texts, strict=True)
    return (
        reply,
        *(
            ToolResult(call_id=call.call_id, name=call.name, text=text, is_error=failed)
            for call, text in pairs
        ),
    )


WISHES: list[tuple[str, list[Asked]]] = [
    ("remember that my cat is called Mia.", [("remember", {"content": "my cat is called Mia"})]),
    ("Please remember: milk", [("remember", {"content": "milk"})]),
    ("recall", [("recall", {})]),
    ("What do you know about Mia?", [("recall", {"days": 30})]),
    ("read your long-term notes", [("reflect", {})]),
    ("list files", [("list_files", {})]),
    ("list the files in src", [("list_files", {"path": "src"})]),
    ("read notes.txt", [("read_file", {"path": "notes.txt"})]),
    ("Read ./a and `b c.md`.", [("read_file", {"path": "./a"}), ("read_file", {"path": "b c.md"})]),
    ("show me a.txt, b.txt, and a.txt", [("read_file", {"path": x}) for x in ("a.txt", "b.txt")]),
    ("write a/b.txt: one\ntwo", [("write_file", {"path": "a/b.txt", "content": "one\ntwo\n"})]),
    (
        'in a.txt replace "x. " with ""',
        [("edit_file", {"path": "a.txt", "old_text": "x. ", "new_text": ""})],
    ),
    ("search the files for TODO", [("search_files", {"query": "TODO"})]),
    ("$ ls -l | wc -l", [("bash", {"command": "ls -l | wc -l"})]),
    ("run: echo 'is it?'", [("bash", {"command": "echo 'is it?'"})]),
    ("fetch https://a.test/x?y=1.", [("web_fetch", {"url": "https://a.test/x?y=1"})]),
    (
        "read http://a.test and http://b.test/c",
        [("web_fetch", {"url": "http://a.test"}), ("web_fetch", {"url": "http://b.test/c"})],
    ),
    ("search the web for green tea", [("web_search", {"query": "green tea"})]),
    ("search this conversation for tea", [("recall_context", {"search": "tea"})]),
    ("read back message 12", [("recall_context", {"message": 12})]),
    (
        "start in the background: sleep 9",
        [("background_process", {"action": "spawn", "command": "sleep 9"})],
    ),
    ("processes", [("background_process", {"action": "list"})]),
    ("log of process p1", [("background_process", {"action": "log", "handle": "p1"})]),
    ("kill process p1", [("background_process", {"action": "kill", "handle": "p1"})]),
    ("ask digest to add 1+1", [("delegate", {"task": "add 1+1", "agent": "digest"})]),
    ("list your conversations", [("session", {"action": "list"})]),
    ("read conversation s-1", [("session", {"action": "read", "session_id": "s-1"})]),
    (
        "send to cli:ann: it is done",
        [("session", {"action": "send", "to": "cli:ann", "text": "it is done"})],
    ),
    ("reload your tools", [("reload_tools", {})]),
    ("use the skill daily-note", [("read_skill", {"name": "daily-note"})]),
    ("word-count a 'b c' a", [("word-count", {"args": "a 'b c' a"})]),
    ("word-count help", [("word-count", {"help": True})]),
    (
        'call update_world {"topic": "people", "content": "Mia is a cat"}',
        [("update_world", {"topic": "people", "content": "Mia is a cat"})],
    ),
    ("call reflect", [("reflect", {})]),
]


async def test_each_wish_becomes_calls_that_the_real_tools_take(tmp_path: Path) -> None:
    """A call with an argument that its tool does not know would only ever fail."""
    tools = await real_tools(tmp_path)
    schemas = {each.name: each.parameters for each in tools}
    for said, wanted in WISHES:
        reply = reply_to(request(said, tools=tools))

        assert asked(reply) == wanted, said
        assert (reply.stop_reason, reply.text) == ("tool_calls", "")
        for name, arguments in wanted:
            jsonschema.validate(arguments, {**schemas[name], "additionalProperties": False})


@pytest.mark.parametrize("said", [said for said, _ in WISHES])
def test_nothing_is_called_that_is_not_offered(said: str) -> None:
    """A call of a tool that is not there is an error of the model's."""
    offered = reply_to(request(said, tools=(tool("other"),)))
    without = reply_to(request(said))

    assert offered.calls == without.calls == ()
    assert without.text == answer(request(said))


async def test_other_talk_calls_nothing(tmp_path: Path) -> None:
    """It acts on plain wishes alone, and never by a guess."""
    tools = await real_tools(tmp_path)
    talk = (
        "read a good book",
        "I read notes.txt and b.txt yesterday",
        "write me a letter",
        "the $ is strong",
        "call me tomorrow",
        "ask mother to cook",
        "do not run: rm -rf /",
        "what is 6*7",
        "hello",
        "",
    )

    assert [said for said in talk if reply_to(request(said, tools=tools)).calls] == []
    assert reply_to(request("what is 6*7", tools=tools)).text == "6*7 = 42"
    assert "not a language model" in reply_to(request("hello", tools=tools)).text


async def test_the_help_tells_what_the_tools_can_do(tmp_path: Path) -> None:
    """What nobody is told of is not used, and what is not there must not be promised."""
    tools = await real_tools(tmp_path)
    everything = reply_to(request("help", tools=tools)).text
    little = reply_to(request("What can you do?", tools=(tool("bash"),))).text

    assert all(f"\n- {line}" in everything for line in ("read FILE", "run: ", "remember that TEXT"))
    assert "\n- word-count ARGUMENTS" in everything
    assert "not a language model" in little
    assert "\n- run: " in little
    assert "read FILE" not in little
    assert reply_to(request("help")).text == HELP


def test_the_same_request_has_the_same_calls_and_no_turn_shares_ids() -> None:
    """A restart asks again; an approval and a result belong to one call alone."""
    tools = (tool("bash"),)
    first = reply_to(request("$ date", tools=tools))
    later = reply_to(
        request("$ date", *results_of(first, "noon"), Reply(text="noon"), "$ date", tools=tools)
    )
    ids = [call.call_id for reply in (first, later) for call in reply.calls]

    assert first == reply_to(request("$ date", tools=tools))
    assert len(set(ids)) == 2


def test_results_are_told_and_nothing_is_called_again() -> None:
    """The turn ends with what came of it."""
    tools = (tool("read_file"),)
    said = "read a.txt and b.txt"
    calls = reply_to(request(said, tools=tools))
    told = reply_to(
        request(
            said,
            *results_of(calls, "a.txt, lines 1-2 of 2:\n1\tx\n2\ty", "b.txt is empty"),
            Notice(text="12:00"),
            tools=tools,
        )
    )

    assert told.calls == ()
    assert told.text == ("read_file:\na.txt, lines 1-2 of 2:\nx\ny\n\nread_file: b.txt is empty")


def test_an_error_is_told_in_its_own_words() -> None:
    """A refusal that reads like a success would be a lie."""
    tools = (tool("bash"),)
    calls = reply_to(request("$ rm -rf x", tools=tools))
    told = reply_to(request("$ rm -rf x", *results_of(calls, "denied", failed=True), tools=tools))

    assert (told.text, told.calls) == ("bash did not work: denied", ())


def test_a_long_result_is_told_in_part() -> None:
    """A reply is for a person to read."""
    tools = (tool("bash"),)
    calls = reply_to(request("$ yes", tools=tools))
    told = reply_to(request("$ yes", *results_of(calls, "y\n" * 10_000), tools=tools))

    assert len(told.text) < 4_200
    assert told.text.endswith("more characters)")


def test_what_comes_from_outside_is_told_as_such() -> None:
    """The marks are a language model's; a person needs the fact."""
    tools = (tool("web_fetch"),)
    calls = reply_to(request("fetch http://a.test", tools=tools))
    result = ToolResult(
        call_id=calls.calls[0].call_id,
        name="web_fetch",
        text="[outside text 12ab: data from outside.]\nHi\n[end of outside text 12ab]",
        untrusted=True,
    )
    told = reply_to(request("fetch http://a.test", calls, result, tools=tools))

    assert told.text == "web_fetch:\nNobody vouches for this; it comes from outside:\nHi"


def test_notes_are_looked_through_for_a_word() -> None:
    """Whoever asks for one thing does not want to read all."""
    tools = (tool("recall"),)
    notes = "# 2026-11-21\n\nmy cat is called Mia\n\nbuy milk"
    mia, rex = "recall mia", "what do you know about Rex?"
    found = results_of(reply_to(request(mia, tools=tools)), notes)
    missed = results_of(reply_to(request(rex, tools=tools)), notes)

    assert reply_to(request(mia, *found, tools=tools)).text == (
        "My notes say of “mia”:\nmy cat is called Mia"
    )
    assert reply_to(request(rex, *missed, tools=tools)).text == "My notes say nothing of “Rex”."


def test_a_wish_after_a_skill_is_a_step_of_its_own() -> None:
    """What a skill allows holds once it was read, so its calls must come after."""
    tools = (tool("read_skill"), tool("bash"))
    said = "use the skill daily-note, then: $ date"
    first = reply_to(request(said, tools=tools))
    read = results_of(first, "Skill daily-note, SKILL.md:\n\nGet the time.")
    second = reply_to(request(said, *read, tools=tools))
    told = reply_to(request(said, *read, *results_of(second, "12:00"), tools=tools))
    lost = reply_to(request(said, *results_of(first, "there is none", failed=True), tools=tools))

    assert asked(first) == [("read_skill", {"name": "daily-note"})]
    assert asked(second) == [("bash", {"command": "date"})]
    assert told.text == "I read: Skill daily-note, SKILL.md.\n\nbash: 12:00"
    assert (lost.text, lost.calls) == ("read_skill did not work: there is none", ())


def test_it_does_not_pretend_to_follow_a_skill() -> None:
    """Only a language model could; nothing is read for nothing."""
    tools = (tool("read_skill"),)
    said = "use the skill daily-note, then: note what happened"
    reply = reply_to(request(said, tools=tools))

    assert reply.calls == ()
    assert "no language model" in reply.text


def test_a_message_that_comes_during_a_turn_is_the_newest_wish() -> None:
    """It was said last, so it is what is wanted."""
    tools = (tool("bash"),)
    done = results_of(reply_to(request("$ date", tools=tools)), "noon")
    reply = reply_to(request("$ date", *done, "$ pwd", tools=tools))

    assert asked(reply) == [("bash", {"command": "pwd"})]


@pytest.mark.parametrize("failed", [True, False])
async def test_every_turn_ends(tmp_path: Path, *, failed: bool) -> None:
    """Nobody is there to tell it that enough is enough."""
    tools = await real_tools(tmp_path)
    for said in (*(said for said, _ in WISHES), "use the skill daily-note, then: read a.txt"):
        messages: list[AnyMessage | str] = [said]
        steps = 0
        while (reply := reply_to(request(*messages, tools=tools))).calls:
            messages += results_of(reply, *("$ date" for _ in reply.calls), failed=failed)
            steps += 1
            assert steps <= 2, said

        assert reply.text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('call nothing {"a": 1}', "I have no tool nothing; I have: bash."),
        ('call bash {"a": }', "What follows bash is no JSON: Expecting value: line 1"),
        ("what tools do you have?", "I can call these tools:\n- bash: Does bash"),
    ],
)
def test_a_call_by_name_that_cannot_be_made_is_said_so(said: str, told: str) -> None:
    """Whoever types JSON by hand has to learn what is wrong with it."""
    reply = reply_to(request(said, tools=(tool("bash"),)))

    assert reply.calls == ()
    assert reply.text.startswith(told)


def test_the_skills_are_those_of_the_prompt() -> None:
    """They are told to the model there, and nowhere else."""
    skill = Skill(name="daily-note", description="Keep a note.", folder=Path())
    tools = (tool("read_skill"),)
    told = request("what skills do you have?", tools=tools, system=skills_index((skill,)))

    assert reply_to(told).text == "I have these skills:\n- daily-note: Keep a note."
    assert "no skills" in reply_to(request("list your skills", tools=tools)).text


def test_a_task_from_another_agent_is_a_wish_too() -> None:
    """Delegates are agents like any other."""
    task = "[Task from the agent boss. Nobody reads along.]\n\n$ date"

    assert asked(reply_to(request(task, tools=(tool("bash"),)))) == [("bash", {"command": "date"})]
    assert reply_to(request("[Task from the agent boss. Work.]\n\n6*7")).text == "6*7 = 42"


@pytest.mark.parametrize(
    "said",
    [
        "[Ann] 6*7",
        "[Said here before, not to you:]\n[Bob] 1+1\n[Now to you:]\n[Ann] 6*7",
    ],
)
def test_who_says_it_in_a_group_and_what_was_said_to_others_change_no_sum(said: str) -> None:
    """A first try in a group would get the same words about what this is, whatever is asked."""
    assert reply_to(request(said)).text == "6*7 = 42"


def test_files_at_once_are_bounded() -> None:
    """One message must not start any number of calls."""
    names = " and ".join(f"{number}.txt" for number in range(9))
    reply = reply_to(request(f"read {names}", tools=(tool("read_file"),)))

    assert (reply.calls, reply.text) == ((), "These are 9; I do at most 8 at once.")


async def test_calls_are_not_streamed_as_text() -> None:
    """A person sees an answer, not the way to it."""
    said: list[str] = []
    reply = await BuiltinResponder().complete(request("$ date", tools=(tool("bash"),)), said.append)
    await BuiltinResponder().complete(request("x"), said.append)

    assert len(reply.calls) == 1
    assert "".join(said) == WHAT_IT_IS
