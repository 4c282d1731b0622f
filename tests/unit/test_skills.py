"""Agent Skills: which are found, what is wrong with others, what they allow, how they are read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from anyio import to_thread
from hypothesis import given
from hypothesis import strategies as st
from support.callers import Caller
from support.tables import table
from support.tool_environments import tool_context

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import (
    Conversation,
    OpenStep,
    OpenTurn,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    UserMessage,
)
from everturn_actors.testing import START
from everturn_gateway.tools.policy.rules.patterns import read_pattern
from everturn_gateway.tools.skills import (
    Skill,
    granted_patterns,
    load_skills,
    loading,
    skill_tools,
    skills_index,
)
from everturn_gateway.tools.skills.front_matter import FrontMatterError, read_front_matter
from everturn_gateway.tools.skills.grants import patterns_of, tools_of
from everturn_gateway.tools.skills.loading import INDEX_CHARACTERS

FULL = """\
---
name: pdf-forms
description: >-
  Fills PDF forms.
  Use when there is a form.
license: MIT
compatibility: Needs qpdf
allowed-tools: Bash(qpdf:*) Read
metadata:
  author: Ada
  version: "1.0"
  nested: {deep: [1, 2]}
user-invocable: true
---

# How to

1. Look.
"""


def write(folder: Path, name: str, text: str) -> Path:
    """Write a skill and return its folder."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "SKILL.md").write_text(text)
    return folder / name


def skill_text(name: str, description: str = "does it", more: str = "") -> str:
    """Return a SKILL.md."""
    return f"---\nname: {name}\ndescription: {description}\n{more}---\nbody of {name}\n"


def faults_of(folder: Path) -> list[str]:
    """Return what is wrong, with places below the folder."""
    return [str(fault).removeprefix(f"{folder}/") for fault in load_skills(folder)[1]]


# --- loading ---


def test_a_skill_is_read_with_all_its_fields(tmp_path: Path) -> None:
    """What the specification names, and whatever else other clients put there."""
    folder = write(tmp_path, "pdf-forms", FULL)
    skills, faults = load_skills(tmp_path)

    assert faults == ()
    assert skills == (
        Skill(
            name="pdf-forms",
            description="Fills PDF forms. Use when there is a form.",
            folder=folder,
            allowed_tools=("Bash(qpdf:*)", "Read"),
            grants=("bash:qpdf", "bash:qpdf *", "builtin:read_file"),
            license="MIT",
            compatibility="Needs qpdf",
            metadata={"author": "Ada", "version": "1.0"},
        ),
    )


def test_no_skills_are_none(tmp_path: Path) -> None:
    """Most agents have none, and a README beside the skills is no mistake."""
    assert load_skills(tmp_path / "skills") == ((), ())
    (tmp_path / "README.md").write_text("hi")
    (tmp_path / "drafts").mkdir()
    assert load_skills(tmp_path) == ((), ())

    # A tool that can only fail confuses the model.
    assert skill_tools(()) == ()


def test_a_title_and_blank_lines_may_stand_before(tmp_path: Path) -> None:
    """Skills of Duragent's have them; line numbers count them."""
    write(tmp_path, "a", f"\n# A title\n\n{skill_text('a')}")
    write(tmp_path, "b", f"\n# A title\n\n{skill_text('c')}")
    skills, faults = load_skills(tmp_path)

    assert [skill.name for skill in skills] == ["a", "c"]
    assert faults[0].line == 5


@table(
    ("text", "fault"),
    [
        ("", "bad/SKILL.md:1: description: is required; the skill is left out"),
        ("---\nname: bad\n", "bad/SKILL.md:1: the front matter has no end"),
        ("---\nname: bad\n---\n# Only a title\n", "bad/SKILL.md:1: description: is required"),
        ("---\nname: bad\ndescription:\n---\n", "bad/SKILL.md:3: description: is required"),
        (
            skill_text("bad", more="name: bad\n"),
            "SKILL.md:4: name: is given twice, first in line 2",
        ),
        ("---\n- a\n---\n", "bad/SKILL.md:2: must be fields"),
        ("---\ntext\n---\n", "bad/SKILL.md:2: must be fields"),
        ("---\n? [a]\n: b\n---\n", "bad/SKILL.md:2: the name of a field"),
        ("---\nname: bad\n\x07\n---\n", "bad/SKILL.md:2: holds a control character"),
        ("---\n" + "[" * 5000 + "\n---\n", "bad/SKILL.md:"),
    ],
)
def test_what_is_wrong_is_named_and_the_others_load(tmp_path: Path, text: str, fault: str) -> None:
    """One bad file must not take the agent's other skills away, and has to be found."""
    write(tmp_path, "bad", text)
    write(tmp_path, "good", skill_text("good"))
    skills, _ = load_skills(tmp_path)

    assert [skill.name for skill in skills] == ["good"]
    assert fault in faults_of(tmp_path)[-1]


@table(
    ("text", "name", "description", "warning"),
    [
        (skill_text("other"), "other", "does it", "2: name: is 'other', and the folder is 'bad'"),
        (skill_text("Bad One!"), "bad-one", "does it", "2: name: must be lower-case"),
        (skill_text("bad_one"), "bad-one", "does it", "2: name: must be lower-case"),
        (skill_text("x" * 65), "x" * 64, "does it", "2: name: must be lower-case"),
        (skill_text("bad", "x" * 1025), "bad", f"{'x' * 1023}…", "3: description: has 1025"),
        ("---\ndescription: d\n---\n", "bad", "d", "1: name: is required; the folder's is taken"),
        (
            "---\nname: bad\n---\n# A title\n\nSorts\nletters.\n\nMore.\n",
            "bad",
            "Sorts letters.",
            "1: description: is required; the first paragraph is taken",
        ),
        ("# A title\n\nSorts letters.\n", "bad", "Sorts letters.", "1: has no front matter"),
        (skill_text("bad", "use it: always"), "bad", "use it: always", "3: is not valid YAML"),
        (
            "---\nname: 'bad'\ndescription: **sorts**\n- letters\n- stamps\n---\n",
            "bad",
            "**sorts** - letters - stamps",
            "3: is not valid YAML",
        ),
        (
            skill_text("bad", more='metadata: {"emoji": "\\ud83c\\udfdb"}\n'),
            "bad",
            "does it",
            "4: is not valid YAML",
        ),
        (
            skill_text("bad", more=f"compatibility: {'x' * 501}\n"),
            "bad",
            "does it",
            "4: compatibility: has 501 characters",
        ),
        (skill_text("bad", more="metadata: text\n"), "bad", "does it", "4: metadata: must be a"),
        (skill_text("bad", more="license: [a]\n"), "bad", "does it", "4: license: must be a text"),
    ],
)
def test_what_harms_nobody_is_put_right_and_told(
    tmp_path: Path, text: str, name: str, description: str, warning: str
) -> None:
    """Public collections are full of it, and whoever takes a skill from there cannot mend it."""
    write(tmp_path, "bad", text)
    skills, _ = load_skills(tmp_path)
    (told,) = faults_of(tmp_path)

    assert [(each.name, each.description) for each in skills] == [(name, description)]
    assert told.startswith(f"bad/SKILL.md:{warning}")


@table(
    ("text", "warning"),
    [
        (skill_text("a", more="allowed-tools: {a: b}\n"), "allowed-tools: must be a text"),
        (skill_text("a", more="allowed-tools: Bash(git:*\n"), "cannot read 'Bash(git:*'"),
        (skill_text("a", "use it: always", "allowed-tools: Bash\n"), "allows no tools"),
    ],
)
def test_what_is_not_understood_allows_nothing(tmp_path: Path, text: str, warning: str) -> None:
    """A guess could let a command run that nobody allowed."""
    write(tmp_path, "a", text)
    (skill,), _ = load_skills(tmp_path)

    assert skill.grants == ()
    assert warning in faults_of(tmp_path)[0]


def test_skills_are_found_in_folders_of_folders(tmp_path: Path) -> None:
    """Collections are sorted; what stands below a skill is part of it, and a tool's is not one."""
    write(tmp_path, "office/letters/stamps", skill_text("stamps"))
    write(tmp_path, "stamps/examples/inner", skill_text("inner"))
    write(tmp_path, "stamps", skill_text("stamps"))
    write(tmp_path, ".git/hidden", skill_text("hidden"))
    write(tmp_path, "node_modules/hidden", skill_text("hidden"))
    (tmp_path / "office" / "circle").symlink_to(tmp_path)
    skills, _ = load_skills(tmp_path)

    assert [each.folder for each in skills] == [tmp_path / "office" / "letters" / "stamps"]
    (told,) = faults_of(tmp_path)
    assert told.startswith("stamps/SKILL.md: name: 'stamps' is also the skill in 'office/letters")


def test_a_skill_that_cannot_or_must_not_be_read_is_named(tmp_path: Path) -> None:
    """Neither a pipe nor bytes that are no text may stop the agent from loading."""
    skills = tmp_path / "skills"
    (skills / "pipe").mkdir(parents=True)
    os.mkfifo(skills / "pipe" / "SKILL.md")
    (skills / "bytes").mkdir()
    (skills / "bytes" / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    # The instructions of one that leads elsewhere would be whatever stands there.
    (skills / "a").symlink_to(write(tmp_path / "elsewhere", "a", skill_text("a")))
    write(skills, "b", skill_text("b"))
    (skills / "c").symlink_to("b")

    assert sorted(faults_of(skills)) == [
        "a/SKILL.md: leads out of the skills folder",
        "bytes/SKILL.md:2: is not valid UTF-8 (byte 0xff)",
        "c/SKILL.md: name: 'b' is also the skill in 'b'; this one is left out",
        "c/SKILL.md:2: name: is 'b', and the folder is 'c'",
        "pipe/SKILL.md: is not a file",
    ]


def test_nothing_in_a_front_matter_stands_for_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skill from elsewhere must not bring the gateway's environment into the prompt."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    write(tmp_path, "a", skill_text("a", "costs ${OPENAI_API_KEY}"))

    assert load_skills(tmp_path)[0][0].description == "costs ${OPENAI_API_KEY}"

    # A few lines of them could stand for billions of values.
    front = read_front_matter("---\na: &x [1, 2]\nb: *x\nc: {d: *x, e: f}\n---\n")

    assert front.fields["b"].value is None
    assert front.fields["c"].value == {"e": "f"}


def test_more_skills_than_fit_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is left out, and its owner has to know."""
    monkeypatch.setattr(loading, "SKILLS_MAX", 2)
    for number in range(4):
        write(tmp_path, f"s{number}", skill_text(f"s{number}"))
    (tmp_path / "README.md").write_text("no skill")
    skills, faults = load_skills(tmp_path)

    assert [each.name for each in skills] == ["s0", "s1"]
    assert [fault.message for fault in faults] == [
        "holds more than 2 skills; those from s2 on are left out"
    ]


@given(st.text(max_size=200))
def test_any_text_is_a_front_matter_or_says_why_not(text: str) -> None:
    """Skills come from everywhere; none may bring the loader down."""
    for whole in (text, f"---\n{text}\n---\nbody"):
        try:
            read_front_matter(whole)
        except FrontMatterError as error:
            assert error.line >= 1  # noqa: PT017 - either outcome is one


# --- the index ---


def skill(name: str, description: str = "does it", *grants: str) -> Skill:
    """Return a skill without files."""
    return Skill(name=name, description=description, folder=Path("/none"), grants=grants)


def test_the_index_names_each_skill_and_how_it_is_read() -> None:
    """All that the model knows of a skill before it reads it."""
    index = skills_index((skill("a", "first\n  thing"), skill("b")))

    assert "read_skill" in index
    assert index.endswith("\n- a: first thing\n- b: does it")
    assert skills_index(()) == ""


@table("count", [10, 40, 200])
def test_the_index_is_bounded_and_names_all(count: int) -> None:
    """It is sent with every request."""
    skills = tuple(skill(f"skill-{n:03}", "word " * 200) for n in range(count))
    index = skills_index(skills)

    assert len(index) < INDEX_CHARACTERS + 200 + count * 12
    assert all(each.name in index for each in skills)
    assert count > 40 or all(f"- {each.name}: word word" in index for each in skills)


# --- what a skill allows ---


@table(
    ("written", "patterns"),
    [
        ("Bash(git:*) Bash(jq:*) Read", ["git", "git *", "jq", "jq *", "builtin:read_file"]),
        ("Bash(git add:*), Bash(git status)", ["git add", "git add *", "git status"]),
        (["Bash(npm run test:*)"], ["npm run test", "npm run test *"]),
        ("Bash", ["*"]),
        ("Bash(*)", ["*"]),
        ("bash calculator", ["*", "builtin:calculator", "cli:calculator"]),
        (["bash:git *", "mcp:github:*"], ["git *", "mcp:github:*"]),
        ("cli:deploy builtin:web_fetch", ["cli:deploy", "builtin:web_fetch"]),
        (
            "mcp__github__create_issue mcp__my_server",
            ["mcp:github:create_issue", "mcp:my_server:*"],
        ),
        ("Edit MultiEdit Write", ["builtin:edit_file", "builtin:write_file"]),
        ("WebFetch(domain:example.com)", []),
        ("Read(./secrets/**)", []),
        ("Bash()", []),
        ("* *:* **", []),
        ("Bash(git:*", []),
        ("Bash) (git", []),
        (["Bash(", "Read"], ["builtin:read_file"]),
        ("", []),
    ],
)
def test_tools_of_a_skill_become_patterns_of_the_policy(
    written: str | list[str], patterns: list[str]
) -> None:
    """As much as is said and no more: a limit that cannot be checked allows nothing."""
    found = patterns_of(tools_of(written))

    assert list(found) == [each if ":" in each else f"bash:{each}" for each in patterns]


@given(st.one_of(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=4)))
def test_what_a_skill_allows_is_always_a_pattern_of_one_type(written: str | list[str]) -> None:
    """A pattern for every type of tool, or one that cannot be read, would break the gate."""
    for pattern in patterns_of(tools_of(written)):
        if "\0" not in pattern and pattern.partition(":")[2].strip():
            assert read_pattern(pattern).kind != "*"


def reading(
    path: str | None = None, *, name: str = "git", tool: str = "read_skill", call_id: str = "c1"
) -> ToolCall:
    """Return a call that reads a skill."""
    arguments = {"name": name, **({"path": path} if path is not None else {})}
    return ToolCall(call_id=call_id, name=tool, arguments=json.dumps(arguments))


def turn(call: ToolCall, *, is_error: bool = False, finished: bool = True) -> Conversation:
    """Return a conversation in whose present turn a call was answered."""
    reply = Reply(calls=(call,))
    result = ToolResult(call_id=call.call_id, name=call.name, text="x", is_error=is_error)
    steps = (Step(reply=reply, results=(result,)),) if finished else ()
    open_step = None if finished else OpenStep(reply=reply, results={call.call_id: result})
    users = (UserMessage(text="hi"),)
    current = OpenTurn(number=1, users=users, started_at=START, steps=steps, step=open_step)
    return Conversation(current=current)


def over(conversation: Conversation) -> Conversation:
    """Return a conversation after the end of its present turn."""
    assert conversation.current is not None
    return Conversation(turns=(conversation.current.finished("answered", ""),))


SKILLS = (skill("git", "d", "bash:git *"), skill("jq", "d", "bash:jq *"))


@table("finished", [True, False])
@table("path", [None, "SKILL.md", "./SKILL.md"])
def test_a_skill_that_was_read_in_this_turn_allows_its_tools(
    path: str | None, *, finished: bool
) -> None:
    """Also for the other calls of the reply that read it."""
    context = tool_context(conversation=turn(reading(path), finished=finished))

    assert granted_patterns(SKILLS, context) == ("bash:git *",)


@table(
    "conversation",
    [
        Conversation(),
        turn(reading(), is_error=True),
        turn(reading(), is_error=True, finished=False),
        turn(reading("references/a.md")),
        turn(reading(tool="read_file")),
        turn(reading(name="other")),
        turn(ToolCall(call_id="c", name="read_skill", arguments="{")),
        over(turn(reading())),  # the next message may be somebody else's
    ],
)
def test_a_skill_that_was_not_read_in_this_turn_allows_nothing(conversation: Conversation) -> None:
    """What is allowed without asking follows from what the owner wrote and the model read."""
    assert granted_patterns(SKILLS, tool_context(conversation=conversation)) == ()


# --- reading ---


async def caller(folder: Path) -> Caller:
    """Return who reads the skills of a folder."""
    skills, _ = await to_thread.run_sync(load_skills, folder)
    return Caller(skill_tools(skills))


async def test_instructions_are_read_as_they_are_now_without_their_front_matter(
    tmp_path: Path,
) -> None:
    """And with what stands beside them, which they may name."""
    folder = write(tmp_path, "pdf-forms", FULL)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "fill.py").write_text("print('x')\n")
    (folder / "secret").symlink_to("/etc/passwd")
    call = await caller(tmp_path)

    assert await call("read_skill", name="pdf-forms") == (
        f"Skill pdf-forms, SKILL.md:\n\n# How to\n\n1. Look.\n\nFiles in {folder}: scripts/fill.py"
    )
    assert await call("read_skill", name="pdf-forms", path="scripts/fill.py") == (
        "Skill pdf-forms, scripts/fill.py:\n\nprint('x')"
    )
    # A model that misspells a name gets it right the next time.
    with pytest.raises(ToolFailedError, match="there is no skill pdf-form; there are: pdf-forms"):
        await call("read_skill", name="pdf-form")
    # Whoever edits a skill expects it to hold with the next call.
    (folder / "SKILL.md").write_text("front matter is gone")
    assert (await call("read_skill", name="pdf-forms")).startswith(
        "Skill pdf-forms, SKILL.md:\n\nfront matter is gone\n\nFiles"
    )


async def test_long_instructions_are_read_page_by_page_and_files_named_up_to_a_bound(
    tmp_path: Path,
) -> None:
    """A page that the policy cuts could not be read to its end."""
    folder = write(tmp_path, "a", skill_text("a") + "".join(f"step {n}\n" for n in range(9000)))
    call = await caller(tmp_path)
    first, second = await call("read_skill", name="a"), await call("read_skill", name="a", page=2)

    assert first.startswith("Skill a, SKILL.md, page 1 of ")
    assert "step 8999" not in first
    assert second.startswith("Skill a, SKILL.md, page 2 of ")
    with pytest.raises(ToolFailedError, match="there is no page 99"):
        await call("read_skill", name="a", page=99)

    # A skill may bring a thousand pictures.
    write(tmp_path, "a", skill_text("a"))
    deep = folder / "x" / "y" / "z" / "zz"
    deep.mkdir(parents=True)
    (deep / "deep.md").write_text("")
    for number in range(100):
        (folder / f"f{number:03}").write_text("")
    text = await call("read_skill", name="a")

    assert "f059, …" in text
    assert "deep.md" not in text


@table(
    ("path", "why"),
    [
        ("../b/SKILL.md", "leads out of the skill's folder"),
        ("/etc/passwd", "leads out of the skill's folder"),
        ("link", "leads out of the skill's folder"),
        ("photo.png", "is not text"),
        ("pipe", "a pipe"),
        ("missing.md", "there is no missing.md"),
        ("scripts", "is a folder"),
        ("large", "too large"),
    ],
)
async def test_only_texts_of_the_skill_are_read(tmp_path: Path, path: str, why: str) -> None:
    """Its folder is all that a skill is."""
    folder = write(tmp_path, "a", skill_text("a"))
    write(tmp_path, "b", skill_text("b"))
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "photo.png").write_bytes(b"\x89PNG\0")
    os.mkfifo(folder / "pipe")
    (folder / "scripts").mkdir()
    (folder / "large").write_text("x" * (1024 * 1024 + 1))

    with pytest.raises(ToolFailedError, match=why):
        await (await caller(tmp_path))("read_skill", name="a", path=path)
