"""Who is let in: finds the agent for a chat, asks the rules, and tells those who are refused.

It says as little as it can: a stranger learns that the bot is private, a group learns nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from msgspec import Struct

from everturn_actors.errors import CoreError
from everturn_actors.model import ConversationKey
from everturn_channels.access.owners import accounts_on, find_owner
from everturn_channels.access.rules import AccessDecision, LetIn, evaluate, find_route
from everturn_channels.adapter import (
    ButtonClick,
    ChatRef,
    Command,
    Edit,
    InboundEvent,
    Message,
    Person,
    Reaction,
)
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.languages import marked
from everturn_channels.rate_limits import Cooldown, RecentKeys, TokenBuckets
from everturn_channels.texts import no_access, no_private_chats

logger = logging.getLogger(__name__)

LOG_EVERY_S: Final = 3600  # a refusal is logged so often for each chat
REFUSE_EVERY_S: Final = 3600  # and told so often to each person
PAIR_EVERY_S: Final = 600  # how often a person who is not known yet is told anything

NOT_AVAILABLE: Final = marked(
    "I am not available at the moment. My owner finds the reason in the log."
)

DAMAGED: Final = marked(
    "The record of this conversation is damaged, so I cannot go on with it. My owner finds in the "
    "log how to repair it."
)
FAILING: Final = marked(
    "This conversation failed several times, so I take nothing more in it for now. /stop ends what "
    "fails, /reset begins anew. My owner finds the reason in the log."
)
TOO_FAST: Final = marked(
    "You write faster than I can read, so I did not take this. Please slow down."
)
LATER: Final = marked("I cannot do that just now. Please try again in a moment.")
NOBODY: Final = Person(id="")

Notify = Callable[[str], Awaitable[None]]
"Says a line to the person who is judged, soon and if it can be."


class Admission(Struct, frozen=True, kw_only=True):
    """Somebody who is let in, with what becomes of what they say."""

    key: ConversationKey
    decision: AccessDecision


class AccessControl:
    """Decides for one channel who is let in."""

    def __init__(self, channel: RunningChannel) -> None:
        self._adapter, self._context = channel.adapter, channel.context
        self._settings, limits = channel.settings, channel.limits
        self._logged: Cooldown[str] = Cooldown(LOG_EVERY_S)
        self._refused: Cooldown[str] = Cooldown(REFUSE_EVERY_S)
        self._pairing: Cooldown[str] = Cooldown(PAIR_EVERY_S)
        self._absent: Cooldown[str] = Cooldown(REFUSE_EVERY_S)
        self._floods: TokenBuckets[tuple[str, str]] = TokenBuckets(
            limits.flood_messages, limits.flood_s
        )
        self._counted: RecentKeys[tuple[str, str]] = RecentKeys()
        self._flooding: Cooldown[tuple[str, str]] = Cooldown(limits.word_every_s)
        self._slowed: Cooldown[tuple[str, str]] = Cooldown(limits.word_every_s)

    def key_of(self, chat: ChatRef, sender: Person = NOBODY) -> ConversationKey | None:
        """Return the conversation of a chat; None where no agent answers there."""
        route = find_route(
            self._context.routes(),
            channel=self._adapter.name,
            platform=self._adapter.platform,
            chat=chat,
            sender=sender,
        )
        if route is None:
            return None
        return ConversationKey(
            channel=self._adapter.name, chat=chat.id, topic=chat.topic, agent=route.agent
        )

    def agents(self) -> tuple[str, ...]:
        """Return the agents that answer somewhere on this channel, in the order of the routes."""
        names = {"", self._adapter.name, self._adapter.platform}
        found = (route.agent for route in self._context.routes() if route.channel in names)
        return tuple(dict.fromkeys(found))

    async def people(self) -> tuple[str, ...]:
        """Return the ids of those who are let in by name: owners, paired people, and the listed."""
        context, names = self._context, {"", self._adapter.name, self._adapter.platform}
        rules = [context.rules(route.agent) for route in context.routes() if route.channel in names]
        entries = [entry for each in rules if each is not None for entry in each.dm.allowlist]
        listed = [entry for entry in entries if entry and not entry.endswith("*")]
        owners = accounts_on(context.owners(), self._adapter.name)
        paired = await context.pairing.people(self._adapter.name)
        return tuple(dict.fromkeys((*listed, *owners, *paired)))

    async def admit(
        self, chat: ChatRef, sender: Person, *, is_addressed: bool, notify: Notify | None = None
    ) -> Admission | None:
        """Return what becomes of what somebody says; None where they are refused, and were told.

        Args:
            chat: Where it is said.
            sender: By whom.
            is_addressed: Whether it is meant for the bot.
            notify: Says why they are refused; only in a dm, and rarely. None = nobody is told.
        """
        key = self.key_of(chat, sender)
        if key is None:
            self._log(chat, sender, "no route matches: set one under routes in everturn.yaml")
            return None
        rules = self._context.rules(key.agent)
        if rules is None:
            self._log(chat, sender, f"a route names the agent {key.agent!r}, which is not loaded")
            if notify is not None and self._may_notify(chat, sender, self._absent):
                await notify(NOT_AVAILABLE)
            return None
        decision = evaluate(
            rules,
            places=(self._adapter.name, self._adapter.platform),
            chat=chat,
            sender=sender,
            is_addressed=is_addressed,
            let_in=await self._let_in(chat, sender, key.agent),
        )
        match decision.action:
            case "answer" | "ambient" | "record" | "ignore":
                return Admission(key=key, decision=decision)
            case "pair" if self._settings.pairing:
                self._log(chat, sender, f"agent {key.agent}: {decision.reason}")
                await self._pair(chat, sender, notify)
            case "pair" | "refuse":
                self._log(chat, sender, f"agent {key.agent}: {decision.reason}")
                if notify is not None and self._may_notify(chat, sender, self._refused):
                    is_closed = rules.dm.policy == "disabled"  # no list would let them in
                    await notify(
                        no_private_chats() if is_closed else no_access(sender_id=sender.id)
                    )
        return None

    async def takes_part(self, chat: ChatRef, sender: Person) -> bool:
        """Whether an agent answers somebody in a chat who addresses it. Tells nobody."""
        decision = await self._judged(chat, sender)
        return decision is not None and decision.action == "answer"

    async def _judged(self, chat: ChatRef, sender: Person) -> AccessDecision | None:
        """Return what would become of what is said to the bot; None where no agent is there."""
        key = self.key_of(chat, sender)
        rules = self._context.rules(key.agent) if key is not None else None
        if key is None or rules is None:
            return None
        return evaluate(
            rules,
            places=(self._adapter.name, self._adapter.platform),
            chat=chat,
            sender=sender,
            is_addressed=True,
            let_in=await self._let_in(chat, sender, key.agent),
        )

    async def welcomes(self, chat: ChatRef, sender: Person) -> bool:
        """Return whether an invitation is followed; see `InboundHandler.welcomes`.

        An owner's always is: the group may be listed later.
        """
        key, decision = self.key_of(chat, sender), await self._judged(chat, sender)
        if key is None or decision is None:
            return False
        match decision.action:
            case "refuse":
                owner = find_owner(self._context.owners(), self._adapter.name, sender)
                return owner is not None and owner.owns(key.agent)
            case "pair":
                return self._settings.pairing
            case _:
                return decision.action != "ignore"

    async def _let_in(self, chat: ChatRef, sender: Person, agent: str) -> LetIn | None:
        """Return whom an owner let in: this group, or, in private, this person, who may be one."""
        channel, pairing = self._adapter.name, self._context.pairing
        if chat.type != "dm":
            is_allowed = await pairing.is_allowed(channel, (chat.id, *chat.aliases), agent)
            return "group" if is_allowed else None
        owner = find_owner(self._context.owners(), channel, sender)
        is_owner = owner is not None and owner.owns(agent)
        return "person" if is_owner or await pairing.is_paired(channel, sender.id) else None

    def is_flood(self, event: InboundEvent) -> bool:
        """Whether somebody sends more than is taken, by the platform's clock.

        By ours, all that was written while the gateway was away would come in one moment. A time
        to come counts as now: it would shut its sender out until then.
        """
        now = self._context.clock.now()
        who = event.chat.id, event.sender.id
        name = event.chat.id, _counted_as(event)
        if name in self._counted:
            return False  # it could not be taken before, and comes again
        if self._floods.take(who, min(event.at, now)):
            if name[1]:
                self._counted.note(name)
            return False
        if self._flooding.may(who, now):
            logger.warning(
                "somebody sends more than is taken",
                extra={"channel": self._adapter.name, "chat": who[0], "sender": who[1]},
            )
        return True

    def flood_word(self, event: InboundEvent) -> str:
        """Return what somebody is told whose event is a flood; empty = they were told just now."""
        who = event.chat.id, event.sender.id
        return TOO_FAST if self._slowed.may(who, self._context.clock.now()) else ""

    async def _pair(self, chat: ChatRef, sender: Person, notify: Notify | None) -> None:
        if notify is None or not self._may_notify(chat, sender, self._pairing):
            return
        code = await self._context.pairing.ask(self._adapter.name, sender)
        await notify(no_access(code or "", sender_id=sender.id))

    def _may_notify(self, chat: ChatRef, sender: Person, cooldown: Cooldown[str]) -> bool:
        """Whether a refused person is told so now. Two bots must not tell each other for ever."""
        if chat.type != "dm" or sender.is_bot:
            return False
        return cooldown.may(sender.id or chat.id, self._context.clock.now())

    def _log(self, chat: ChatRef, sender: Person, why: str) -> None:
        if self._logged.may(chat.id, self._context.clock.now()):
            logger.warning(
                "somebody was refused",
                extra={
                    "channel": self._adapter.name,
                    "chat": chat.id,
                    "chat_type": chat.type,
                    "sender": sender.id,
                    "why": why,
                },
            )


def _counted_as(event: InboundEvent) -> str:
    """Return what tells an event from others of its chat; empty where nothing does."""
    match event:
        case Message() | Reaction():
            return event.id
        case Edit():  # a message may be changed many times, and each counts
            return f"{event.id} {event.at.isoformat()}"
        case Command():
            return f"/{event.id}"
        case ButtonClick():
            return ""
        case _:
            assert_never(event)


def log_damaged(key: ConversationKey | None, error: CoreError) -> None:
    """Log that a conversation cannot be read; the error names the file and what repairs it."""
    where = {"channel": key.channel, "chat": key.chat, "agent": key.agent} if key else {}
    logger.error("a conversation is damaged", extra={**where, "error": str(error)})
