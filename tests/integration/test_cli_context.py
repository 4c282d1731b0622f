"""`everturn context apply`, as a person or a script runs it: a transcript in, a request out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from inline_snapshot import snapshot
from support.command import Done, everturn
from support.context_policies import POLICIES
from support.tables import table
from support.transcripts import IMAGE, Json, called, result, said, step, user

CHAT = [user("a"), said("b"), user("go"), *step("c1", "x" * 20_000)]


async def apply(messages: object, *arguments: str, cwd: Path) -> Done:
    """Run the command on a transcript."""
    raw = messages if isinstance(messages, bytes) else json.dumps(messages).encode()
    return await everturn("context", "apply", *arguments, cwd=cwd, stdin=raw)


async def applied(messages: object, *arguments: str, cwd: Path) -> Json:
    """Return what the command prints, which has to be all well."""
    done = await apply(messages, *arguments, cwd=cwd)
    assert (done.code, done.err) == (0, "")
    printed: Json = json.loads(done.out)
    return printed


async def test_request_and_report_come_as_json(tmp_path: Path) -> None:
    """It works in an empty folder: no workspace, no agent, no model; and leaves nothing there."""
    shown = await applied(CHAT, "--policy", "duragent", "--max-output", "1000", cwd=tmp_path)
    report = shown.pop("report")

    assert list(shown) == ["messages"]
    assert shown["messages"][:4] == CHAT[:4]
    assert {k: v for k, v in report.items() if k != "messages"} == snapshot(
        {
            "policy": "duragent",
            "window": 128000,
            "total": 6038,
            "fits": True,
            "regions": {
                "system": 0,
                "summary": 0,
                "notice": 0,
                "history": 8,
                "turn": 5030,
                "tools": 0,
                "reserve": 1000,
                "margin": 12800,
            },
            "omitted_messages": 0,
            "reductions": [],
            "stored": [],
            "repairs": [],
            "notes": [],
        }
    )
    assert [entry["disposition"] for entry in report["messages"]] == ["kept"] * 5
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a test may wait for its folder


async def test_each_message_has_its_disposition(tmp_path: Path) -> None:
    """Whoever tunes a policy must see what it did to what, and what that gained."""
    numbers = ("--set", "max_tool_result_tokens=100", "--set", "tool_result_truncation=tail")
    shown = await applied(CHAT, "--policy", "duragent", *numbers, cwd=tmp_path)
    report = shown["report"]

    assert report["messages"][-1] == {
        "index": 4,
        "role": "tool",
        "disposition": "shortened",
        "stage": "truncate",
        "tokens_before": 5_004,
        "tokens_after": 117,
    }
    assert report["reductions"] == [
        {
            "stage": "truncate",
            "disposition": "shortened",
            "messages": [4],
            "call_ids": ["c1"],
            "tokens_before": 5_004,
            "tokens_after": 117,
        }
    ]
    assert [m["disposition"] for m in report["messages"][:4]] == ["kept"] * 4


async def test_the_default_policy_says_what_it_hides_and_how_to_ask(tmp_path: Path) -> None:
    """Its markers are all the model knows of what is not there."""
    old = [user("look"), *step("c1", "x\n" * 60_000), said("seen")]
    chat = [{"role": "system", "content": "Be brief."}, *old, *old, user("now?")]
    options = ("--window", "20000", "--set", "max_result_share=1", "--set", "cut_to=0.75")
    shown = await applied(chat, "--policy", "everturn", *options, cwd=tmp_path)
    report, result_text = shown["report"], shown["messages"][3]["content"]

    assert report["fits"]
    assert [m["disposition"] for m in report["messages"]] == [
        *("kept", "dropped", "dropped", "dropped", "dropped"),
        *("kept", "kept", "shortened", "kept", "kept"),
    ]
    assert shown["messages"][0]["content"] == snapshot(
        "Be brief.\n\n"
        "[4 earlier messages of this conversation are not shown; recall_context() lists what is"
        ' hidden, recall_context(search="...") finds words in it]'
    )
    marker = result_text.replace("x\n", "").strip("x\n")
    assert re.sub(r"~[\d,]+", "~N", marker) == (
        '[truncated: ~N of ~N tokens shown; recall_context(file="results/c1-2") returns it whole]'
    )
    assert report["omitted_messages"] == 4
    assert [(s["message"], s["path"]) for s in report["stored"]] == [
        (3, "results/c1"),
        (7, "results/c1-2"),
    ]
    assert report["notes"] == ["would summarise the oldest 8 messages"]


async def test_files_bring_system_prompt_and_tools(tmp_path: Path) -> None:
    """They are no part of a transcript, but of what has to fit."""
    (tmp_path / "system.md").write_text("Be brief.\n")
    tool = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
    (tmp_path / "tools.json").write_text(json.dumps([tool]))
    files = ("--system", "system.md", "--tools", "tools.json")
    shown = await applied(CHAT, "--policy", "picoclaw", *files, cwd=tmp_path)
    request = {"messages": CHAT, "tools": [tool]}
    as_body = await applied(request, "--policy", "picoclaw", cwd=tmp_path)

    assert shown["messages"][0] == {"role": "system", "content": "Be brief."}
    assert shown["report"]["regions"]["system"] == (9 + 12) * 2 // 5
    assert shown["report"]["regions"]["tools"] == (4 + 17 + 20) * 2 // 5
    assert as_body["report"]["regions"]["tools"] == shown["report"]["regions"]["tools"]


async def test_turn_start_says_what_is_history(tmp_path: Path) -> None:
    """A steering message would otherwise begin the running turn."""
    messages = [user("go"), *step("a", "1"), *step("b", "2"), user("[steering] left")]
    keep = ("--set", "tool_result_keep_first=1", "--set", "tool_result_keep_last=0")
    all_of_it = await applied(messages, "-p", "duragent", "--turn-start", "0", *keep, cwd=tmp_path)
    last = await applied(messages, "-p", "duragent", *keep, cwd=tmp_path)

    assert [m["disposition"] for m in all_of_it["report"]["messages"]][4] == "masked"
    assert last["report"]["reductions"] == []


async def test_a_table_compares_all_policies(tmp_path: Path) -> None:
    """One look has to tell what each would do; one that cannot must not hide the others."""
    done = await apply(CHAT, "--compare", "--window", "5500", "--max-output", "100", cwd=tmp_path)
    lines = done.out.splitlines()

    assert (done.code, done.err) == (0, "")
    assert lines[0].split("  ")[0] == "policy"
    told = {line.split()[0]: line for line in lines[2:]}
    assert [*told] == list(POLICIES)
    assert told["everturn"].split()[1] == "5"
    assert "would summarise" in told["jutul"]
    assert "running turn are never dropped" in told["picoclaw"]


async def test_a_broken_history_is_repaired_and_told(tmp_path: Path) -> None:
    """Transcripts come from crashed programs; no provider takes them as they are."""
    broken: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "look \ud83d"}, IMAGE]},
        called("a", "a", arguments="{oops"),
        user("are you there?"),
        result("a", "1"),
        result("zz", "orphan"),
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
        {"role": "user"},
    ]
    shown = await applied(broken, "--policy", "duragent", cwd=tmp_path)
    repairs = [(r["index"], r["problem"], r["repair"]) for r in shown["report"]["repairs"]]

    assert [m["role"] for m in shown["messages"]] == [
        *("user", "assistant", "tool", "tool", "user", "assistant", "tool", "user")
    ]
    assert shown["messages"][0]["content"] == [{"type": "text", "text": "look \ufffd"}, IMAGE]
    assert repairs == snapshot(
        [
            (0, "half characters stand in it", "they became U+FFFD"),
            (
                1,
                "the arguments of call 0 are not the text of a JSON object",
                "they stand in one under invalid_arguments",
            ),
            (
                1,
                "the arguments of call 1 are not the text of a JSON object",
                "they stand in one under invalid_arguments",
            ),
            (1, "two calls have the same id", "the later ones got another id"),
            (2, "a tool message is missing for the calls a, a_2", "it follows their results"),
            (4, "no call waits for the result of 'zz'", "it was left out"),
            (5, "call 0 has no id", "its id is call_5_0"),
            (5, "the arguments of call 0 are not the text of a JSON object", "they are {}"),
            (5, "a tool message is missing for the calls a_2", "they got one that says so"),
            (6, "it has no content", "it is empty"),
            (6, "a tool message is missing for the calls call_5_0", "it follows their results"),
            (5, "the calls call_5_0 have no result", "they got one that says so"),
        ]
    )
    assert shown["report"]["messages"][4]["disposition"] == "dropped"


@table(
    ("messages", "told"),
    [
        (b"\xff", "byte 1 is not UTF-8"),
        (b"{", "it is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        ([], "has to be a list of messages"),
        ({"messages": 3}, "has to be a list of messages"),
        ([user("a"), "b"], "messages[1]: it has to be an object"),
        ([user("a"), {"role": "robot"}], "messages[1]: the role 'robot' is unknown"),
        ([{"role": "user", "content": 3}], "messages[0]: content has to be"),
        ([{"role": "user", "content": [3]}], "messages[0]: part 0 of its content"),
        ([user("a"), {"role": "assistant", "tool_calls": [{}]}], "messages[1]: call 0 names no"),
        ([{"role": "system", "content": "x"}], "no message but the system's"),
    ],
)
async def test_a_transcript_beyond_repair_is_refused_with_its_place(
    tmp_path: Path, messages: object, told: str
) -> None:
    """One line, no traceback: the person has to know which message to look at."""
    done = await apply(messages, "--policy", "duragent", cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1


@table(
    ("arguments", "told"),
    [
        ((), "--policy (baseagent, duragent, everturn, jutul, native, picoclaw)"),
        (("--policy", "nope"), "there is no policy 'nope'"),
        (("--policy", "jutul", "--compare"), "name one policy"),
        (("--policy", "jutul", "--set", "clear_trigger"), "not of the form name=value"),
        (("--policy", "jutul", "--set", "clear_trigger=2"), "clear_trigger: must be at most 1"),
        (("--policy", "jutul", "--set", "clear_triger=1"), "did you mean clear_trigger?"),
        (
            ("--policy", "jutul", "--set", "prune_minimum=1"),
            "is no number of policy jutul",
        ),
        (("--policy", "jutul", "--window", "0"), "--window"),
        (("--policy", "jutul", "--max-output", "-1"), "--max-output"),
        (("--policy", "jutul", "--turn-start", "6"), "give an index from 0 to 5"),
        (("--policy", "jutul", "--system", "none.md"), "none.md: No such file"),
        (("--policy", "jutul", "--tools", "none.json"), "none.json: No such file"),
        (("--policy", "picoclaw", "--window", "9000"), "never dropped"),
        (("--policy", "duragent", "--window", "300", "--max-output", "300"), "does not fit"),
    ],
)
async def test_a_wrong_option_is_told_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    """Every number is checked before anything is printed."""
    done = await apply(CHAT, *arguments, cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1
