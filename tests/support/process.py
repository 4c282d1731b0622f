"""The installed gateway as a process of its own, to be killed like one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import httpx2
from anyio.streams.text import TextReceiveStream
from support.warm_start import open_everturn

EVERTURN = Path(sysconfig.get_path("scripts")) / "everturn"
TELEGRAM = ("everturn_channels.telegram",)
DISCORD = ("everturn_channels.discord",)
_START_S = 60.0  # a machine that runs other things as well needs its time
_ADDRESS = re.compile(r"listens on (http://\S+)")

AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: helper}}
spec:
  model: {{provider: openai, name: fake-1, base_url: "{url}"}}
  system_prompt: You help.
  session: {{on_disconnect: continue}}
"""


def write_workspace(folder: Path, model_url: str) -> None:
    """Write a folder with one agent, `helper`, that asks the model API at `model_url`."""
    agent = folder / "agents" / "helper"
    agent.mkdir(parents=True)
    (agent / "agent.yaml").write_text(AGENT.format(url=model_url))
    (folder / "everturn.yaml").write_text("server: {port: 0}\n")


@dataclass(slots=True)
class GatewayProcess:
    """A gateway that is ready."""

    url: str
    process: anyio.abc.Process

    async def kill(self) -> None:
        """End it as a crash does: no clean-up, no warning."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(_START_S):
            return await self.process.wait()

    def client(self) -> httpx2.AsyncClient:
        """Return an HTTP client for it."""
        return httpx2.AsyncClient(base_url=self.url, timeout=_START_S)


@asynccontextmanager
async def gateway_process(
    folder: Path, *, imported: Sequence[str] | None = ()
) -> AsyncGenerator[GatewayProcess]:
    """Run `everturn serve` in `folder`; ready when this yields, gone when the block ends.

    Args:
        folder: Where its files are.
        imported: Platforms that it need not import any more; None = it is the installed command,
            which imports everything itself.
    """
    env = {**os.environ, "OPENAI_API_KEY": "sk-test", "NO_COLOR": "1"}
    with (folder / "serve.log").open("ab") as log:
        if imported is None:
            process = await anyio.open_process(
                [EVERTURN, "serve"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log
            )
        else:
            process = await open_everturn(
                ["serve"],
                cwd=folder,
                environment=env,
                stderr=log,
                has_platforms=bool(imported),
            )
    async with process:
        try:
            yield GatewayProcess(await _address(process, folder), process)
        finally:
            if process.returncode is None:
                process.kill()


async def _address(process: anyio.abc.Process, folder: Path) -> str:
    """Return where it listens, as it says on its standard output."""
    assert process.stdout is not None
    said = ""
    with anyio.fail_after(_START_S):
        async for text in TextReceiveStream(process.stdout):
            said += text
            if found := _ADDRESS.search(said):
                return found[1]
    message = f"the gateway did not start: {said}\n{(folder / 'serve.log').read_text()}"
    raise AssertionError(message)
