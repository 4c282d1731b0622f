"""One channel of a gateway: its bot is loaded, kept running, and delivers."""

from __future__ import annotations

import logging
import random
from functools import partial
from typing import Final, NoReturn

import anyio
from msgspec import Struct

from everturn_actors.cluster.placement import channel_seat
from everturn_actors.delivery.port import Outgoing
from everturn_actors.faults import first_cause
from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.supervisor import Supervisor
from everturn_channels.adapter import Adapter
from everturn_channels.channel_context import ChannelContext
from everturn_channels.chats.aliases import ChatAliases, open_aliases
from everturn_channels.chats.chat_languages import ChatLanguages
from everturn_channels.chats.chat_types import ChatTypes
from everturn_channels.chats.cursors import open_cursors
from everturn_channels.chats.moved_chats import MovingAdapter
from everturn_channels.delivery import Deliverer
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.errors import SetupError
from everturn_channels.health import ChannelStatus, Health, mask_token
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.runner import SETUP_RETRY_S, run_channel, stand_by
from everturn_gateway.channels.adapters import chat_type_of, make_adapter
from everturn_gateway.channels.seats import ChannelEnvironment
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.errors import GatewayError
from everturn_gateway.logs import SecretRegistry

logger = logging.getLogger(__name__)

_LOADING_LOOK_S: Final = 0.2
"How often a delivery looks whether the gateway stops, while its bot is loaded."


class _Bot(Struct, frozen=True, kw_only=True):
    """A channel whose library is loaded."""

    inner: Adapter
    "The bot on its platform."
    adapter: Adapter
    "The same, for chats by the ids that they are known by here."
    aliases: ChatAliases
    health: Health
    chat_types: ChatTypes
    languages: ChatLanguages
    limiter: RateLimiter
    "Of all that it says: where its platform asks it to be quiet, all of it is."
    deliverer: Deliverer


class BotChannel:
    """One channel. Implements `DeliveryPort`, also before its bot is there.

    The library of a platform takes seconds to load, and nothing else of the gateway waits for it.
    """

    def __init__(
        self, config: ChannelConfig, keyed: KeyedStore, clock: Clock, secrets: SecretRegistry
    ) -> None:
        self._config, self._keyed = config, keyed
        self._clock, self._secrets = clock, secrets
        self._since = clock.now()
        self._bot: _Bot | None = None
        self._aliases: ChatAliases | None = None
        self._loaded = anyio.Event()
        self._error = ""
        "Why the bot could not be made."
        self._is_elsewhere = False
        "Whether another gateway has the only process that reaches the platform."

    @property
    def config(self) -> ChannelConfig:
        """How it is set up."""
        return self._config

    @property
    def adapter(self) -> Adapter | None:
        """Its bot; None until it is loaded."""
        return self._bot.inner if self._bot else None

    def status(self) -> ChannelStatus:
        """Return its status."""
        if self._bot is not None:
            return self._bot.health.status()
        return ChannelStatus(
            name=self._config.name,
            platform=self._config.platform,
            state="failed setup"
            if self._error
            else ("standing by" if self._is_elsewhere else "starting"),
            is_healthy=self._is_elsewhere,
            since=self._since,
            error=self._error,
        )

    @property
    def takes_files(self) -> bool:
        """Whether files can be sent there; while the bot is loaded, they can."""
        return self._bot is None or self._bot.deliverer.takes_files

    async def deliver(self, session: Outgoing) -> None:
        """Deliver what the session owes, as soon as the bot is there."""
        while self._bot is None and not session.is_stopping:
            with anyio.move_on_after(_LOADING_LOOK_S):
                await self._loaded.wait()
        if self._bot is not None:
            await self._bot.deliverer.deliver(session)

    async def run(
        self, context: ChannelContext, loading: anyio.Lock, environment: ChannelEnvironment
    ) -> NoReturn:
        """Receive and answer until cancelled; what goes wrong at the start is tried again.

        Args:
            context: What stands behind every channel.
            loading: Held while a library is loaded; two at a time would take as long.
            environment: What runs it, and says whether another gateway receives.

        Raises:
            Exception: A fault of ours; the status says so.
        """
        while True:
            try:
                await self._take_part(context, loading, environment)
            except Exception as error:
                cause = first_cause(error)
                self._note(str(cause) or type(cause).__name__)
                if not isinstance(cause, SetupError | GatewayError):
                    raise
                logger.error(
                    "a channel cannot begin",
                    extra={"channel": self._config.name, "error": str(error)},
                )
            await self._clock.sleep(SETUP_RETRY_S)

    async def _take_part(
        self, context: ChannelContext, loading: anyio.Lock, environment: ChannelEnvironment
    ) -> None:
        """Receive where this gateway does; else send alone, or leave all to the one that does."""
        seat, seats = channel_seat(self._config.name), environment.seats
        serve = partial(self._serve, context, loading, environment)
        if seats is None:
            await serve()
        elif not self._config.plugin.is_shareable:
            await seats.while_held(seat, serve, self._wait)
        elif self._takes_webhooks:  # any gateway takes what is brought
            await serve()
        else:
            bot = await self._loaded_bot(context, loading)
            receive = partial(self._receive, bot, context, environment.supervisor)
            sends = partial(stand_by, bot.adapter, bot.health, self._clock)
            await seats.while_held(seat, receive, sends)

    async def _serve(
        self, context: ChannelContext, loading: anyio.Lock, environment: ChannelEnvironment
    ) -> NoReturn:
        await self._receive(
            await self._loaded_bot(context, loading), context, environment.supervisor
        )

    async def _wait(self) -> None:
        """Leave the platform to the gateway that reaches it; its sessions are there as well."""
        self._is_elsewhere = True
        if self._bot is not None:
            self._bot.health.standing_by()
        try:
            await anyio.sleep_forever()
        finally:
            self._is_elsewhere = False

    async def _loaded_bot(self, context: ChannelContext, loading: anyio.Lock) -> _Bot:
        async with loading:
            return self._bot or await self._load(
                await self.open_aliases(), ChatLanguages(context.language)
            )

    @property
    def _takes_webhooks(self) -> bool:
        return bool(self._config.plugin.webhook_secret(self._config.options))

    async def _receive(
        self, bot: _Bot, context: ChannelContext, supervisor: Supervisor
    ) -> NoReturn:
        """Receive and answer, from where this gateway or another one left off; until cancelled."""
        async with open_cursors(
            self._keyed,
            self._config.name,
            self._clock,
            supervisor=supervisor,
            is_shared=self._takes_webhooks,  # any gateway takes what is brought
        ) as cursors:
            channel = RunningChannel(
                adapter=bot.adapter,
                context=context,
                settings=self._config.settings,
                health=bot.health,
                cursors=cursors,
                chat_types=bot.chat_types,
                languages=bot.languages,
                limiter=bot.limiter,
                aliases=bot.aliases,
            )
            await run_channel(channel)

    async def open_aliases(self) -> ChatAliases:
        """Return which chats have another id; known from the first call that succeeds on.

        Raises:
            SetupError: What was kept of that cannot be read.
        """
        if self._aliases is None:
            self._aliases = await open_aliases(self._keyed, self._config.name)
        return self._aliases

    def first_chat(self, chat: str) -> str:
        """Return the id by which conversations know a chat."""
        return self._aliases.first(chat) if self._aliases is not None else chat

    async def _load(self, aliases: ChatAliases, languages: ChatLanguages) -> _Bot:
        """Make the bot, whose chats may have moved.

        Raises:
            GatewayError: Its platform's library is not installed.
            SetupError: What it was set up with cannot work.
        """
        config, clock, chat_types = self._config, self._clock, ChatTypes()
        inner = await make_adapter(config, clock)
        adapter = MovingAdapter(inner, aliases)
        health = Health(
            config.name,
            config.platform,
            clock,
            adapter.capabilities.idle_s,
            mask=self._secrets.mask,
        )
        limiter = RateLimiter(clock, random.random)
        deliverer = Deliverer(
            adapter,
            settings=config.settings,
            clock=clock,
            chat_type_of=chat_type_of(config.plugin, chat_types),
            tally=health,
            limiter=limiter,
            language_of=languages.of,
        )
        bot = _Bot(
            inner=inner,
            adapter=adapter,
            aliases=aliases,
            health=health,
            chat_types=chat_types,
            languages=languages,
            limiter=limiter,
            deliverer=deliverer,
        )
        self._bot = bot
        self._loaded.set()
        return bot

    def _note(self, error: str) -> None:
        if self._bot is not None:
            self._bot.health.failed(error)
        else:
            self._error, self._since = mask_token(self._secrets.mask(error)), self._clock.now()
