"""An MCP server that breaks the rules, by hand: what no server made with a package would send.

`python mcp_raw.py MODE` shakes hands as MODE says and then does what the tool that is called is
named after. It imports nothing but the standard library, so that it starts in no time.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
NEWEST = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"What the newest revision wants in the results that do not change."
OBJECT = {"type": "object"}
TOOLS = (
    *("answer", "banner", "bad_text", "close_output", "complain", "deaf", "endless_line"),
    *("endless_lines", "hang", "hologram", "huge", "many", "nonsense", "notifications", "pid"),
    *("place", "requests", "spawn", "stop", "surrogate", "until_cancelled", "wants_input"),
    *("wrong_part", "wrong_shape"),
)
waiting: list[dict[str, Any]] = []
"Calls of `until_cancelled`."
cancelled: list[Any] = []


def send(message: dict[str, Any]) -> None:
    """Write one message."""
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def write(data: bytes) -> None:
    """Write to the standard output, whatever it is."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def result_of(text: str) -> dict[str, Any]:
    """Return a text as a result."""
    newest = {"resultType": "complete"} if MODE == "modern" else {}
    return {"content": [{"type": "text", "text": text}], **newest}


def shake_hands(request: dict[str, Any]) -> None:
    """Answer `initialize`, as the mode says."""
    reply: dict[str, Any] = {
        "protocolVersion": "1999-01-01" if MODE == "old" else "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "raw", "version": "1"},
    }
    match MODE:
        case "silent":
            signal.pause()
        case "exit":
            sys.stderr.write(f"the key {os.environ.get('SOME_TOKEN')} is not valid\n")
            sys.exit(3)
        case "not_mcp":
            reply = {"hello": "world"}
        case "modern":
            data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
            error = {"code": -32022, "message": "too old", "data": data}
            send({"id": request["id"], "error": error})
            return
        case "future":
            data = {"supported": ["2031-01-01"], "requested": "2025-11-25"}
            error = {"code": -32022, "message": "too old", "data": data}
            send({"id": request["id"], "error": error})
            return
        case _:
            pass
    send({"id": request["id"], "result": reply})


def list_tools(request: dict[str, Any]) -> None:
    """Answer `tools/list`."""
    tools: Any = [{"name": name, "inputSchema": OBJECT} for name in TOOLS]
    if MODE == "liar":
        file = os.environ.get("LIES_FILE")
        tools = json.loads(Path(file).read_text() if file else os.environ["LIES"])
    result: dict[str, Any] = {"tools": tools}
    if MODE == "endless_list":
        result["nextCursor"] = "again"
    if MODE == "modern":
        result |= NEWEST
    send({"id": request["id"], "result": result})


def call(request: dict[str, Any]) -> None:
    """Answer `tools/call`, or do not."""
    name, request_id = request["params"]["name"], request["id"]
    if name in TEXTS:
        send({"id": request_id, "result": result_of(TEXTS[name]())})
    elif name in MISDEEDS:
        MISDEEDS[name](request)
    else:
        error = {"code": -32602, "message": f"Unknown tool: {name}"}
        send({"id": request_id, "error": error})


def place() -> str:
    """Return where this runs, and its environment."""
    return "\n".join([str(Path.cwd()), *(f"{k}={v}" for k, v in os.environ.items())])


def spawned() -> str:
    """Start a process that stays, and return its id."""
    code = "import signal; signal.pause()"
    return str(subprocess.Popen([sys.executable, "-S", "-c", code]).pid)


def until_cancelled(request: dict[str, Any]) -> None:
    """Answer when a call was cancelled."""
    waiting.append(request)
    while cancelled and waiting:
        cancelled.pop()
        send({"id": waiting.pop()["id"], "result": result_of("cancelled")})


def on_cancelled(message: dict[str, Any]) -> None:
    """Hear that a call was cancelled."""
    cancelled.append(message["params"]["requestId"])
    if waiting:
        until_cancelled(waiting.pop())


def complain(request: dict[str, Any]) -> None:
    """Write to the standard error, then answer."""
    sys.stderr.write(request["params"]["arguments"]["text"] + "\n")
    sys.stderr.flush()
    send({"id": request["id"], "result": result_of("done")})


def bad_text(request: dict[str, Any]) -> None:
    """Answer with bytes that are no text."""
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": result_of("done")}
    write(json.dumps(answer).encode().replace(b"done", b"d\xff\xfe!") + b"\n")


def close_output(_: dict[str, Any]) -> None:
    """Stay, and say nothing for good."""
    os.close(1)
    signal.pause()


def endless(piece: bytes) -> None:
    """Write for ever."""
    while True:
        write(piece)


def notifications(_: dict[str, Any]) -> None:
    """Tell without end what nobody asked for."""
    while True:
        send({"method": "notifications/message", "params": {"level": "info", "data": 1}})


def requests(_: dict[str, Any]) -> None:
    """Ask without end, and read no answer."""
    number = 0
    while True:
        number += 1
        send({"id": f"s{number}", "method": "roots/list"})


def wants_input(request: dict[str, Any]) -> None:
    """Ask the client for a sample of its model; answer with what it says."""
    params = {"messages": [], "maxTokens": 1}
    send({"id": 77, "method": "sampling/createMessage", "params": params})
    answer = json.loads(sys.stdin.buffer.readline())
    send({"id": request["id"], "result": result_of(answer["error"]["message"])})


def banner(request: dict[str, Any]) -> None:
    """Write what is no message, then answer."""
    write(b"Welcome!\n\n{not json}\n[1, 2]\n")
    send({"id": request["id"], "result": result_of("done")})


def deaf(_: dict[str, Any]) -> None:
    """Read nothing any more."""
    signal.pause()


def huge(request: dict[str, Any]) -> None:
    """Answer with more than anybody reads."""
    send({"id": request["id"], "result": result_of("x" * (5 * 1024 * 1024))})


def many(request: dict[str, Any]) -> None:
    """Answer with more values than anybody reads."""
    send({"id": request["id"], "result": {"content": [], "structuredContent": ["x"] * 60_000}})


def answers(result: object) -> Callable[[dict[str, Any]], None]:
    """Return what answers with `result`, whatever it is."""
    return lambda request: send({"id": request["id"], "result": result})


TEXTS: dict[str, Callable[[], str]] = {
    "answer": lambda: "done",
    "pid": lambda: str(os.getpid()),
    "place": place,
    "spawn": spawned,
}
MISDEEDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "banner": banner,
    "bad_text": bad_text,
    "close_output": close_output,
    "complain": complain,
    "deaf": deaf,
    "endless_line": lambda _: endless(b"x" * 65536),
    "endless_lines": lambda _: endless(b"noise\n" * 1000),
    "hang": lambda _: None,
    "hologram": answers({"content": [{"type": "hologram", "data": "x"}]}),
    "huge": huge,
    "many": many,
    "nonsense": answers("no object"),
    "notifications": notifications,
    "requests": requests,
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "surrogate": answers(result_of("\ud800")),
    "until_cancelled": until_cancelled,
    "wants_input": wants_input,
    "wrong_part": answers({"content": [{"type": "text", "text": 5}]}),
    "wrong_shape": answers({"content": "a text"}),
}


def discover(request: dict[str, Any]) -> None:
    """Answer `server/discover`, which only the newest revision knows."""
    if MODE == "future":
        shake_hands(request)
        return
    if MODE != "modern":
        send({"id": request["id"], "error": {"code": -32601, "message": "what?"}})
        return
    result = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        **NEWEST,
    }
    send({"id": request["id"], "result": result})


def main() -> None:
    """Serve until the standard input ends."""
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                shake_hands(request)
            case "server/discover":
                discover(request)
            case "tools/list":
                list_tools(request)
            case "tools/call":
                call(request)
            case "notifications/cancelled":
                on_cancelled(request)
            case "ping":
                send({"id": request["id"], "result": {}})
            case _:
                pass
    while MODE == "stubborn":
        signal.pause()


if __name__ == "__main__":
    main()
