"""The status of a channel: what its runner notes, and what people are shown. No IO."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_channels.chats.lanes import BlockedLane, BlockedLanes

ChannelState: TypeAlias = Literal[
    "starting", "connected", "standing by", "retrying", "failed setup", "stopped"
]
"""How far a channel is.

starting: the first login is under way. connected: the login worked. standing by: another process
receives, and this one sends. retrying: the platform cannot
be reached, and is tried again soon. failed setup: its owner has to change something; it is tried
again at long intervals. stopped: the gateway stops.
"""

BLOCKED_S: Final = 30.0
"A chat whose next message could not be taken for so long is shown as blocked."
BLOCKED_SHOWN: Final = 20  # of those
ERROR_LIMIT: Final = 500  # characters; a page of HTML is no help in a status line
# The token stands in the path of every call to Telegram's API, and so in errors about them.
_TOKEN: Final = re.compile(r"\bbot\d+:[\w-]+")


class Login(Struct, frozen=True, kw_only=True):
    """What the owner of a bot has to do so that it is logged in."""

    text: str
    "What to do: `scan this with the app on your phone, under linked devices`."
    qr: str = ""
    """What a QR code for that holds; empty = none.

    Whoever has it may log in, or be logged in, in their owner's place: it is logged nowhere.
    """


class ChannelStatus(Struct, frozen=True, kw_only=True):
    """The status of a channel at one moment."""

    name: str
    platform: str
    state: ChannelState
    since: datetime
    "UTC. When the channel came into this state."
    account: str = ""
    "Under which name it is logged in; empty until it was."
    last_received_at: datetime | None = None
    "UTC. When the platform was last heard from, though it may have had nothing to say."
    is_healthy: bool = False
    "Whether it is connected and was heard from lately."
    error: str = ""
    "Why it is not connected, in words without secrets; empty where it is."
    login: Login | None = None
    "What its owner has to do so that it is logged in; None = nothing, or it cannot be said."
    retry_at: datetime | None = None
    "UTC. When it is tried again."
    retries: int = 0
    "Tries since it was last connected."
    received: int = 0
    "InboundEvents since the gateway started."
    sent: int = 0
    "Messages sent since the gateway started."
    skipped: int = 0
    "Messages that were not read since the gateway started: too old or too many."
    given_up: int = 0
    "Messages given up since the gateway started: they could not be delivered for too long."
    unreadable: int = 0
    "Events since then that could not be read and were passed over."
    blocked: tuple[BlockedLane, ...] = ()
    "Chats in which nothing can be taken for a while, those that wait longest first; not all."
    blocked_count: int = 0
    "How many there are."


def mask_token(text: str) -> str:
    """Return `text` without bot tokens that stand in addresses."""
    return _TOKEN.sub("bot***", text)


class Health:
    """Notes the status of one channel. One task at a time, or tasks of one event loop.

    `mask` takes the gateway's secrets out of the words of an error; bot tokens in addresses are
    masked in any case.
    """

    def __init__(
        self,
        name: str,
        platform: str,
        clock: Clock,
        idle_s: float,
        *,
        mask: Callable[[str], str] = mask_token,
    ) -> None:
        self._name = name
        self._platform = platform
        self._clock = clock
        self._idle = timedelta(seconds=idle_s)
        self._mask = mask
        self._state: ChannelState = "starting"
        self._since = clock.now()
        self._account = ""
        self._heard_at: datetime | None = None
        self._error = ""
        self._login: Login | None = None
        self._retry_at: datetime | None = None
        self._retries = 0
        self._received = 0
        self._sent = 0
        self._skipped = 0
        self._given_up = 0
        self._unreadable = 0
        self.lanes = BlockedLanes()
        "The chats in which something cannot be taken now."

    # --- what happens ---

    def connected(self, account: str) -> None:
        """Note that the login worked."""
        self._account, self._error, self._login = account, "", None
        self._retry_at, self._retries = None, 0
        self._enter("connected")

    def standing_by(self) -> None:
        """Note that another process receives."""
        self._error, self._retry_at, self._retries = "", None, 0
        self._enter("standing by")

    def received(self) -> None:
        """Note that the platform was heard from."""
        self._heard_at = self._clock.now()

    def needs_login(self, login: Login) -> None:
        """Note what its owner has to do so that it is logged in."""
        self.failed(f"{login.text}: `everturn channel login {self._name}`")
        self._login = login

    def retrying(self, at: datetime, error: str = "") -> None:
        """Note that it is tried again at `at`, and why it has to be.

        Without `error` what was noted before stays: after `failed` the channel stays in that state.
        """
        if error or self._state != "failed setup":
            self._enter("retrying")
        if error:
            self._error = self.words(error)
        self._retry_at, self._login = at, None
        self._retries += 1

    def failed(self, error: str) -> None:
        """Note that its owner has to change something."""
        self._error, self._retry_at, self._login = self.words(error), None, None
        self._enter("failed setup")

    def stopped(self) -> None:
        """Note that the channel ended, because the gateway does."""
        self._retry_at = self._login = None
        self._enter("stopped")

    def count_in(self) -> None:
        """Count an event."""
        self._received += 1

    def count_out(self) -> None:
        """Count a message that was sent."""
        self._sent += 1

    def count_skipped(self, count: int = 1) -> None:
        """Count messages that were not read."""
        self._skipped += count

    def count_given_up(self) -> None:
        """Count a message that could not be delivered for too long."""
        self._given_up += 1

    def count_unreadable(self) -> None:
        """Count an event that could not be read."""
        self._unreadable += 1

    # --- what is told ---

    @property
    def is_healthy(self) -> bool:
        """Whether it is connected, and was heard from within `idle_s`.

        A login alone proves nothing: a channel that receives no more looks connected for ever.
        """
        heard_at = self._heard_at
        if self._state == "standing by":
            return True
        if self._state != "connected" or not self._idle:
            return self._state == "connected"
        return heard_at is not None and self._clock.now() - heard_at <= self._idle

    def status(self) -> ChannelStatus:
        """Return its status now."""
        blocked = self.lanes.blocked(self._clock.now(), for_s=BLOCKED_S)
        return ChannelStatus(
            name=self._name,
            platform=self._platform,
            state=self._state,
            since=self._since,
            account=self._account,
            last_received_at=self._heard_at,
            is_healthy=self.is_healthy,
            error=self._error,
            login=self._login,
            retry_at=self._retry_at,
            retries=self._retries,
            received=self._received,
            sent=self._sent,
            skipped=self._skipped,
            given_up=self._given_up,
            unreadable=self._unreadable,
            blocked=blocked[:BLOCKED_SHOWN],
            blocked_count=len(blocked),
        )

    def _enter(self, state: ChannelState) -> None:
        if state != self._state:
            self._state, self._since = state, self._clock.now()

    def words(self, error: str) -> str:
        """Return why something failed, in a line that may be shown: without secrets, not long."""
        # Masked before it is cut: half a token is still a secret.
        line = " ".join(mask_token(self._mask(error)).split())
        return line if len(line) <= ERROR_LIMIT else line[: ERROR_LIMIT - 1] + "…"
