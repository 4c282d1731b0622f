"""The bodies of answers about channels, and about who is let in there."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import Field

from everturn_actors.state.serialization import utc_text
from everturn_channels.access.pairing import Paired, Request
from everturn_channels.health import ChannelState, ChannelStatus, Login
from everturn_gateway.http.schemas.base import Body, Timestamp
from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    import segno
else:
    segno = late("segno")


class BlockedBody(Body):
    """A chat in which nothing can be taken for a while."""

    chat: str = Field(description="The platform's id of it.")
    since: Timestamp = Field(description="When what is first in it was tried for the first time.")
    tried_at: Timestamp = Field(description="When it was tried for the last time.")
    tries: int = Field(description="How often that was tried.")
    why: str = Field(description="Why the newest try failed.")


class LoginBody(Body):
    """What the owner of a bot has to do so that it is logged in."""

    text: str
    qr: str = Field(description="What a QR code for that holds; empty = there is none.")
    image: str = Field(description="That code, as a `data:` address of an SVG.")

    @staticmethod
    def of(login: Login) -> LoginBody:
        """Return the body of `login`."""
        return LoginBody(text=login.text, qr=login.qr, image=_drawn(login.qr) if login.qr else "")


@lru_cache(maxsize=4)
def _drawn(qr: str) -> str:
    """Return a QR code as a `data:` address; drawn once, since a large one takes 0.3 s."""
    with suppress(segno.DataOverflowError):  # more than any QR code holds
        return segno.make(qr, micro=False).svg_data_uri(scale=4, light="white")
    return ""


class ChannelBody(Body):
    """The status of one channel."""

    name: str
    platform: str = Field(description="telegram, discord, or the name of a plug-in.")
    state: ChannelState
    since: Timestamp = Field(description="When it came into this state.")
    account: str = Field(description="Under which name it is logged in; empty until it was.")
    healthy: bool = Field(description="Whether it is connected and was heard from lately.")
    last_received_at: Timestamp | None = Field(
        description="When its platform was last heard from, though it may have had nothing to say."
    )
    error: str = Field(description="Why it is not connected; empty where it is.")
    login: LoginBody | None = Field(description="How its owner logs in; null = nothing to do.")
    retry_at: Timestamp | None = Field(description="When it is tried again.")
    retries: int = Field(description="Tries since it was last connected.")
    received: int = Field(description="What came since the gateway started.")
    sent: int = Field(description="Messages sent since the gateway started.")
    skipped: int = Field(description="Messages not read since then: too old, or too many.")
    given_up: int = Field(
        description="Messages given up since then: they could not be delivered for too long."
    )
    unreadable: int = Field(description="Events since then that nobody could read.")
    blocked_count: int = Field(description="Chats in which nothing can be taken for a while.")
    blocked: tuple[BlockedBody, ...] = Field(
        description="Those of them that wait longest, at most 20: their messages stay with the "
        "platform until they can be taken."
    )

    @staticmethod
    def of(status: ChannelStatus) -> ChannelBody:
        """Return the body of `status`."""
        heard_at, retry_at = status.last_received_at, status.retry_at
        return ChannelBody(
            name=status.name,
            platform=status.platform,
            state=status.state,
            since=utc_text(status.since),
            account=status.account,
            healthy=status.is_healthy,
            last_received_at=utc_text(heard_at) if heard_at else None,
            error=status.error,
            login=LoginBody.of(status.login) if status.login else None,
            retry_at=utc_text(retry_at) if retry_at else None,
            retries=status.retries,
            received=status.received,
            sent=status.sent,
            skipped=status.skipped,
            given_up=status.given_up,
            unreadable=status.unreadable,
            blocked_count=status.blocked_count,
            blocked=tuple(
                BlockedBody(
                    chat=lane.chat,
                    since=utc_text(lane.since),
                    tried_at=utc_text(lane.tried_at),
                    tries=lane.tries,
                    why=lane.why,
                )
                for lane in status.blocked
            ),
        )


class ChannelList(Body):
    """All channels, in the order of the configuration."""

    channels: tuple[ChannelBody, ...]


class CheckedChannelBody(Body):
    """What a look at one channel has found."""

    ok: bool = Field(description="Whether nothing keeps it from working.")
    lines: tuple[str, ...] = Field(
        description="What there is to say; what keeps it from working begins with `problem: `."
    )


# --- who is let in ---


class PairingRequestBody(Body):
    """Somebody who asks to be let in."""

    code: str = Field(description="What they were told; they tell it to whoever lets them in.")
    channel: str
    platform: str = Field(description="Empty where the channel is not set up any more.")
    sender: str = Field(description="The platform's id of them.")
    name: str = Field(description="What they call themselves. Anybody can choose any.")
    asked_at: Timestamp
    expires_at: Timestamp = Field(description="The code is worth nothing from then on.")

    @staticmethod
    def of(request: Request, platform: str) -> PairingRequestBody:
        """Return the body of `request`."""
        return PairingRequestBody(
            code=request.code,
            channel=request.channel,
            platform=platform,
            sender=request.sender_id,
            name=request.name,
            asked_at=utc_text(request.asked_at),
            expires_at=utc_text(request.expires_at),
        )


class PairedBody(Body):
    """Somebody who was let in."""

    channel: str
    platform: str = Field(description="Empty where the channel is not set up any more.")
    sender: str
    name: str = Field(description="What they called themselves then.")
    approved_at: Timestamp
    by: str = Field(description="Who let them in; empty: whoever runs the gateway.")

    @staticmethod
    def of(person: Paired, platform: str) -> PairedBody:
        """Return the body of `person`."""
        return PairedBody(
            channel=person.channel,
            platform=platform,
            sender=person.sender_id,
            name=person.name,
            approved_at=utc_text(person.approved_at),
            by=person.by,
        )


class PairingList(Body):
    """Who asks to be let in, and who was; each oldest first."""

    waiting: tuple[PairingRequestBody, ...]
    approved: tuple[PairedBody, ...]


class PairingCode(Body):
    """Whose request it is about."""

    code: str = Field(
        min_length=1,
        max_length=64,
        description="As it was given: case, spaces and hyphens do not matter.",
        examples=["7KQ4-M2PX"],
    )
