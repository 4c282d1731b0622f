"""Pairing: unknown people are given a code, and an owner approves it.

Two files in one folder, so that no gateway has to run for an approval and none has to be told of
it:

    pending.json     codes that are open; written by the gateway alone
    approved.json    people who were approved; written under a lock, by the command line or by an
                     owner's command in a chat

Names in them are what people call themselves: for display, never to be trusted.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread

from everturn_actors.ports import Clock
from everturn_actors.state.serialization import utc_text
from everturn_channels.adapter import Person
from everturn_channels.errors import ChannelError
from everturn_channels.files import Stamp, locked, quarantine, read_kept, replace_kept, stamp_of
from everturn_channels.names import one_line

CODE_LENGTH: Final = 8
# Without 0 O 1 I L U, which are misread or misheard: 30 signs, so a code is one of 6 * 10^11.
ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LIFE: Final = timedelta(hours=1)
OPEN_CODES_MAX: Final = 100  # of a channel; strangers cost a line in a file each
LOCK_WAIT_S: Final = 5.0  # an approval takes milliseconds

_PENDING: Final = "pending.json"
_APPROVED: Final = "approved.json"
_LOCK: Final = "lock"
_VERSION: Final = 1

T = TypeVar("T")

logger = logging.getLogger(__name__)


class PairingError(ChannelError):
    """Nobody could be paired."""


class UnknownCodeError(PairingError):
    """No request that is still valid has this code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Somebody asked for access and was given a code."""

    code: str
    channel: str
    sender_id: str
    name: str
    "As they call themselves."
    asked_at: datetime
    expires_at: datetime
    "UTC. The code is worth nothing from then on."


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Somebody who was approved."""

    channel: str
    sender_id: str
    name: str
    "As they called themselves then."
    approved_at: datetime
    by: str = ""
    "Which owner did it, see `Owner.by`; empty = whoever runs the gateway, on the command line."


# --- the gateway's side ---


class Pairing:
    """Knows who is paired and hands out codes. For one event loop and one process."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._asking = anyio.Lock()
        self._open: list[Request] | None = None
        "Codes, oldest first; None until they were read."
        self._stamp: Stamp | None = None
        self._paired: frozenset[tuple[str, str]] = frozenset()

    async def is_paired(self, channel: str, sender_id: str) -> bool:
        """Whether the owner approved this person for this channel, or took that back, until now.

        Where the file cannot be read, nobody is paired, and the log says so once.
        """
        found = await to_thread.run_sync(partial(_read_changed, self._folder, self._stamp))
        if found is not None:
            self._stamp, self._paired = found
        return (channel, sender_id) in self._paired

    async def people(self, channel: str) -> tuple[str, ...]:
        """Return the ids of those whom the owner approved for a channel; none where it fails."""
        await self.is_paired(channel, "")  # looks whether the file changed
        return tuple(sorted(sender for where, sender in self._paired if where == channel))

    async def pending(self) -> tuple[Request, ...]:
        """Return the requests that can be approved, as the function `pending` does.

        Raises:
            PairingError: A file cannot be read.
        """
        return await to_thread.run_sync(pending, self._folder, self._clock.now())

    async def approve(self, code: str, *, by: str) -> Request:
        """Let the person with this code in, as the function `approve` does.

        Raises:
            PairingError: No open request has this code, or a file cannot be read or written.
        """
        return await to_thread.run_sync(partial(approve, self._folder, code, self._clock.now(), by))

    async def ask(self, channel: str, person: Person) -> str | None:
        """Return the code that the owner can approve for this person, durable when this returns.

        The same person is given the same code while it is valid. None where too many codes are
        open or the code cannot be written down; the log says which.
        """
        async with self._asking:
            now = self._clock.now()
            if self._open is None:
                self._open = await to_thread.run_sync(partial(_read_open, self._folder))
            still_open = [each for each in self._open if now < each.expires_at]
            for each in still_open:
                if (each.channel, each.sender_id) == (channel, person.id):
                    return each.code
            open_here = sum(each.channel == channel for each in still_open)
            if open_here >= OPEN_CODES_MAX:
                logger.warning(
                    "no pairing code given: too many are open",
                    extra={"channel": channel, "sender": person.id, "open": open_here},
                )
                return None
            request = Request(
                code=_new_code({each.code for each in still_open}),
                channel=channel,
                sender_id=person.id,
                name=one_line(person.name),
                asked_at=now,
                expires_at=now + CODE_LIFE,
            )
            still_open.append(request)
            try:
                await to_thread.run_sync(partial(_write_open, self._folder, tuple(still_open)))
            except OSError as error:
                logger.error(  # noqa: TRY400 - the words say it all
                    "no pairing code given: it cannot be written down",
                    extra={"folder": str(self._folder), "error": str(error)},
                )
                return None
            self._open = still_open
            return request.code


def _new_code(taken: set[str]) -> str:
    while True:
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        if code not in taken:
            return code


def _read_changed(
    folder: Path, known: Stamp | None
) -> tuple[Stamp, frozenset[tuple[str, str]]] | None:
    """Return the file's stamp and who is paired; None where the stamp is the known one."""
    path = folder / _APPROVED
    stamp = stamp_of(path)
    if stamp == known:
        return None
    try:
        people = _read(path, "people", _paired_from)
    except PairingError as error:
        logger.error(  # noqa: TRY400 - the words say it all
            "nobody counts as paired: the list cannot be read", extra={"error": str(error)}
        )
        people = ()
    return stamp, frozenset((each.channel, each.sender_id) for each in people)


def _read_open(folder: Path) -> list[Request]:
    """Return the codes of an earlier run; none where they cannot be read."""
    try:
        return list(_read(folder / _PENDING, "requests", _request_from))
    except PairingError as error:
        aside = quarantine(folder / _PENDING)
        logger.warning(
            "pairing codes of an earlier run cannot be read, and people get new ones",
            extra={"error": str(error), "kept_as": str(aside)},
        )
        return []


def _write_open(folder: Path, requests: tuple[Request, ...]) -> None:
    records = [
        {
            "code": each.code,
            "channel": each.channel,
            "sender_id": each.sender_id,
            "name": each.name,
            "asked_at": utc_text(each.asked_at),
            "expires_at": utc_text(each.expires_at),
        }
        for each in requests
    ]
    replace_kept(folder / _PENDING, _encoded("requests", records))


# --- the command line's side; blocking ---


def pending(folder: Path, now: datetime) -> tuple[Request, ...]:
    """Return the requests that can be approved, oldest first: not expired, not approved yet.

    Raises:
        PairingError: A file cannot be read; the text names it.
    """
    known = {(each.channel, each.sender_id) for each in approved(folder)}
    return tuple(
        each
        for each in _read(folder / _PENDING, "requests", _request_from)
        if now < each.expires_at and (each.channel, each.sender_id) not in known
    )


def plain_code(code: str) -> str:
    """Return a code without what does not matter in it: case, spaces, hyphens."""
    return "".join(char for char in code if char.isalnum()).upper()


def approve(folder: Path, code: str, now: datetime, by: str = "") -> Request:
    """Let the person with this code in; return who that is, once it is durable.

    Upper and lower case, spaces and hyphens do not matter. The same code twice does no harm.

    Args:
        folder: Of the pairing files.
        code: As it was given.
        now: UTC.
        by: Which owner does it; empty = whoever runs the gateway.

    Raises:
        UnknownCodeError: No request that is still valid has this code.
        PairingError: A file cannot be read or written.
    """
    plain = plain_code(code)
    requests = _read(folder / _PENDING, "requests", _request_from)
    found = next((each for each in requests if each.code == plain), None)
    if found is None:
        msg = f"no request has the code {code!r}; `everturn pair list` shows those that wait"
        raise UnknownCodeError(msg)
    if now >= found.expires_at:
        msg = (
            f"the code {found.code} expired at {found.expires_at:%Y-%m-%d %H:%M} UTC; "
            "a new message to the bot gives a new one"
        )
        raise UnknownCodeError(msg)
    with locked(folder / _LOCK, wait_s=LOCK_WAIT_S, by="everturn pair", error=PairingError):
        people = approved(folder)
        if not any(_is(each, found.channel, found.sender_id) for each in people):
            person = Paired(
                channel=found.channel,
                sender_id=found.sender_id,
                name=found.name,
                approved_at=now,
                by=by,
            )
            _write_approved(folder, (*people, person))
    return found


def approved(folder: Path) -> tuple[Paired, ...]:
    """Return who was approved, oldest first.

    Raises:
        PairingError: The file cannot be read; the text names it.
    """
    return _read(folder / _APPROVED, "people", _paired_from)


def revoke(folder: Path, channel: str, sender_id: str) -> bool:
    """Take an approval back, durably; return whether there was one.

    Raises:
        PairingError: The file cannot be read or written; the text names it.
    """
    if not folder.is_dir():
        return False
    with locked(folder / _LOCK, wait_s=LOCK_WAIT_S, by="everturn pair", error=PairingError):
        people = approved(folder)
        left = tuple(each for each in people if not _is(each, channel, sender_id))
        if len(left) < len(people):
            _write_approved(folder, left)
    return len(left) < len(people)


def _is(person: Paired, channel: str, sender_id: str) -> bool:
    return (person.channel, person.sender_id) == (channel, sender_id)


def _write_approved(folder: Path, people: tuple[Paired, ...]) -> None:
    records = [
        {
            "channel": each.channel,
            "sender_id": each.sender_id,
            "name": each.name,
            "approved_at": utc_text(each.approved_at),
            "by": each.by,
        }
        for each in people
    ]
    path = folder / _APPROVED
    try:
        replace_kept(path, _encoded("people", records))
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise PairingError(msg) from error


# --- the files ---


def _encoded(name: str, records: list[dict[str, str]]) -> bytes:
    text = json.dumps({"version": _VERSION, name: records}, ensure_ascii=False, indent=1)
    return text.encode() + b"\n"


def _read(path: Path, name: str, value_from: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
    """Return the values in a file; none where there is no file.

    Raises:
        PairingError: It cannot be read, or is damaged.
    """
    try:
        data = read_kept(path)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise PairingError(msg) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if data is None:
        return ()
    try:
        whole = json.loads(data)
        if whole["version"] != _VERSION:
            why = f"it is of version {whole['version']!r}, and this program reads {_VERSION}"
            raise _damaged(path, why)
        return tuple(value_from(record) for record in whole[name])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"it does not hold what it should: {error!r}") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> PairingError:
    return PairingError(f"{path} is damaged: {why}; set it right, or remove it to begin anew")


def _request_from(record: Mapping[str, Any]) -> Request:
    return Request(
        code=_text(record, "code"),
        channel=_text(record, "channel"),
        sender_id=_text(record, "sender_id"),
        name=one_line(_text(record, "name")),
        asked_at=_instant(record, "asked_at"),
        expires_at=_instant(record, "expires_at"),
    )


def _paired_from(record: Mapping[str, Any]) -> Paired:
    return Paired(
        channel=_text(record, "channel"),
        sender_id=_text(record, "sender_id"),
        name=one_line(_text(record, "name")),
        approved_at=_instant(record, "approved_at"),
        by=_text(record, "by") if "by" in record else "",
    )


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        msg = f"{name} has to be text, and is {value!r}"
        raise TypeError(msg)
    return value


def _instant(record: Mapping[str, Any], name: str) -> datetime:
    instant = datetime.fromisoformat(_text(record, name))
    if instant.tzinfo is None:
        msg = f"{name} has no time zone: {instant}"
        raise ValueError(msg)
    return instant
