"""Each program of `examples/` runs as a reader would run it, and says what it promises."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import anyio
import anyio.to_thread
import httpx2
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from support.patience import WAIT_S
from support.run_pytest import __file__ as run_pytest
from support.warm_start import python_command

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RUN_PYTEST = Path(run_pytest)
PRINTED = {
    "hello.py": "You said: “Hi!”.",
    "conversations.py": "2 turns with Ann",
    "custom_tool.py": "order: 5 of coffee ordered in shop",
    "custom_provider.py": "no answer: that is not answered here",
    "custom_policy.py": "I can see 3 messages of yours.",
}
SERVERS = {"custom_channel.py", "mounted_in_fastapi.py"}
CHANNELS = {"irc_channel.py", "xmpp_channel.py"}  # test_own_channels, test_xmpp_prosody
TESTS = {"test_weather.py"}


def test_every_example_is_run_here() -> None:
    """One that nobody runs would go stale, and one that is not listed nobody finds."""
    there = {path.name for path in EXAMPLES.glob("*.py")}
    listed = set(re.findall(r"`(\w+\.py)`", (EXAMPLES / "README.md").read_text(encoding="utf-8")))

    assert there == {*PRINTED, *SERVERS, *CHANNELS, *TESTS}
    assert listed == there


@pytest.mark.parametrize("name", list(PRINTED))
async def test_a_program_runs_to_its_end(name: str, tmp_path: Path) -> None:
    """In a folder of its own, without a key."""
    path = EXAMPLES / name
    # One of them imports for itself what all of them do.
    command = (sys.executable, str(path)) if name == "hello.py" else await warm(path)
    with anyio.fail_after(WAIT_S):
        done = await anyio.run_process(command, cwd=tmp_path, check=False)

    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert PRINTED[name] in done.stdout.decode()
    assert [path async for path in anyio.Path(tmp_path).iterdir()] == []


async def test_an_own_policy_rules_what_the_model_is_shown(tmp_path: Path) -> None:
    """The number of messages that are shown grows to its limit, and no further."""
    with anyio.fail_after(WAIT_S):
        done = await anyio.run_process(await warm(EXAMPLES / "custom_policy.py"), cwd=tmp_path)
    seen = re.findall(r"I can see (\d)", done.stdout.decode())

    assert seen == ["2", "3", "3", "3", "3"]


async def test_people_talk_over_the_channel_of_the_example(tmp_path: Path) -> None:
    """Two of them, each in a conversation of their own."""
    with anyio.fail_after(WAIT_S):
        async with running("custom_channel.py", "0", cwd=tmp_path) as process:
            assert process.stdout is not None
            said = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1000)
            port = int(said.split()[-1])
            answers = [await talk(port, name, "good morning") for name in ("ann", "bob")]

    assert [answer.partition(".")[0] for answer in answers] == ["You said: “good morning”"] * 2


async def test_the_api_and_a_route_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The route asks the agent, and the mounted API knows the conversation."""
    token = "of-this-test"
    monkeypatch.setenv("EVERTURN_API_TOKEN", token)
    app = (await anyio.to_thread.run_sync(load, "mounted_in_fastapi.py")).app
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client,
    ):
        greeted = await client.get("/greeting/ann")
        refused = await client.get("/agents/api/v1/sessions")
        bearer = {"Authorization": f"Bearer {token}"}
        listed = await client.get("/agents/api/v1/sessions", headers=bearer)

    assert "I am ann." in greeted.json()["text"]
    assert refused.status_code == 401
    assert [each["agent"] for each in listed.json()["sessions"]] == ["greeter"]


async def test_the_tests_of_the_example_pass_without_our_configuration(tmp_path: Path) -> None:
    """Pytest alone is enough for the published suites."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    copy = tmp_path / "test_weather.py"
    copy.write_bytes((EXAMPLES / "test_weather.py").read_bytes())
    plain = ["-p", "no:asyncio", "-p", "no:anyio", "-p", "no:xdist", "-p", "no:cacheprovider"]
    with anyio.fail_after(WAIT_S):
        done = await anyio.run_process(
            [*await warm(RUN_PYTEST), "-q", *plain, str(copy)], cwd=tmp_path, check=False
        )

    assert "8 passed" in done.stdout.decode()


async def warm(program: Path) -> Sequence[str]:
    """Return what to run in the place of `python PROGRAM`."""
    return await anyio.to_thread.run_sync(python_command, program)


@asynccontextmanager
async def running(name: str, *arguments: str, cwd: Path) -> AsyncGenerator[Process]:
    """Run an example until the block ends."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    async with await anyio.open_process(command, cwd=cwd, env=dict(os.environ)) as process:
        try:
            yield process
        finally:
            process.kill()


async def talk(port: int, name: str, line: str) -> str:
    """Connect, say who writes, write a line, and return the answer."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"{name}\n{line}\n".encode())
        return (await BufferedByteReceiveStream(stream).receive_until(b"\n", 10_000)).decode()


def load(name: str) -> ModuleType:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # FastAPI looks for the names in annotations there
    spec.loader.exec_module(module)
    return module
