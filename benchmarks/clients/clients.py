"""The clients that people have, against a gateway: what works, by client and version.

.venv/bin/python benchmarks/clients/clients.py [--only python|node]

Installs the newest version of each client into a folder of its own (PyPI and npm have to be within
reach), starts a gateway with one agent over a pretended model API, and has every client chat,
stream, call a tool of its own, and ask for structured output. Exit code 1 where something fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tests")]

import anyio  # noqa: E402 - after the path
import anyio.from_thread  # noqa: E402
from harness import gateway, show, workspace  # noqa: E402
from support.answers import Answer  # noqa: E402
from support.model_api import Received, open_model_api  # noqa: E402

from everturn_actors.model import ToolCall  # noqa: E402

PYTHON = ("openai", "langchain-openai", "pydantic-ai-slim[openai]", "instructor", "llm")
NODE = ("openai", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "zod")
UV = Path(sys.executable).with_name("uv")


def reply(request: Received) -> Answer:
    """Answer as a model would: by a tool where there is one, in JSON where that is asked for."""
    body = request.json()
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        name = body["tools"][-1]["function"]["name"]
        call = ToolCall(call_id="call_1", name=name, arguments='{"town": "Bonn"}')
        return Answer(calls=(call,))
    if body.get("response_format", {}).get("type", "text") != "text":
        return Answer(pieces=('{"town": ', '"Bonn"}'))
    return Answer(pieces=("It rains ", "in Bonn."))


@contextmanager
def model_api(default: Callable[[Received], Answer] = reply) -> Generator[str]:
    """Serve the model API from a thread; give its URL."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_model_api(default=default)) as api,
    ):
        yield api.url


def lines(command: list[str | Path], folder: Path, url: str) -> list[dict[str, str | None]]:
    """Run the tries of one language; return what they found."""
    env = {**os.environ, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "any"}
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=False
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        found.append({"client": command[-1], "version": "", "what": "all", "fault": "it crashed"})
    return found


def python_clients(folder: Path, url: str) -> list[dict[str, str | None]]:
    """Install and try the Python clients."""
    environment = folder / "venv"
    subprocess.run([UV, "venv", "--quiet", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, *PYTHON], check=True)
    return lines([python, HERE / "python_clients.py"], folder, url)


def node_clients(folder: Path, url: str) -> list[dict[str, str | None]]:
    """Install and try the JavaScript clients."""
    (folder / "clients.mjs").write_bytes((HERE / "node_clients.mjs").read_bytes())
    subprocess.run(["npm", "install", "--silent", "--no-save", *NODE], cwd=folder, check=True)
    return lines(["node", folder / "clients.mjs"], folder, url)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("python", "node"), help="one language")
    only: str | None = parser.parse_args().only
    found: list[dict[str, str | None]] = []
    with (
        model_api() as model_url,
        workspace(model_url) as agents,
        tempfile.TemporaryDirectory() as made,
    ):
        (agents / "agents" / "bench").rename(agents / "agents" / "helper")
        file = agents / "agents" / "helper" / "agent.yaml"
        file.write_text(file.read_text().replace("{name: bench}", "{name: helper}"))
        with gateway(agents) as running:
            if only != "node":
                found += python_clients(Path(made), running.url)
            if only != "python":
                found += node_clients(Path(made), running.url)
    rows = [(row["client"], row["version"], row["what"], row["fault"] or "works") for row in found]
    show("clients of OpenAI's API", ("client", "version", "what", "result"), rows)
    return int(any(row["fault"] for row in found) or not found)


if __name__ == "__main__":
    sys.exit(main())
