"""What commands and file tools reach: nothing outside of the workspace, by no way.

The allow lists are as wide as they get. What must not be read is a text beside the gateway's
folders; what must not be written is a file of that name outside of the workspace.
"""

# ruff: noqa: E501
# One sequence a line: a table is read by its rows.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.commands import needs_sandbox
from support.escaping import (
    PROCESSES,
    SHELL,
    Call,
    Escape,
    Put,
    bash,
    call,
    check,
    parts,
    play_each,
    put,
    say,
    write,
)
from support.tables import table

pytestmark = needs_sandbox

ALL = ("code:*", "bash:*", "builtin:*")
SENDS = (
    *SHELL,
    {"type": "builtin", "name": "send_file"},
    {"type": "builtin", "name": "view_image"},
)


def command(name: str, line: str, *, first: tuple[Put, ...] = ()) -> Escape:
    """Return a sequence in which every command is allowed, and one tries to get out."""
    return Escape(name=name, allow=ALL, steps=(*first, say(bash(line))))


def tool(name: str, kind: str, *, first: tuple[Put, ...] = (), **arguments: str) -> Escape:
    """Return a sequence in which a tool is given a path that leads out."""
    return Escape(
        name=name, allow=ALL, tools=SENDS, steps=(*first, say(Call(tool=kind, arguments=arguments)))
    )


def link(to: str, path: str = "out") -> Put:
    """Return a link of the workspace."""
    return Put(path=path, link=to)


READS = (
    command("read beside the gateway", "cat %root%/secret.txt"),
    command("read the gateway's own files", "cat %root%/.everturn/secret.txt; grep -r . %root%/.everturn/sessions | head -c 100000 | grep -o 'c4n4ry.*'"),
    command("read other agents", "cat %root%/agents/secret.txt"),
    command("read through a link", "cat out", first=(link("%root%/secret.txt"),)),
    command("read through a link of its own", "ln -s %root%/secret.txt out; cat out"),
    command("read through the folder above", "cat ../../../secret.txt"),
    command("read through a process", "for p in /proc/[0-9]*; do cat $p/cwd/secret.txt $p/root%root%/secret.txt; done"),
    command("read through a file descriptor", "for f in /proc/self/fd/*; do cat $f/secret.txt; done"),
    command("read by a search", "grep -rh c4n4ry %root%"),
    command("read by a copy", "cp -r %root%/secret.txt . ; cat secret.txt"),
    command("read by a hard link", "ln %root%/secret.txt a; cat a"),
    command("read by an archive", "tar c %root%/secret.txt | tar x -O"),
    command("read by curl", "curl -s file://%root%/secret.txt"),
    command("read by python", "python3 -c \"print(open('%root%/secret.txt').read())\""),
    command("read by a mount", "mount --bind %root% . ; cat secret.txt"),
    command("read by another namespace", "unshare -Ur sh -c 'mount -t proc p /proc; cat /proc/1/root%root%/secret.txt'"),
    command("read by git", "git diff --no-index /dev/null %root%/secret.txt"),
    command("read by a chroot", "chroot / cat %root%/secret.txt"),
    command("read by a process of the gateway's", "cat /proc/$PPID/root%root%/secret.txt /proc/1/root%root%/secret.txt"),
    Escape(name="read by a process in the background", allow=ALL, tools=PROCESSES, steps=(say(call("background_process", action="spawn", command="cat %root%/secret.txt", wait=True)),)),
    tool("read_file: a path above", "read_file", path="../../../secret.txt"),
    tool("read_file: a whole path", "read_file", path="%root%/secret.txt"),
    tool("read_file: a link", "read_file", first=(link("%root%/secret.txt"),), path="out"),
    tool("read_file: a link of a folder", "read_file", first=(link("%root%"),), path="out/secret.txt"),
    tool("read_file: a link to a link", "read_file", first=(link("%root%", "a"), link("a", "b")), path="b/secret.txt"),
    tool("read_file: a link that goes up", "read_file", first=(link("../../..", "up"),), path="up/secret.txt"),
    tool("read_file: a process", "read_file", path="/proc/self/cwd/secret.txt"),
    tool("read_file: a home", "read_file", path="~/secret.txt"),
    tool("read_file: an address", "read_file", path="file://%root%/secret.txt"),
    tool("search_files: above", "search_files", query="c4n4ry", path="../../.."),
    tool("search_files: a link", "search_files", first=(link("%root%"),), query="c4n4ry", path="out"),
    tool("search_files: links inside", "search_files", first=(link("%root%/secret.txt", "sub/out"),), query="c4n4ry", path="."),
    tool("send_file: above", "send_file", path="../../../secret.txt"),
    tool("send_file: a link", "send_file", first=(link("%root%/secret.txt"),), path="out"),
    tool("view_image: above", "view_image", path="../../../secret.txt"),
    tool("view_image: a link", "view_image", first=(link("%root%/secret.txt"),), path="out"),
    tool("edit_file: a link", "edit_file", first=(link("%root%/secret.txt"),), path="out", old_text="c", new_text="c"),
)  # fmt: skip
WRITES = (
    command("write beside the gateway", "touch %root%/RAN"),
    command("write into the gateway's own files", "touch %root%/.everturn/RAN"),
    command("write into the agent's folder", "touch %root%/agents/helper/RAN"),
    command("write a skill", "mkdir -p %root%/agents/helper/skills/RAN"),
    command("write a tool", "mkdir -p %root%/agents/helper/tools/RAN"),
    command("write a directive", "mkdir -p %root%/.everturn/directives && touch %root%/.everturn/directives/RAN"),
    command("write a note", "mkdir -p %root%/agents/helper/memory/RAN"),
    command("write the policy", "echo 'mode: dangerous' > %root%/agents/helper/policy.yaml && touch %root%/RAN"),
    command("write what is allowed for good", "echo 'allow: [bash:*]' > %root%/agents/helper/policy.local.yaml && touch %root%/RAN"),
    command("write another agent", "mkdir %root%/agents/RAN"),
    command("write through a link", "touch out/RAN", first=(link("%root%"),)),
    command("write through a link of the agent's folder", "touch out/RAN", first=(link("%root%/agents/helper"),)),
    command("write through a move", "mkdir a && touch a/RAN && mv a/RAN %root%/"),
    command("write through a mount", "mount -o remount,rw / ; touch %root%/RAN"),
    command("write to another workspace", "mkdir -p ../other && touch ../other/RAN"),
    command("write to a job", "mkdir -p %root%/.everturn/schedules && touch %root%/.everturn/schedules/RAN"),
    command("write by a process that is left", "(setsid sh -c 'sleep 0.1; touch %root%/RAN' &) ; true"),
    tool("write_file: above", "write_file", path="../RAN", content="x"),
    tool("write_file: a whole path", "write_file", path="%root%/RAN", content="x"),
    tool("write_file: a link of a folder", "write_file", first=(link("%root%"),), path="out/RAN", content="x"),
    tool("write_file: a link of a file", "write_file", first=(link("%root%/RAN"),), path="out", content="x"),
    tool("write_file: a link into the agent's folder", "write_file", first=(link("%root%/agents/helper"),), path="out/skills/RAN/SKILL.md", content="x"),
    tool("write_file: the policy", "write_file", first=(link("%root%/agents/helper"),), path="out/RAN", content="mode: dangerous"),
    tool("write_file: links in the middle", "write_file", first=(link("..", "a/up"),), path="a/up/../../RAN", content="x"),
    Escape(name="write_file: a link that another conversation puts there", allow=ALL, steps=(say(write("d/a.txt", "x")), say(bash("rm -r d; ln -s %root% d"), chat="b"), say(write("d/RAN", "x")))),
)  # fmt: skip
ESCAPES = (*READS, *WRITES)


@pytest.mark.parametrize("part", parts(ESCAPES))
async def test_nothing_outside_of_the_workspace_is_reached(
    part: Sequence[Escape], tmp_path: Path
) -> None:
    """An owner who allows everything has still not allowed the rest of the machine."""
    await play_each(part, tmp_path, check)


@table("line", ["cat inside.txt", "touch RAN"])
async def test_what_is_inside_is_reached(line: str, tmp_path: Path) -> None:
    """A sandbox in which nothing works would pass all of the above."""
    escape = command("inside", line, first=(put("inside.txt", "c4n4ry-5d2f0b7e"),))
    with pytest.raises(AssertionError, match=r"it was read|it ran"):
        await check(tmp_path, escape)
