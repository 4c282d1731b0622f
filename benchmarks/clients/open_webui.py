"""Open WebUI in a real browser, against a gateway: what a person does there, and what is kept.

.venv/bin/python benchmarks/clients/open_webui.py [--environment FOLDER]

Installs Open WebUI and Playwright from PyPI into an environment of its own (some gigabytes, twenty
minutes), and drives Debian's chromium. Once in the default settings, and once with the chats named
in headers (ENABLE_FORWARD_USER_INFO_HEADERS). The model is pretended. Exit code 1 where something
fails.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from clients import HERE, UV, lines, model_api  # first: it finds what follows
from harness import gateway, show, status_of, workspace
from support.answers import Answer
from support.model_api import Received

PACKAGES = ("open-webui", "playwright")
START_S = 300
ASKED = "### Task:\n"


def reply(request: Received) -> Answer:
    """Answer as a model would: tasks in JSON, people with how often they said something."""
    users = [m["content"] for m in request.json()["messages"] if m["role"] == "user"]
    if str(users[-1]).startswith(ASKED):
        return Answer(text='{"title": "A Rainy Day", "tags": ["Weather"], "follow_ups": ["Why?"]}')
    number = f" ({len(users)})" if len(users) > 1 else ""
    return Answer(pieces=("It rains ", f"in Bonn.{number}"))


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def open_webui(environment: Path, folder: Path, url: str, *, named: bool) -> Generator[str]:
    """Run Open WebUI with data of its own until the block ends; give its address."""
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    env = {
        **os.environ,
        "DATA_DIR": str(folder / "data"),
        "OPENAI_API_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "any",
        "WEBUI_SECRET_KEY": "for this run alone",
        "ENABLE_FORWARD_USER_INFO_HEADERS": str(named).lower(),
        # No hub and no Ollama is looked for.
        "ENABLE_OLLAMA_API": "false",
        "HF_HUB_OFFLINE": "1",
        "OFFLINE_MODE": "true",
        "RAG_EMBEDDING_ENGINE": "openai",
    }
    command = [environment / "bin" / "open-webui", "serve", "--host", "127.0.0.1", "--port"]
    with (folder / "open-webui.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(port)], cwd=folder, env=env, stdout=log, stderr=log
        )
        try:
            wait_ready(process, page)
            yield page
        finally:
            process.terminate()
            process.wait()


def wait_ready(process: subprocess.Popen[bytes], page: str) -> None:
    """Wait until Open WebUI answers."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if status_of(page, "/health") == 200:
            return
        time.sleep(0.5)
    raise SystemExit("Open WebUI did not start; see open-webui.log")


def tried(environment: Path, *, named: bool) -> list[dict[str, str | None]]:
    """Return what came of one run."""
    with (
        model_api(reply) as model_url,
        workspace(model_url) as folder,
        gateway(folder) as running,
        tempfile.TemporaryDirectory() as data,
        open_webui(environment, Path(data), running.url, named=named) as page,
    ):
        os.environ |= {"PAGE": page, "GATEWAY": running.url}
        script: list[str | Path] = [environment / "bin" / "python", HERE / "open_webui_page.py"]
        return lines([*script, "--named"] if named else script, Path(data), running.url)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environment", type=Path, help="a virtual environment with both packages")
    environment: Path | None = parser.parse_args().environment
    with tempfile.TemporaryDirectory() as made:
        if environment is None:
            environment = Path(made) / "venv"
            subprocess.run([UV, "venv", "--quiet", environment], check=True)
            python = environment / "bin" / "python"
            install = [UV, "pip", "install", "--quiet", "--python", python, *PACKAGES]
            subprocess.run(install, check=True)
        found = [
            {**row, "settings": "chats named" if named else "default"}
            for named in (False, True)
            for row in tried(environment.absolute(), named=named)
        ]
    columns = ("version", "settings", "what")
    rows = [(*(row[each] for each in columns), row["fault"] or "works") for row in found]
    show("Open WebUI in a browser", (*columns, "result"), rows)
    return int(any(row["fault"] for row in found) or not found)


if __name__ == "__main__":
    sys.exit(main())
