"""Pairing: unknown people are given a code, and an owner approves it.

Three values, so that no gateway has to run for an approval and none has to be told of it:

    pairing/pending.json     codes that are open; written by the gateway alone
    pairing/approved.json    people who were approved; changed by the command line, over HTTP, or
                             by an owner's command in a chat
    pairing/groups.json      groups that owners allowed there, by `/allow`

Beside them stands what owners chose of agents, see `chosen_agents`.

Names in them are what people call themselves: for display, never to be trusted.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final, TypeAlias, TypeVar

import anyio
from msgspec.structs import replace

from everturn_actors.codec import Timestamp, Value
from everturn_actors.documents import Document, form_of
from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock, KeyedStore
from everturn_channels.access.chosen_agents import ChosenAgents
from everturn_channels.adapter import Person
from everturn_channels.errors import ChannelError
from everturn_channels.names import one_line

CODE_LENGTH: Final = 8
# Without 0 O 1 I L U, which are misread or misheard: 30 signs, so a code is one of 6 * 10^11.
ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LIFE: Final = timedelta(hours=1)
OPEN_CODES_MAX: Final = 100  # of a channel; strangers cost a line in a file each
PENDING_KEY: Final = "pairing/pending.json"
APPROVED_KEY: Final = "pairing/approved.json"
GROUPS_KEY: Final = "pairing/groups.json"

logger = logging.getLogger(__name__)


class PairingError(ChannelError):
    """Nobody could be paired."""


class UnknownCodeError(PairingError):
    """No request that is still valid has this code."""


class Request(Value, frozen=True, kw_only=True):
    """Somebody asked for access and was given a code."""

    code: str
    channel: str
    sender_id: str
    name: str
    "As they call themselves."
    asked_at: Timestamp
    expires_at: Timestamp
    "UTC. The code is worth nothing from then on."
    is_denied: bool = False
    "Whether an owner turned them away: until then they are given no other code."


class Paired(Value, frozen=True, kw_only=True):
    """Somebody who was approved."""

    channel: str
    sender_id: str
    name: str
    "As they called themselves then."
    approved_at: Timestamp
    by: str = ""
    "Which owner did it, see `Owner.by`; empty = whoever runs the gateway, on the command line."


class AllowedGroup(Value, frozen=True, kw_only=True):
    """A group in which an owner let an agent take part."""

    channel: str
    chat: str
    agent: str
    allowed_at: Timestamp
    by: str = ""
    "Which owner did it, see `Owner.by`."


class Pairing:
    """Knows who is paired, hands out codes, and lets people in. For one event loop.

    The gateway has one, and so has each command that runs beside it.
    """

    def __init__(self, store: KeyedStore, clock: Clock) -> None:
        """Know of nobody yet."""
        self._clock = clock
        self._pending = Document(store, PENDING_KEY, _REQUESTS)
        self._approved = Document(store, APPROVED_KEY, _PEOPLE)
        self._groups = Document(store, GROUPS_KEY, _GROUPS)
        self.agents = ChosenAgents(store, clock)
        "Which agents owners chose for chats."
        self._asking = anyio.Lock()
        self._open: _Requests | None = None
        "Codes, oldest first; None until they were read."
        self._fault = ""
        "Why the list of people cannot be read."
        self._groups_fault = ""
        "The same of groups."
        self.version = 0
        "Grows with each change that is made here, for whoever shows the lists."

    async def is_paired(self, channel: str, sender_id: str) -> bool:
        """Whether the owner approved this person for this channel, or took that back, until now.

        Where the list cannot be read, nobody is paired, and the log says so once.
        """
        return any(_is(each, channel, sender_id) for each in await self._people())

    async def is_allowed(self, channel: str, chats: Collection[str], agent: str) -> bool:
        """Whether an owner let an agent take part in a group, by any of its ids.

        Where the list cannot be read, none is, and the log says so once.
        """
        try:
            groups, fault = await self._groups.read(), ""
        except JournalError as error:
            groups, fault = (), str(error)
        if fault and fault != self._groups_fault:
            logger.error(
                "no group counts as allowed: the list cannot be read", extra={"error": fault}
            )
        self._groups_fault = fault
        return any(
            each.channel == channel and each.chat in chats and each.agent == agent
            for each in groups
        )

    async def allow(self, channel: str, chats: Sequence[str], agent: str, *, by: str) -> None:
        """Let an agent take part in a group, durably; twice does no harm.

        Raises:
            PairingError: The list cannot be read or written; the text names it.
        """
        group = AllowedGroup(
            channel=channel, chat=chats[0], agent=agent, allowed_at=self._clock.now(), by=by
        )
        await self._change_groups(channel, chats, agent, (group,))

    async def disallow(self, channel: str, chats: Collection[str], agent: str) -> bool:
        """Take that back, durably; return whether it was so.

        Raises:
            PairingError: The list cannot be read or written; the text names it.
        """
        return await self._change_groups(channel, chats, agent, ())

    async def _change_groups(
        self, channel: str, chats: Collection[str], agent: str, now: _AllowedGroups
    ) -> bool:
        """Put `now` in the place of what is known of a group; return whether there was anything."""
        was_allowed = False

        def changed(groups: _AllowedGroups) -> _AllowedGroups:
            nonlocal was_allowed
            left = tuple(
                each
                for each in groups
                if (each.channel, each.agent) != (channel, agent) or each.chat not in chats
            )
            was_allowed = len(left) < len(groups)
            return (*left, *now) if now or was_allowed else groups

        with _translated():
            await self._groups.change(changed)
        return was_allowed

    async def people(self, channel: str) -> tuple[str, ...]:
        """Return the ids of those whom the owner approved for a channel; none where it fails."""
        return tuple(sorted(p.sender_id for p in await self._people() if p.channel == channel))

    async def approved(self) -> tuple[Paired, ...]:
        """Return who was approved, oldest first.

        Raises:
            PairingError: The list cannot be read; the text names it.
        """
        with _translated():
            return await self._approved.read()

    async def pending(self) -> tuple[Request, ...]:
        """Return the requests that wait, oldest first: not expired, not answered yet.

        Raises:
            PairingError: A list cannot be read; the text names it.
        """
        known, now = await self.approved(), self._clock.now()
        with _translated():
            requests = await self._pending.read()
        return tuple(
            each
            for each in requests
            if now < each.expires_at
            and not each.is_denied
            and not any(_is(person, each.channel, each.sender_id) for person in known)
        )

    async def asked(self, code: str) -> Request:
        """Return the request with a code, as `approve` takes it, whatever was answered to it.

        Raises:
            UnknownCodeError: No request that is still valid has this code.
            PairingError: A list cannot be read.
        """
        with _translated():
            return _with_code(await self._pending.read(), code, self._clock.now())

    async def approve(self, code: str, *, by: str = "") -> Request:
        """Let the person with this code in; return who that is, once it is durable.

        Upper and lower case, spaces and hyphens do not matter. The same code twice does no harm.

        Args:
            code: As it was given.
            by: Which owner does it; empty = whoever runs the gateway.

        Raises:
            UnknownCodeError: No request that is still valid has this code.
            PairingError: A list cannot be read or written.
        """
        now = self._clock.now()
        with _translated():
            found = _with_code(await self._pending.read(), code, now)
        person = Paired(
            channel=found.channel,
            sender_id=found.sender_id,
            name=found.name,
            approved_at=now,
            by=by,
        )

        def let_in(people: _People) -> _People:
            is_known = any(_is(each, found.channel, found.sender_id) for each in people)
            return people if is_known else (*people, person)

        with _translated():
            await self._approved.change(let_in)
        self.version += 1
        return found

    async def deny(self, code: str) -> Request:
        """Turn the person with this code away; return who that is, once it is durable.

        They are given no other code before this one expires. For the gateway alone, which writes
        the codes.

        Raises:
            UnknownCodeError: No request that is still valid has this code.
            PairingError: The codes cannot be read or written.
        """
        async with self._asking:
            requests = await self._codes()
            found = _with_code(requests, code, self._clock.now())
            denied = replace(found, is_denied=True)
            after = tuple([denied if each is found else each for each in requests])
            with _translated():
                await self._pending.write(after)
            self._open = after
        self.version += 1
        return denied

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Take an approval back, durably; return whether there was one.

        Raises:
            PairingError: The list cannot be read or written; the text names it.
        """
        was_in = False

        def let_out(people: _People) -> _People:
            nonlocal was_in
            left = tuple(each for each in people if not _is(each, channel, sender_id))
            was_in = left != people
            return left

        with _translated():
            await self._approved.change(let_out)
        self.version += 1
        return was_in

    async def ask(self, channel: str, person: Person) -> str | None:
        """Return the code that the owner can approve for this person, durable when this returns.

        The same person is given the same code while it is valid. None where they were turned away,
        too many codes are open or the code cannot be written down; the log says which of the last
        two.
        """
        async with self._asking:
            now = self._clock.now()
            still_open = [each for each in await self._codes() if now < each.expires_at]
            for each in still_open:
                if (each.channel, each.sender_id) == (channel, person.id):
                    return None if each.is_denied else each.code
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
            after = (*still_open, request)
            try:
                await self._pending.write(after)
            except JournalError as error:
                logger.error(
                    "no pairing code given: it cannot be written down", extra={"error": str(error)}
                )
                return None
            self._open = after
            self.version += 1
            return request.code

    async def _people(self) -> _People:
        """Return who was approved until now; nobody where the list cannot be read."""
        try:
            people, fault = await self._approved.read(), ""
        except JournalError as error:
            people, fault = (), str(error)
        if fault and fault != self._fault:
            logger.error("nobody counts as paired: the list cannot be read", extra={"error": fault})
        self._fault = fault
        return people

    async def _codes(self) -> _Requests:
        """Return the codes that this gateway, or the one before, gave; none where that fails."""
        if self._open is None:
            lost = "pairing codes of an earlier run cannot be read, and people get new ones"
            try:
                self._open = await self._pending.load(lost)
            except JournalError as error:
                logger.warning(lost, extra={"error": str(error)})
                self._open = ()
        return self._open


def plain_code(code: str) -> str:
    """Return a code without what does not matter in it: case, spaces, hyphens."""
    return "".join(char for char in code if char.isalnum()).upper()


def _with_code(requests: _Requests, code: str, now: datetime) -> Request:
    """Return the request with a code, as it was given.

    Raises:
        UnknownCodeError: None that is still valid has it.
    """
    plain = plain_code(code)
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
    return found


def _new_code(taken: set[str]) -> str:
    while True:
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        if code not in taken:
            return code


def _is(person: Paired, channel: str, sender_id: str) -> bool:
    return (person.channel, person.sender_id) == (channel, sender_id)


@contextmanager
def _translated() -> Generator[None]:
    """Raise what cannot be read or written as an error of pairing."""
    try:
        yield
    except JournalError as error:
        raise PairingError(str(error)) from error


# --- how they are written down ---


T = TypeVar("T", Request, Paired)


def _named(values: tuple[T, ...]) -> tuple[T, ...]:
    """Return people with names that can be shown, whoever wrote them."""
    return tuple([replace(each, name=one_line(each.name)) for each in values])


_Requests: TypeAlias = tuple[Request, ...]
_People: TypeAlias = tuple[Paired, ...]
_REQUESTS: Final = form_of("requests", _Requests, _Requests(), check=_named)
_PEOPLE: Final = form_of("people", _People, _People(), check=_named)
_AllowedGroups: TypeAlias = tuple[AllowedGroup, ...]
_GROUPS: Final = form_of("groups", _AllowedGroups, _AllowedGroups())
