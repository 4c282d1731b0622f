#!/usr/bin/env python3
"""A channel for Everturn: a chat of lines over TCP, to be tried with `nc 127.0.0.1 7000`.

Whoever connects says a name in the first line; every other line is a message. It needs Python 3.11
and nothing else, and shows what a plug-in has to do. ../plugin-channel.md describes the protocol.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any

HOST, PORT = "127.0.0.1", int(os.environ.get("CHAT_PORT", "7000"))
IDLE_S = 60
CAPABILITIES = {"chunk_units": 2000, "unit": "characters", "typing_s": 5, "idle_s": IDLE_S}

people: dict[str, asyncio.StreamWriter] = {}
events: dict[int, dict[str, Any]] = {}  # by number; the newest thousand
numbers, sent = itertools.count(1), itertools.count(1)
started = os.urandom(4).hex()  # so that the ids of messages do not come again after a restart


def say(**message: object) -> None:
    """Tell the gateway."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def arrived(name: str, text: str) -> None:
    """Hand in a message or a command."""
    number = next(numbers)
    message = {"id": number, "message_id": f"{started}-{number}", "chat": {"id": name}}
    message["sender"] = {"id": name, "name": name}
    if text.startswith("/"):
        word, _, argument = text[1:].partition(" ")
        message |= {"type": "command", "name": word or "help", "argument": argument}
    else:
        message |= {"type": "message", "text": text}
    events[number] = message
    events.pop(number - 1000, None)
    say(**message)


async def serve_person(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read what one person writes."""
    name = (await reader.readline()).decode(errors="replace").strip() or "somebody"
    people[name] = writer
    while line := await reader.readline():
        if text := line.decode(errors="replace").strip():
            arrived(name, text)
    people.pop(name, None)
    writer.close()


async def show(request: int, name: str, text: str) -> None:
    """Write to a person, and tell the gateway what became of it."""
    result: dict[str, object] = {"outcome": "done", "message_id": f"{started}-out-{next(sent)}"}
    try:
        people[name].write(text.encode() + b"\n")
        await people[name].drain()
    except KeyError:
        result = {"outcome": "refused", "why": f"{name} has left", "chat_gone": True}
    except ConnectionError:
        result = {"outcome": "unknown", "why": "the connection broke"}
    say(type="result", request=request, **result)


async def obey(message: dict[str, Any]) -> None:
    """Do what the gateway asks for."""
    match message["type"]:
        case "send":
            await show(message["request"], message["chat_id"], message["text"])
        case "answer":
            chat = events[message["id"]]["chat"]["id"]
            await show(message["request"], chat, message["text"])
        case "typing":
            await show(message["request"], message["chat_id"], "...")
        case "not_taken":  # the gateway could not keep it; after that time once more
            await asyncio.sleep(message["retry_after_s"])
            say(**events[message["id"]])
        case "error":
            sys.stderr.write(f"{message}\n")
        case _:  # "taken": our chat keeps nothing, so there is nothing to confirm
            pass


async def main() -> None:
    """Run until the gateway closes our standard input."""
    say(
        type="hello",
        protocol="everturn-channel/1",
        name="tcp-chat",
        version="1",
        capabilities=CAPABILITIES,
    )
    stdin, loop = asyncio.StreamReader(limit=2**21), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    server = await asyncio.start_server(serve_person, HOST, PORT)
    host, port = server.sockets[0].getsockname()
    say(type="connected", account=f"tcp://{host}:{port}")
    async with asyncio.TaskGroup() as tasks:
        while True:
            try:
                async with asyncio.timeout(IDLE_S / 3):
                    line = await stdin.readline()
            except TimeoutError:
                say(type="received")  # nobody wrote; we are alive
                continue
            if not line:
                sys.exit()
            tasks.create_task(obey(json.loads(line)))


if __name__ == "__main__":
    asyncio.run(main())
