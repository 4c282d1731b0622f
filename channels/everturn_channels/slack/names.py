"""How people and channels are called: each asked for once, and then kept."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from everturn_channels.adapter import ChatRef, Person
from everturn_channels.ingestion.json_fields import Json, text_of
from everturn_channels.slack.requests import RequestFailedError, SlackApi

logger = logging.getLogger(__name__)

KEPT_MAX: Final = 5_000  # people and channels; the one that was asked for longest ago goes


def is_dm(channel: str) -> bool:
    """Whether a channel is one with a single person: the ids of these begin with a D."""
    return channel.startswith("D")


class Names:
    """The names that one login was told."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._kept: OrderedDict[str, str] = OrderedDict()

    def note(self, conversation: Json) -> None:
        """Keep the name of a channel."""
        if name := text_of(conversation, "name"):
            self._keep(text_of(conversation, "id"), f"#{name}")

    async def person(self, user: str) -> Person:
        """Return somebody; under their id where Slack does not tell their name now."""
        return Person(id=user, name=await self._name(user, "users.info"))

    async def of(self, users: Iterable[str]) -> Mapping[str, str]:
        """Return the names of people, by their ids."""
        return {user: await self._name(user, "users.info") for user in dict.fromkeys(users)}

    async def chat(self, channel: str, topic: str, person: Person | None = None) -> ChatRef:
        """Return where something was said; a chat with one person is called by their name."""
        if is_dm(channel):
            title = person.name if person is not None else channel
            return ChatRef(id=channel, type="dm", topic=topic, title=title)
        title = await self._name(channel, "conversations.info")
        return ChatRef(id=channel, type="group", topic=topic, title=title)

    async def _name(self, key: str, method: str) -> str:
        if key not in self._kept:
            fields = {"user": key} if method == "users.info" else {"channel": key}
            try:
                answer = await self._api.read(method, fields)
            except RequestFailedError as error:
                logger.info("a name is not known", extra={"id": key, "why": str(error)})
                if not error.is_refusal:
                    return key
                answer = {}
            self._keep(key, _name_in(answer) or key)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, key: str, name: str) -> None:
        self._kept[key] = name
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


def _name_in(answer: Json) -> str:
    if channel := text_of(answer, "channel", "name"):
        return f"#{channel}"
    paths = (("profile", "display_name"), ("profile", "real_name"), ("real_name",), ("name",))
    return next((name for path in paths if (name := text_of(answer, "user", *path))), "")
