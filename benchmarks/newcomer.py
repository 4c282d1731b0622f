"""How long a newcomer takes to the first answer of a model, and how many questions that costs.

    .venv/bin/python benchmarks/newcomer.py [dist]

Begins with an empty home, a key, and a server that speaks OpenAI's API and wants the key. A script
reads the terminal of `everturn chat` and answers each question as soon as it is asked; what a
person needs to read and to type comes on top. With the folder of a release the wheel is installed
first, into an environment of its own, and that counts. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pexpect

KEY = "sk-newcomer-0123456789"
SAID = "The first answer of a model."
WAIT_S = 120.0
BAR_S, BAR_QUESTIONS = 180.0, 6


class Model(BaseHTTPRequestHandler):
    """A server of models that wants the key."""

    def do_GET(self) -> None:
        """List the models."""
        self.answer({"object": "list", "data": [{"id": "small", "object": "model", "created": 1}]})

    def do_POST(self) -> None:
        """Answer a request, in a stream where it asks for one."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": SAID}
        choice = {"index": 0, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        reply = {"id": "1", "object": "chat.completion", "model": "small", "usage": usage}
        if asked.get("stream"):
            self.answer({**reply, "choices": [{**choice, "delta": message}]}, is_stream=True)
        else:
            self.answer({**reply, "choices": [{**choice, "message": message}]})

    def answer(self, body: object, *, is_stream: bool = False) -> None:
        """Send it, or a refusal where the key is missing."""
        is_known = self.headers["authorization"] == f"Bearer {KEY}"
        data = json.dumps(body if is_known else {"error": {"message": "no API key"}}).encode()
        is_stream = is_stream and is_known
        self.send_response(200 if is_known else 401)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        data = b"data: " + data + b"\n\ndata: [DONE]\n\n" if is_stream else data
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def model_server() -> Generator[str]:
    """Serve the models; yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def install(dist: Path, folder: Path) -> Path:
    """Install the wheel as `pip install everturn` would; return the program."""
    (wheel,) = dist.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(pip, check=True)
    return folder / "bin" / "everturn"


def talk(program: Path, home: Path, url: str) -> list[str]:
    """Begin a chat, answer what is asked, and say something; return the questions."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}
    asked: list[str] = []
    child = pexpect.spawn(
        *(str(program), ["chat"]), cwd=str(home), env=env, timeout=WAIT_S, encoding="utf-8"
    )

    def answer(question: str, given: str) -> str:
        child.expect(question)
        asked.append(question)
        child.sendline(given)
        return str(child.before)

    child.expect("Choose a model now")
    answer("Y/n", "")
    child.expect("Who runs the model")
    child.expect("(?s)(.*)Number")
    offered = re.search(r"(\d+)\s+another server", str(child.match[1]))
    assert offered, child.match[1]
    asked.append("Who runs the model?")
    child.sendline(offered[1])
    answer("Address of the API.*?:", url)
    answer("is not shown", KEY)
    answer("Number or name", "1")
    child.expect("It answers in")
    child.expect("you>")
    child.sendline("hello")
    child.expect(SAID)
    child.sendcontrol("d")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.exitstatus
    return asked


def main() -> None:
    """Do it once, and print what it took."""
    with tempfile.TemporaryDirectory(prefix="everturn-newcomer-") as name, model_server() as url:
        home = Path(name) / "home"
        home.mkdir()
        began = time.perf_counter()
        program = Path(sys.executable).with_name("everturn")
        if len(sys.argv) > 1:
            program = install(Path(sys.argv[1]), Path(name) / "installed")
        installed_s = time.perf_counter() - began
        asked = talk(program, home, url)
        took_s = time.perf_counter() - began
    print(
        json.dumps(
            {
                "questions": len(asked),
                "asked": asked,
                "install_s": round(installed_s, 1),
                "answer_s": round(took_s, 1),
                "met": took_s < BAR_S and len(asked) <= BAR_QUESTIONS,
            }
        )
    )


if __name__ == "__main__":
    main()
