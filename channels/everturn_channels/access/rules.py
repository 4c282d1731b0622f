"""Which agent answers where, and who may talk to it. Closed by default. Pure.

The words are those of the agent format, `spec.access`. What they mean:

*dm, policy.* disabled: nobody is answered, whatever else is set. open: everybody is. allowlist:
those whose sender id is listed or who were paired by the owner; everybody else is offered pairing.

*groups, policy.* disabled, open and allowlist as above, for whole chats. An entry is
`channel:chat_id`, where `channel` is the name of a channel or of its platform. A chat that its
platform gave another id is meant by each of its ids, in routes as well.

*Wildcards.* A `*` at the end of an entry matches the rest; anywhere else it is an ordinary
character. An empty list, and an empty entry, match nothing.

*sender_default, sender_overrides.* What becomes of a group member's messages. allow: answered where
they address the agent. passive: kept, read by the agent with the next message that it answers, as
text that nobody vouches for; never answered. silent: kept in the log and never shown to the agent.
block: not kept. An exact id beats a wildcard, a longer wildcard beats a shorter one.

*activation.* mention: a message is answered that mentions the bot or replies to it. always: every
message is. In a dm every message is meant for the agent.

*context_buffer.* What becomes of messages that were not meant for the agent. silent: the newest are
told of, in one block, when it is next addressed. passive: they are messages of the conversation
like others, without beginning a turn.

Two things go beyond the format. A Telegram channel (chat type `channel`), where posts have no
person as their sender, needs an entry of its own in the allow list, also where the policy is open.
And another bot is answered only where it is named, in `dm.allowlist` or `groups.sender_overrides`:
two bots that answer each other never stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_channels.adapter import ChatRef, Person
from everturn_channels.settings import (
    AccessRules,
    BufferRules,
    Disposition,
    GroupRules,
    QueueRules,
    Route,
)

Action: TypeAlias = Literal["answer", "ambient", "record", "ignore", "refuse", "pair"]
"""What becomes of a message.

answer: it is for the agent. ambient: it is kept, and the agent reads it later. record: it is kept,
and the agent never sees it. ignore: it is not kept, and nobody is told. refuse: the agent takes no
part here. pair: its sender is not known in a dm, and can be.
"""

LetIn: TypeAlias = Literal["person", "group"]
"Whom an owner let in: somebody by pairing, or a group by `/allow` in it."

_DM = "spec.access.dm"
_GROUPS = "spec.access.groups"


class AccessDecision(Struct, frozen=True, kw_only=True):
    """What becomes of one message."""

    action: Action
    queue: QueueRules = field(default_factory=QueueRules)
    "answer: how it waits."
    untrusted: bool = False
    "Whether nobody vouches for its text: its sender is passive."
    buffer: BufferRules = field(default_factory=BufferRules)
    "ambient: how it is kept."
    reason: str = ""
    "For the log: what decided, and for refuse and pair which setting would change it."

    @property
    def shown(self) -> Literal["message", "note", "never"]:
        """Of what is not answered: what the next turn is told of it, see `AmbientRules`."""
        if self.action != "ambient":
            return "never"
        return "message" if self.buffer.mode == "passive" else "note"


def find_route(
    routes: Iterable[Route], *, channel: str, platform: str, chat: ChatRef, sender: Person
) -> Route | None:
    """Return the first route that matches; None where none does.

    All that a route names has to be equal; `Route.channel` may be the channel or its platform.
    """
    for route in routes:
        wanted = (
            (route.channel, (channel, platform)),
            (route.chat_type, (chat.type,)),
            (route.chat_id, (chat.id, *chat.aliases)),
            (route.topic, (chat.topic,)),
            (route.sender_id, (sender.id,)),
        )
        if all(not name or name in found for name, found in wanted):
            return route
    return None


def evaluate(
    rules: AccessRules,
    *,
    places: tuple[str, str],
    chat: ChatRef,
    sender: Person,
    is_addressed: bool,
    let_in: LetIn | None,
) -> AccessDecision:
    """Say what becomes of a message.

    `places` are the channel's name and its platform's: an entry of an allowlist may begin with
    either. `let_in` is whom an owner let in beside the rules: this person, which counts in a dm
    alone, or this group.
    """
    match str(chat.type):  # a plug-in may send any word
        case "dm":
            return _evaluate_dm(rules, sender, is_paired=let_in == "person")
        case "group" | "channel":
            ids = (chat.id, *chat.aliases)
            names = (f"{prefix}:{chat_id}" for chat_id in ids for prefix in places)
            keys = tuple(dict.fromkeys(names))
            if let_in == "group" and rules.groups.policy != "disabled":
                listed = (*rules.groups.allowlist, *keys)
                rules = replace(rules, groups=replace(rules.groups, allowlist=listed))
            return _evaluate_group(rules.groups, keys, chat, sender, is_addressed=is_addressed)
        case other:
            return AccessDecision(action="refuse", reason=f"the chat type {other!r} is not known")


def _evaluate_dm(rules: AccessRules, sender: Person, *, is_paired: bool) -> AccessDecision:
    """Say what becomes of a message in private."""
    dm = rules.dm
    if dm.policy == "disabled":
        return AccessDecision(
            action="refuse", reason=f"{_DM}.policy is disabled: nobody is admitted"
        )
    # Before bots are looked at: an owner who names one wants it.
    if any(_matches(entry, sender.id) for entry in dm.allowlist):
        return AccessDecision(action="answer", queue=dm.queue, reason=f"listed in {_DM}.allowlist")
    if sender.is_bot:
        why = f"{sender.id!r} is a bot and not in {_DM}.allowlist"
        return AccessDecision(action="refuse", reason=why)
    match dm.policy:
        case "open":
            return AccessDecision(action="answer", queue=dm.queue, reason=f"{_DM}.policy is open")
        case "allowlist":
            # Also where the list is empty: an owner let in this person by hand.
            if is_paired:
                return AccessDecision(action="answer", queue=dm.queue, reason="paired")
            return AccessDecision(
                # Without an id nobody can be let in: the next stranger would have the same one.
                action="pair" if sender.id else "refuse",
                reason=f"{_DM}.allowlist is empty: nobody is admitted"
                if not dm.allowlist
                else f"{_DM}.allowlist has no entry for {sender.id!r}",
            )
        case _:
            assert_never(dm.policy)


def _evaluate_group(
    rules: GroupRules, keys: Sequence[str], chat: ChatRef, sender: Person, *, is_addressed: bool
) -> AccessDecision:
    """Say what becomes of a message in a group or a channel: first the chat, then its sender."""
    closed = _why_closed(rules, keys, chat)
    if closed:
        return AccessDecision(action="refuse", reason=closed)
    disposition, entry = _disposition(rules, sender.id)
    named = f"{_GROUPS}.sender_overrides[{entry!r}]"
    why = f"{_GROUPS}.sender_default is {disposition}"
    if entry is not None:
        why = f"{named} is {disposition}"
    match disposition:
        case "block":
            return AccessDecision(action="ignore", reason=why)
        case "silent":
            return AccessDecision(action="record", reason=why)
        case "passive":
            buffer = rules.context_buffer
            return AccessDecision(action="ambient", untrusted=True, buffer=buffer, reason=why)
        case "allow":
            pass
        case _:
            assert_never(disposition)
    # Two bots that answer each other never stop: it takes a name to let one in.
    if sender.is_bot and entry in {None, "*"}:
        why = f"{sender.id!r} is a bot, and {_GROUPS}.sender_overrides does not name it"
    elif rules.activation == "always" or is_addressed:
        return AccessDecision(action="answer", queue=rules.queue, reason=why)
    else:
        why = f"not addressed, and {_GROUPS}.activation is mention"
    return AccessDecision(action="ambient", buffer=rules.context_buffer, reason=why)


def _why_closed(rules: GroupRules, keys: Sequence[str], chat: ChatRef) -> str:
    """Return why the agent takes no part in a chat; empty where it does."""
    if rules.policy == "disabled":
        return f"{_GROUPS}.policy is disabled: no group is admitted"
    if any(_matches(entry, key) for entry in rules.allowlist for key in keys):
        return ""
    # Open is meant for groups: who lets an agent speak in a channel names it.
    if rules.policy == "open" and chat.type == "group":
        return ""
    if not rules.allowlist:
        return f"{_GROUPS}.allowlist is empty: no {chat.type} is admitted"
    return f"{_GROUPS}.allowlist has no entry for {keys[0]!r}"


def _disposition(rules: GroupRules, sender_id: str) -> tuple[Disposition, str | None]:
    """Return what becomes of a sender's messages, and the override that says so, if one does."""
    best: tuple[Disposition, str] | None = None
    for entry, disposition in rules.sender_overrides:
        # An exact name wins over any pattern, wherever it stands.
        if entry == sender_id:
            return disposition, entry
        is_longer = best is None or len(entry) > len(best[1])
        if is_longer and entry.endswith("*") and _matches(entry, sender_id):
            best = disposition, entry
    return best or (rules.sender_default, None)


def _matches(entry: str, text: str) -> bool:
    if entry.endswith("*"):
        return text.startswith(entry[:-1])
    return bool(entry) and entry == text
