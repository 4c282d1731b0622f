"""Slash commands and buttons: registered, acknowledged in time, answered to one person only."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import discord
from discord.http import Route
from msgspec.structs import replace

from everturn_channels.adapter import ButtonClick, ChatRef, Command
from everturn_channels.command_registry import CommandSpec, command_named
from everturn_channels.discord.client import Client
from everturn_channels.discord.failures import NETWORK_ERRORS
from everturn_channels.discord.mapping import UNREADABLE, chat_ref_of, person_of
from everturn_channels.discord.sender import NO_EMBEDS, NO_PINGS, Sender
from everturn_channels.errors import SendError
from everturn_channels.languages import Language, ready, said, speaking

EPHEMERAL = 1 << 6
"A message that only one person sees."
_DEFERRED, _DEFERRED_UPDATE = 5, 6
_SLASH, _STRING = 1, 3
_SUGGESTED, _SUGGESTIONS_MOST, _CHOICE_CHARACTERS = 8, 25, 100


_ALREADY = 40060

log = logging.getLogger(__name__)

Give: TypeAlias = Callable[[Command | ButtonClick, Callable[[], Awaitable[None]]], bool]
"Takes an event, and what is to be done when it was dealt with; says whether there was room."

Suggest: TypeAlias = Callable[[Command], Awaitable[Sequence[str]]]
"Says how a command that is still being typed may go on."


_LOCALES: Final[Mapping[Language, tuple[str, ...]]] = {
    "de": ("de",),
    "es": ("es-ES", "es-419"),
    "fr": ("fr",),
    "zh": ("zh-CN",),
}
"""What Discord calls our languages.

Source: https://docs.discord.com/developers/reference#locales, read 2026-11-26."""
_TEXT_CHARACTERS = 100


async def command_list(menu: Sequence[CommandSpec]) -> list[dict[str, object]]:
    """Return the commands as Discord wants them, for servers and direct messages.

    Source: https://docs.discord.com/developers/interactions/application-commands, 2026-11.
    """
    for language in _LOCALES:
        await ready(language)
    return [
        {
            "name": each.name,
            **_described(each.what),
            "type": _SLASH,
            "options": [
                {
                    "type": _STRING,
                    "name": argument.name,
                    **_described(argument.what),
                    "required": argument.is_needed,
                    "autocomplete": argument.is_suggested,
                }
                for argument in each.arguments
            ],
            "contexts": [0, 1],
            "integration_types": [0],
        }
        for each in menu
    ]


def _described(text: str) -> dict[str, object]:
    """Return a description in English, and in the languages in which there is one."""
    found: dict[str, str] = {}
    for language, locales in _LOCALES.items():
        with speaking(language):
            translated = said(text)
        if translated != text:
            found |= dict.fromkeys(locales, translated[:_TEXT_CHARACTERS])
    described: dict[str, object] = {"description": text[:_TEXT_CHARACTERS]}
    return {**described, "description_localizations": found} if found else described


async def register_commands(client: Client, menu: Sequence[CommandSpec]) -> None:
    """Tell Discord our commands, if it has others. A bot works without them."""
    assert client.application_id is not None
    wanted = await command_list(menu)
    try:
        known = await _known_commands(client, client.application_id)
        # A bot may register only so often a day.
        if [_essence(c) for c in known] != [_essence(c) for c in wanted]:
            payload: Any = wanted
            await client.http.bulk_upsert_global_commands(client.application_id, payload)
            log.info("slash commands registered", extra={"count": len(wanted)})
    except (discord.DiscordException, *NETWORK_ERRORS) as error:
        reason = type(error).__name__
        log.warning("slash commands could not be registered", extra={"reason": reason})


async def _known_commands(client: Client, application_id: int) -> list[dict[str, Any]]:
    """Return the commands that Discord has, with their texts in all languages."""
    route = Route(
        "GET",
        "/applications/{application_id}/commands?with_localizations=true",
        application_id=application_id,
    )
    known: list[dict[str, Any]] = await client.http.request(route)
    return known


def _essence(command: dict[str, Any]) -> tuple[object, ...]:
    """Return what we care about: Discord adds fields, and leaves out what is empty."""
    options = [
        (*_texts(o), o["type"], o.get("required", False), o.get("autocomplete", False))
        for o in command.get("options") or ()
    ]
    contexts = sorted(command.get("contexts") or ())
    return *_texts(command), options, contexts


def _texts(part: dict[str, Any]) -> tuple[object, ...]:
    """Return the name of a command or option, and its descriptions."""
    return part["name"], part["description"], part.get("description_localizations") or {}


class Interactions:
    """Acknowledges and answers interactions."""

    def __init__(self, sender: Sender, render: Callable[[str], tuple[str, ...]]) -> None:
        self._sender, self._render = sender, render

    async def deal(self, interaction: discord.Interaction, give: Give, suggest: Suggest) -> None:
        """Acknowledge a command or a click, and hand it on; or suggest how a command goes on."""
        answers = _CommandAnswers(interaction, self._sender, self._render)
        try:
            if interaction.type is discord.InteractionType.application_command:
                event: Command | ButtonClick = read_command(interaction, answers.answer)
            elif interaction.type is discord.InteractionType.component:
                event = self._click(interaction)
            elif interaction.type is discord.InteractionType.autocomplete:
                found = await suggest(read_command(interaction, answers.answer))
                choices = [
                    {"name": each, "value": each}
                    for each in found
                    if len(each) <= _CHOICE_CHARACTERS
                ]
                data = {"choices": choices[:_SUGGESTIONS_MOST]}
                await self._acknowledge(interaction, {"type": _SUGGESTED, "data": data})
                return
            else:
                return
        except UNREADABLE:
            log.exception("an interaction cannot be read and is left out")
            return
        if isinstance(event, ButtonClick):
            # Within three seconds, or Discord tells its user that it failed.
            if await self._acknowledge(interaction, {"type": _DEFERRED_UPDATE}):
                give(event, _nothing_more)
            return
        deferred = {"type": _DEFERRED, "data": {"flags": EPHEMERAL}}
        if await self._acknowledge(interaction, deferred) and not give(event, answers.finish):
            await answers.finish()  # nobody takes it: the waiting sign must not stay

    def _click(self, interaction: discord.Interaction) -> ButtonClick:
        """Return a click in the conversation of its message; raises `UNREADABLE`."""
        click = read_click(interaction, self._answering(interaction))
        message, chat = interaction.message, click.chat
        topic = chat.topic or (self._sender.topics.get(str(message.id), "") if message else "")
        return replace(click, chat=replace(chat, topic=topic))

    def _answering(self, interaction: discord.Interaction) -> Callable[[str], Awaitable[None]]:
        async def answer(text: str) -> None:
            for payload in self._render(text):
                await self._sender.post("POST", _webhook(interaction), _only_for_one(payload))

        return answer

    async def _acknowledge(self, interaction: discord.Interaction, body: dict[str, Any]) -> bool:
        path = f"/interactions/{interaction.id}/{interaction.token}/callback"
        try:
            await self._sender.post("POST", path, body)
        except SendError as error:
            if getattr(error.__cause__, "code", 0) == _ALREADY:
                return True  # the answer to the first try was lost
            log.warning("an interaction could not be acknowledged", extra={"reason": str(error)})
            return False
        return True


def read_command(
    interaction: discord.Interaction, answer: Callable[[str], Awaitable[None]]
) -> Command:
    """Return a slash command as the value of a channel; raises `UNREADABLE`."""
    data: Any = interaction.data
    options = [o for o in data.get("options") or () if "value" in o]
    options = [o for o in options if o.get("focused")] or options  # the one that is being typed
    # A person may fill them in in any order.
    found = command_named(_text(data["name"]), "private")
    places = [each.name for each in found.arguments] if found is not None else []
    options.sort(key=lambda o: places.index(o["name"]) if o["name"] in places else 0)
    given = [str(o["value"]) for o in options]
    return Command(
        id=str(interaction.id),
        name=_text(data["name"]),
        argument=" ".join(given),
        chat=_chat(interaction),
        sender=person_of(interaction.user, interaction.locale.value),
        at=interaction.created_at,
        is_addressed=True,
        is_typed=True,  # nobody but who is named gives one
        answer=answer,
    )


def read_click(
    interaction: discord.Interaction, answer: Callable[[str], Awaitable[None]]
) -> ButtonClick:
    """Return the click of a button as the value of a channel; raises `UNREADABLE`."""
    data: Any = interaction.data
    return ButtonClick(
        data=_text(data["custom_id"]),
        chat=_chat(interaction),
        sender=person_of(interaction.user, interaction.locale.value),
        at=interaction.created_at,
        answer=answer,
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    msg = f"{type(value).__name__} where a text belongs"
    raise TypeError(msg)


async def _nothing_more() -> None:
    pass


class _CommandAnswers:
    """The answers to one slash command: the first takes the place of the waiting sign."""

    def __init__(
        self,
        interaction: discord.Interaction,
        sender: Sender,
        render: Callable[[str], tuple[str, ...]],
    ) -> None:
        self._interaction, self._sender, self._render = interaction, sender, render
        self._is_waiting = True

    async def answer(self, text: str) -> None:
        webhook = _webhook(self._interaction)
        for payload in self._render(text):
            body = _only_for_one(payload)
            if self._is_waiting:
                # The first answer takes the place of the waiting sign.
                await self._sender.post("PATCH", f"{webhook}/messages/@original", body)
                self._is_waiting = False
            else:
                await self._sender.post("POST", webhook, body)

    async def finish(self) -> None:
        """Take the waiting sign away where nothing was answered."""
        if not self._is_waiting:
            return
        self._is_waiting = False
        try:
            path = f"{_webhook(self._interaction)}/messages/@original"
            await self._sender.post("DELETE", path)
        except SendError as error:
            log.warning("a waiting sign could not be taken away", extra={"reason": str(error)})


def _webhook(interaction: discord.Interaction) -> str:
    return f"/webhooks/{interaction.application_id}/{interaction.token}"


def _only_for_one(payload: str) -> dict[str, object]:
    content = json.loads(payload)["content"]
    flags = EPHEMERAL | NO_EMBEDS
    return {"content": content, "flags": flags, "allowed_mentions": NO_PINGS}


def _chat(interaction: discord.Interaction) -> ChatRef:
    if interaction.channel is not None:
        return chat_ref_of(interaction.channel, interaction.user.display_name)
    is_dm = interaction.guild_id is None  # a channel that the bot cannot see
    return ChatRef(id=str(interaction.channel_id), type="dm" if is_dm else "group")
