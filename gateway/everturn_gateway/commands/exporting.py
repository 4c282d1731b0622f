"""`everturn export`: sessions as files in a folder, for who takes them elsewhere."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final, TypeAlias

import orjson
from anyio.to_thread import run_sync

from everturn_actors.errors import CoreError
from everturn_channels.errors import ClientError
from everturn_channels.names import clean
from everturn_gateway.client import SessionClient
from everturn_gateway.commands.clients import open_client
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.errors import GatewayError
from everturn_gateway.http.live.markdown import ExportFormat
from everturn_gateway.tools.wording import counted

_ENDINGS: Final = {"markdown": "md", "jsonl": "jsonl", "openai": "openai.jsonl"}
_PAGE: Final = 100
_FILE_MODE: Final = 0o600  # conversations are private
_FAULTS_SHOWN: Final = 5
_Fault: TypeAlias = tuple[str, str]  # a session, and why it is not there


def export(
    options: Options,
    session_id: str,
    *,
    to: Path,
    form: ExportFormat,
    media: bool,
    agent: str,
    as_json: bool,
) -> int:
    """Write sessions into a folder; return the exit code, 1 where one could not be written.

    A file that stands there is replaced as a whole; no other is touched.

    Raises:
        GatewayError: Both a session and an agent are named, or the folder cannot be written.
    """
    if session_id and agent:
        msg = "name a session or an agent, not both"
        raise GatewayError(msg)
    config = load(options)

    async def main() -> int:
        written, files = 0, 0
        faults: list[_Fault] = []
        await run_sync(_make, to)
        async with open_client(config, resume=False) as client:
            wanted = [session_id] if session_id else await _all(client, agent)
            async with slow_progress("sessions") as told:
                for number, each in enumerate(wanted, 1):
                    try:
                        files += await _write(client, each, to, form=form, media=media)
                        written += 1
                    except (CoreError, ClientError) as error:
                        if session_id:
                            raise
                        faults.append((each, str(error)))
                    told(number, len(wanted))
        if as_json:
            left = [{"session_id": each, "detail": why} for each, why in faults]
            print_json({"folder": str(to), "sessions": written, "files": files, "left": left})
        else:
            print_line(
                f"{counted(written, 'session')} and {counted(files, 'file')} written into {to}"
            )
        for each, why in faults[:_FAULTS_SHOWN]:
            say(f"session {each} is not there: {clean(why)}")
        return EXIT_FAILED if faults else EXIT_OK

    return run_async(main)


async def _all(client: SessionClient, agent: str) -> list[str]:
    """Return the ids of the sessions that are wanted, newest first."""
    found: list[str] = []
    after = ""
    while page := await client.sessions(after=after, limit=_PAGE):
        found += [row.session_id for row in page if not agent or row.key.agent == agent]
        after = page[-1].session_id
    return found


async def _write(
    client: SessionClient, session_id: str, to: Path, *, form: ExportFormat, media: bool
) -> int:
    """Write one session; return how many files came with it."""
    target = to / f"{session_id}.{_ENDINGS[form]}"
    await _save(client.history.export(session_id, form), target)
    if not media:
        return 0
    names = await _media(client, session_id)
    if names:
        await run_sync(_make, to / session_id)
    for name in names:
        try:
            await _save(client.history.media(session_id, name), to / session_id / name)
        except ClientError as error:
            say(f"session {session_id}: {clean(str(error))}")
    return len(names)


async def _media(client: SessionClient, session_id: str) -> list[str]:
    """Return the names of the files that a session keeps."""
    data = b""
    async with aclosing(client.history.export(session_id, "jsonl")) as pieces:
        async for piece in pieces:
            data += piece
    return await run_sync(_names, data)


def _names(lines: bytes) -> list[str]:
    found: dict[str, None] = {}
    for line in lines.splitlines():
        event = orjson.loads(line)
        for each in (*event.get("attachments", ()), *event.get("images", ())):
            found[Path(each["name"]).name] = None
    return list(found)


async def _save(pieces: AsyncGenerator[bytes], target: Path) -> None:
    """Put a file in its place when all of it is there.

    Raises:
        GatewayError: It cannot be written.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _FILE_MODE)
        with os.fdopen(fd, "wb") as file:
            async with aclosing(pieces):
                async for piece in pieces:
                    await run_sync(file.write, piece)
        await run_sync(temporary.replace, target)
    except OSError as error:
        msg = f"{target} cannot be written: {error.strerror or error}"
        raise GatewayError(msg) from error
    finally:
        await run_sync(lambda: temporary.unlink(missing_ok=True))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the folder {folder} cannot be made: {error.strerror or error}"
        raise GatewayError(msg) from error
