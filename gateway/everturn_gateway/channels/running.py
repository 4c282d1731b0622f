"""All channels of a gateway: run together, and asked for their status."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, runtime_checkable

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.delivery.port import DeliveryPort, Outgoing
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.service import TurnService
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import Adapter
from everturn_channels.channel_context import ChannelContext
from everturn_channels.chats.aliases import ChatAliases
from everturn_channels.errors import SetupError
from everturn_channels.health import ChannelStatus, mask_token
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_gateway.channels.adapters import check_installed
from everturn_gateway.channels.answering import AgentAnswers, make_channel_context
from everturn_gateway.channels.checking import PROBLEM, CheckedChannel, check_channel
from everturn_gateway.channels.seats import ChannelEnvironment
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late
from everturn_gateway.logs import SecretRegistry

if TYPE_CHECKING:
    from everturn_gateway.channels import bots
else:
    bots = late("everturn_gateway.channels.bots")

START_GRACE_S: Final = 60.0
"""How long a channel may take to prove itself after the start: an idle bot is heard from for the
first time when its first long poll ends."""
_UNAVAILABLE = 503


@runtime_checkable
class _TakesWebhooks(Protocol):
    async def take_webhook(self, secret: str, body: bytes) -> int:
        """Take what its platform delivers; return the status of the answer."""
        ...


@runtime_checkable
class _TakesDeliveries(Protocol):
    async def take_delivery(self, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        """Take what its platform delivers, if its signature is right; return the answer."""
        ...


@runtime_checkable
class _AnswersChallenges(Protocol):
    def answer_challenge(self, query: Mapping[str, str]) -> DeliveryAnswer:
        """Answer a platform that tries its address, by the parameters of its request."""
        ...


class LaterDeliveryPort:
    """Sends nothing: what is pending waits for the gateway that serves.

    Commands that open the workspace for a moment do not log in anywhere. A turn that they run in
    the conversation of a channel is answered there all the same, once the gateway serves again.
    """

    @property
    def takes_files(self) -> bool:
        """Whether files can be sent there: they wait, as all does."""
        return True

    async def deliver(self, session: Outgoing) -> None:
        """Leave everything where it is until the service stops."""
        while not session.is_stopping:
            await session.until_changed()


class _Channel(DeliveryPort, Protocol):
    """One channel, whether its bot is loaded yet or not."""

    @property
    def config(self) -> ChannelConfig:
        """How it is set up."""
        ...

    @property
    def adapter(self) -> Adapter | None:
        """Its bot; None until it is loaded."""
        ...

    def status(self) -> ChannelStatus:
        """Return its status."""
        ...

    async def open_aliases(self) -> ChatAliases:
        """Return which chats have another id.

        Raises:
            SetupError: What was kept of that cannot be read.
        """
        ...

    def first_chat(self, chat: str) -> str:
        """Return the id by which conversations know a chat."""
        ...

    async def run(
        self, context: ChannelContext, loading: anyio.Lock, environment: ChannelEnvironment
    ) -> NoReturn:
        """Receive and answer until cancelled."""
        ...


class Channels(Struct, kw_only=True):
    """The channels of a gateway; made by `make_channels` or `no_channels`."""

    config: Config
    pairing: Pairing
    "Who is let in, and who asks to be."
    clock: Clock
    started_at: datetime
    "UTC."
    delivery_ports: Mapping[str, DeliveryPort]
    "By the name of their channel."
    mask: Callable[[str], str] = mask_token
    "Takes secrets out of what platforms say."
    _open: Mapping[str, _Channel] = field(default_factory=dict[str, _Channel])

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return the status of each channel, in the order of the configuration."""
        return tuple(channel.status() for channel in self._open.values())

    def troubled(self) -> tuple[ChannelStatus, ...]:
        """Return the channels that do not receive, or have not shown that they do.

        Just after the start, those are not among them of which nothing bad is known.
        """
        is_early = self.clock.now() - self.started_at < timedelta(seconds=START_GRACE_S)
        return tuple(
            status
            for status in self.statuses()
            if not status.is_healthy and (status.error or status.last_received_at or not is_early)
        )

    async def check(self, name: str) -> CheckedChannel | None:
        """Log in on a channel anew and look whether it is set up as it has to be.

        Nothing is sent to anybody, and nothing is taken from the bot that runs.

        Returns:
            None where there is no channel of this name.
        """
        channel = next((each for each in self.config.channels if each.name == name), None)
        if channel is None:
            return None
        try:
            return await check_channel(channel, self.clock, self.mask)
        except GatewayError as error:
            return CheckedChannel(lines=(f"{PROBLEM}{error}",), has_problem=True)

    def known_as(self, key: ConversationKey) -> ConversationKey:
        """Return a conversation by the id of its chat that sessions know, whichever was given."""
        channel = self._open.get(key.channel)
        chat = channel.first_chat(key.chat) if channel is not None else key.chat
        return key if chat == key.chat else replace(key, chat=chat)

    def admits_webhook(self, name: str, headers: Mapping[str, str]) -> bool | None:
        """Return whether a delivery shows the secret of its channel, or a signature by it.

        Whether a signature is right is seen by its body.

        Args:
            name: Of the channel.
            headers: Of the request, without regard to case; in one of them the secret stands.

        Returns:
            None where no channel of this name takes any.
        """
        found = self._webhook(name)
        if found is None:
            return None
        wanted = found.plugin.webhook_secret(found.options).encode()
        secret = headers.get(found.plugin.webhook_header, "")
        if found.plugin.is_webhook_signed:
            return bool(secret)
        return bool(wanted) and hmac.compare_digest(secret.encode("utf-8", "replace"), wanted)

    async def take_webhook(
        self, name: str, headers: Mapping[str, str], body: bytes
    ) -> DeliveryAnswer | None:
        """Hand a channel what its platform delivers; return the answer.

        Args:
            name: Of the channel.
            headers: Of the request.
            body: Of the request.

        Returns:
            None where no channel of this name takes any.
        """
        found = self._webhook(name)
        if found is None:
            return None
        adapter: object = self._open[name].adapter
        if isinstance(adapter, _TakesDeliveries):
            return await adapter.take_delivery(headers, body)
        if isinstance(adapter, _TakesWebhooks):
            secret = headers.get(found.plugin.webhook_header, "")
            return DeliveryAnswer(status=await adapter.take_webhook(secret, body))
        return DeliveryAnswer(status=_UNAVAILABLE)  # it is not loaded yet

    def answer_challenge(self, name: str, query: Mapping[str, str]) -> DeliveryAnswer | None:
        """Answer a platform that tries the address to which it is to deliver.

        Args:
            name: Of the channel.
            query: The parameters of the request.

        Returns:
            None where no channel of this name is tried so.
        """
        if self._webhook(name) is None:
            return None
        adapter: object = self._open[name].adapter
        if adapter is None:
            return DeliveryAnswer(status=_UNAVAILABLE)  # it is not loaded yet
        return adapter.answer_challenge(query) if isinstance(adapter, _AnswersChallenges) else None

    def _webhook(self, name: str) -> ChannelConfig | None:
        """Return the channel of this name, if its platform delivers to it."""
        channel = self._open.get(name)
        if channel is None:
            return None
        config = channel.config
        return config if config.plugin.webhook_secret(config.options) else None

    async def run(
        self,
        service: TurnService,
        answers: AgentAnswers,
        environment: ChannelEnvironment,
    ) -> NoReturn:
        """Receive and answer on all channels, until cancelled.

        Args:
            service: The entry point to the conversations.
            answers: What people are told of agents.
            environment: What runs each of them, and says which of them another gateway receives on.
        """
        context = make_channel_context(
            lambda: self.config, service, answers, self.pairing, self.clock
        )
        loading = anyio.Lock()
        async with anyio.create_task_group() as runners:
            for name, channel in self._open.items():
                life = partial(channel.run, context, loading, environment)
                environment.supervisor.start(runners, f"channel:{name}", life)
            await anyio.sleep_forever()
        msg = "channels run until they are cancelled"
        raise AssertionError(msg)


def no_channels(config: Config, keyed: KeyedStore, clock: Clock) -> Channels:
    """Return the channels of a gateway that is open for a moment only: none is logged in."""
    later: dict[str, DeliveryPort] = {
        channel.name: LaterDeliveryPort() for channel in config.channels
    }
    return Channels(
        config=config,
        pairing=Pairing(keyed, clock),
        clock=clock,
        started_at=clock.now(),
        delivery_ports=later,
    )


async def make_channels(
    config: Config, keyed: KeyedStore, clock: Clock, secrets: SecretRegistry
) -> Channels:
    """Return the channels of a configuration; none of them is loaded or runs yet.

    Args:
        config: Names them.
        keyed: Where it is kept how far they have read, and who is paired.
        clock: The time.
        secrets: What no status may show.

    Raises:
        GatewayError: The library of a platform is not installed.
    """
    if not config.channels:
        return no_channels(config, keyed, clock)
    make = await to_thread.run_sync(_maker, config.channels)
    found = {channel.name: make(channel, keyed, clock, secrets) for channel in config.channels}
    for channel in found.values():
        with suppress(SetupError):  # the channel says so itself when it begins
            await channel.open_aliases()
    return Channels(
        config=config,
        pairing=Pairing(keyed, clock),
        clock=clock,
        started_at=clock.now(),
        delivery_ports=found,
        mask=secrets.mask,
        _open=found,
    )


def _maker(
    channels: Sequence[ChannelConfig],
) -> Callable[[ChannelConfig, KeyedStore, Clock, SecretRegistry], _Channel]:
    """Return what makes one of `channels`.

    Raises:
        GatewayError: The library of a platform is not installed.
    """
    check_installed(channels)
    return bots.BotChannel  # a tenth of the time of a start
