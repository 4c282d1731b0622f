"""Clicks and slash commands: answered to one person only, at the address that came with them.

Source: https://docs.slack.dev/interactivity/handling-user-interaction and
https://docs.slack.dev/interactivity/implementing-slash-commands, read 2026-11-27.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from everturn_actors.ports import Clock
from everturn_channels.adapter import ButtonClick, ChatRef, Command
from everturn_channels.errors import NotSentError
from everturn_channels.ingestion.json_fields import Json, object_of, objects_of, text_of
from everturn_channels.slack.formats import markup
from everturn_channels.slack.formats.text import thread_of
from everturn_channels.slack.names import Names
from everturn_channels.slack.requests import RequestFailedError, SlackApi

ANSWERS_MAX: Final = 5
"So often the address of a click or a command takes something, within half an hour."
_HELP: Final = "help"


class Interactions:
    """Reads clicks and commands for one login."""

    def __init__(self, api: SlackApi, names: Names, clock: Clock) -> None:
        self._api, self._names, self._clock = api, names, clock

    async def clicks(self, payload: Json) -> Sequence[ButtonClick]:
        """Return the clicks of buttons; nothing of what is none of the bot's.

        Raises:
            ValueError: They cannot be read.
        """
        user, channel = text_of(payload, "user", "id"), text_of(payload, "channel", "id")
        data = [
            text_of(each, "value")
            for each in objects_of(payload, "actions")
            if text_of(each, "type") == "button"
        ]
        if not data:
            return ()
        if not user or not channel:
            msg = "a click names no person or no channel"
            raise ValueError(msg)
        sender = await self._names.person(user)
        thread = thread_of(object_of(payload, "message"))
        chat = await self._names.chat(channel, thread, sender)
        answer = self._answer(text_of(payload, "response_url"), chat)
        at = self._clock.now()
        return [
            ButtonClick(data=each, chat=chat, sender=sender, at=at, answer=answer)
            for each in data
            if each
        ]

    async def command(self, payload: Json, key: str) -> Sequence[Command]:
        """Return a slash command; `key` tells it from all others.

        Raises:
            ValueError: It cannot be read.
        """
        user, channel = text_of(payload, "user_id"), text_of(payload, "channel_id")
        if not user or not channel:
            msg = "a command names no person or no channel"
            raise ValueError(msg)
        name, _, argument = text_of(payload, "text").strip().partition(" ")
        sender = await self._names.person(user)
        chat = await self._names.chat(channel, "", sender)
        return [
            Command(
                id=text_of(payload, "trigger_id") or key,
                name=name.lstrip("/!").lower() or _HELP,
                argument=argument.strip(),
                chat=chat,
                sender=sender,
                at=self._clock.now(),  # Slack does not say when it was given
                is_addressed=True,
                is_typed=True,  # nobody but who is named gives one
                answer=self._answer(text_of(payload, "response_url"), chat),
            )
        ]

    def _answer(self, address: str, chat: ChatRef) -> Callable[[str], Awaitable[None]]:
        left = ANSWERS_MAX

        async def answer(text: str) -> None:
            nonlocal left
            for payload in markup.render(text):
                if not left:
                    msg = f"Slack takes {ANSWERS_MAX} answers to a command."
                    raise NotSentError(msg)
                left -= 1
                body = markup.fields_of(payload)
                body |= {"response_type": "ephemeral", "replace_original": False}
                if chat.topic:
                    body["thread_ts"] = chat.topic
                try:
                    await self._api.answer(address, body)
                except RequestFailedError as error:
                    raise error.to_send_error() from error

        return answer
