"""What others can read of a gateway's process: real processes, and the kernel's `/proc`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.abc
import httpx2
from anyio.streams.text import TextReceiveStream
from support.command import environment
from support.patience import WAIT_S
from support.process import EVERTURN
from support.users import as_other, needs_root, run_as_other

DEADLINE_S = WAIT_S
CANARY = "c4n4ry-7Q2x9Lm4"
SEALED = """
import os, sys
from everturn_gateway.private_environ import claim_process, process_environ, seal_process
if sys.argv[1] == "claimed":
    claim_process()
done = seal_process() and seal_process()
print(done, os.environ.get("A_TOKEN"), process_environ().get("A_TOKEN"),
      process_environ()["HTTPS_PROXY"] == os.environ["HTTPS_PROXY"], "PATH" in os.environ)
sys.stdout.flush()
sys.stdin.read()
"""


@contextmanager
def sealed(how: str, *, as_user: bool = False) -> Generator[tuple[int, str]]:
    """Run a process with secrets in its environment; yield its number and what it says."""
    argv = [sys.executable, "-c", SEALED, how]
    secrets = {
        "A_TOKEN": CANARY,
        "HTTPS_PROXY": f"http://u:{CANARY}@proxy:1",
        "ODD NAME": CANARY,
        "EMPTY": "",
    }
    with subprocess.Popen(
        as_other(argv) if as_user else argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment(), **secrets},
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().strip()
        process.communicate()


def shown_environ(pid: int) -> bytes:
    """Return the environment of a process as the kernel shows it to root, or its own user."""
    return Path(f"/proc/{pid}/environ").read_bytes()


@needs_root
def test_the_kernel_shows_no_secret_of_a_sealed_process_not_even_to_root() -> None:
    """A program of the agent's owner that runs as root reads `/proc`; so may one it was told of."""
    with sealed("claimed") as (pid, said):
        shown = shown_environ(pid)

    assert CANARY.encode() not in shown
    assert b"A_TOKEN" not in shown
    assert b"PATH=" in shown
    assert said == f"True None {CANARY} True True"


@needs_root
def test_no_process_of_the_same_user_can_look_into_a_sealed_one() -> None:
    """Its memory holds the keys: a command of the same user must not read it, nor debug it."""
    look = "for f in environ mem maps fd/0; do cat /proc/{}/$f && echo read $f; done"
    with sealed("claimed", as_user=True) as (pid, said):
        sealed_one = run_as_other(["sh", "-c", look.format(pid)])
    with sealed("not claimed", as_user=True) as (pid, _):
        open_one = run_as_other(["sh", "-c", f"cat /proc/{pid}/environ"])

    assert said == f"True None {CANARY} True True"
    assert sealed_one.stdout == ""
    assert sealed_one.stderr.count("Permission denied") == 4
    assert CANARY in open_one.stdout  # else nothing was shown here


def test_a_program_that_embeds_the_gateway_keeps_its_environment() -> None:
    """Its other parts know their variables by name; only Everturn's own process is changed."""
    with sealed("not claimed") as (_, said):
        pass

    assert said == f"False {CANARY} {CANARY} True True"


AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: helper}
spec:
  model: {provider: openai, name: fake-1, base_url: "http://127.0.0.1:9/v1"}
  system_prompt: You help.
"""
CONFIG = """\
server: {{port: 0, api_token: "${{GATE_TOKEN}}"}}
schedules: {{timezone: "{zone}", allow_private: ["${{A_HOST}}"]}}
"""


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[anyio.abc.Process, str]]:
    """Run the installed command; yield its process and its address."""
    agent = folder / "agents" / "helper"
    agent.mkdir(parents=True)
    (agent / "agent.yaml").write_text(AGENT)
    (folder / "everturn.yaml").write_text(CONFIG.format(zone="UTC"))
    secrets = {"GATE_TOKEN": CANARY, "A_HOST": "hooks.lan", "OPENAI_API_KEY": f"sk-{CANARY}"}
    with (folder / "serve.log").open("wb") as log:
        process = await anyio.open_process(
            [str(EVERTURN), "serve"],
            cwd=folder,
            env=environment(secrets),
            stdout=subprocess.PIPE,
            stderr=log,
        )
    async with process:
        try:
            assert process.stdout is not None
            said = ""
            async for text in TextReceiveStream(process.stdout):
                said += text
                if found := re.search(r"listens on (http://\S+)", said):
                    yield process, found[1]
                    break
        finally:
            process.kill()


async def until_logged(file: Path, text: str) -> str:
    """Wait until the log holds `text`; return the log."""
    while True:
        log = await anyio.Path(file).read_text()
        if text in log:
            return log
        await anyio.sleep(0.02)  # a process of its own: there is nothing to wait on


async def test_a_sealed_gateway_reads_its_variables_again_on_sighup(tmp_path: Path) -> None:
    """Tokens are gone from the process's environment, and the file that names them still loads."""
    log = tmp_path / "serve.log"
    with anyio.fail_after(DEADLINE_S):
        async with served(tmp_path) as (process, url):
            shown = shown_environ(process.pid) if os.geteuid() == 0 else b"PATH="
            config = tmp_path / "everturn.yaml"
            config.write_text(CONFIG.format(zone="Europe/Berlin"))
            process.send_signal(signal.SIGHUP)
            said = await until_logged(log, "schedules")
            headers = {"Authorization": f"Bearer {CANARY}"}
            async with httpx2.AsyncClient(
                base_url=url, headers=headers, timeout=DEADLINE_S
            ) as client:
                answer = await client.get("/api/v1/agents")
            # Another command of this user's finds the gateway, and speaks to it.
            listed = await anyio.run_process(
                [str(EVERTURN), "sessions", "list"],
                cwd=tmp_path,
                env=environment({"GATE_TOKEN": CANARY, "A_HOST": "hooks.lan"}),
            )

    assert CANARY.encode() not in shown
    assert b"PATH=" in shown
    assert "is not set" not in said
    assert answer.status_code == 200
    assert listed.returncode == 0


async def test_a_process_above_that_shows_the_same_keys_is_named(tmp_path: Path) -> None:
    """`docker run --init`, or a script, holds what the gateway took away from its own."""
    script = f"'{sys.executable}' -c \"$CODE\"; true"
    code = (
        "from everturn_gateway.private_environ import claim_process, seal_process, shown_above\n"
        "print(shown_above()); claim_process(); seal_process(); print(*shown_above(), sep=chr(10))"
    )
    secrets = {"A_TOKEN": CANARY, "CODE": code, "KEYLESS": "", "HARMLESS": "x"}
    done = await anyio.run_process(["sh", "-c", script], env=environment(secrets), cwd=tmp_path)
    before, *after = done.stdout.decode().splitlines()

    assert before == "()"
    assert [line.partition(" ")[2].partition(" ")[2] for line in after] == ["(sh): A_TOKEN"]
