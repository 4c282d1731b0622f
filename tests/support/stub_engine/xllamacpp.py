"""Stands in for the local model's engine: its Python surface as far as it is used, and no model.

It says what it was started with, and does what the newest user message asks: `die` ends the
process, `hang` begins a reply and never ends it.
"""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class CommonParams:
    """Takes every parameter."""

    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.cpuparams = SimpleNamespace(n_threads=-1)
        self.cpuparams_batch = SimpleNamespace(n_threads=-1)
        self.hostnames: list[str] = []
        self.port = -1
        self.api_keys: list[str] = []
        self.n_ctx = 0


class Server:
    """Serves chat completions on loopback."""

    def __init__(self, params: CommonParams) -> None:
        print("loading", flush=True)  # noqa: T201 - the real one prints as it likes, too
        if Path(params.model.path).read_bytes().startswith(b"BAD"):
            os.write(2, b"E gguf: invalid magic characters\n")
            message = "Failed to init server, please check the input params."
            raise RuntimeError(message)
        self._params = params
        handler = type("Handler", (_Handler,), {"params": params})
        self._http = ThreadingHTTPServer((params.hostnames[0], params.port), handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def listening_address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    params: Any = None
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != f"Bearer {self.params.api_keys[0]}":
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        asked = [m["content"] for m in body["messages"] if m["role"] == "user"][-1]
        if asked == "die":
            os._exit(3)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._say(f"pid {os.getpid()} ")
        if asked == "hang":
            threading.Event().wait()
        seen = {
            "n_ctx": self.params.n_ctx,
            "threads": self.params.cpuparams.n_threads,
            "hostnames": self.params.hostnames,
            "environ": sorted(os.environ),
            "max_tokens": body.get("max_tokens"),
            "tools": "tools" in body,
        }
        self._say(json.dumps(seen))
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _say(self, text: str) -> None:
        self._event({"choices": [{"index": 0, "delta": {"content": text}}]})

    def _event(self, value: dict[str, Any]) -> None:
        self._write(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""
