"""How people and channels are called: each asked for once, and then kept."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from everturn_channels.adapter import ChatRef, Person
from everturn_channels.ingestion.json_fields import Json, object_of, text_of
from everturn_channels.names import one_line
from everturn_channels.slack.requests import RequestFailedError, SlackApi

logger = logging.getLogger(__name__)

KEPT_MAX: Final = 5_000  # people and channels; the one that was asked for longest ago goes
MENTIONED_MAX: Final = 20  # of one message; others stand under their ids


def is_dm(channel: str) -> bool:
    """Whether a channel is one with a single person: the ids of these begin with a D."""
    return channel.startswith("D")


class Names:
    """The names that one login was told."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._kept: OrderedDict[str, Person] = OrderedDict()
        "People, and channels as if they were some."

    def note(self, conversation: Json) -> None:
        """Keep the name of a channel."""
        if name := text_of(conversation, "name"):
            channel = text_of(conversation, "id")
            self._keep(Person(id=channel, name=f"#{one_line(name)}"))

    async def person(self, user: str) -> Person:
        """Return somebody; under their id where Slack does not tell their name now."""
        if user not in self._kept:
            asked = {"user": user, "include_locale": True}
            found = await self._ask("users.info", asked)
            if found is None:
                return Person(id=user, name=user)
            told = object_of(found, "user")
            paths = (("profile", "display_name"), ("profile", "real_name"), ("name",))
            names = (one_line(text_of(told, *path)) for path in paths)
            name = next(filter(None, names), user)
            is_bot = told.get("is_bot") is True  # it writes nothing that is read, but may react
            language = text_of(told, "locale")
            self._keep(Person(id=user, name=name, is_bot=is_bot, language=language))
        self._kept.move_to_end(user)
        return self._kept[user]

    async def of(self, users: Sequence[str]) -> Mapping[str, str]:
        """Return the names of people, by their ids; of the first of them."""
        few = list(dict.fromkeys(users))[:MENTIONED_MAX]
        return {user: (await self.person(user)).name for user in few}

    async def chat(self, channel: str, topic: str, person: Person) -> ChatRef:
        """Return where somebody said something; a chat with one person is called by their name."""
        if is_dm(channel):
            return ChatRef(id=channel, type="dm", topic=topic, title=person.name)
        if channel not in self._kept:
            found = await self._ask("conversations.info", {"channel": channel})
            if found is None:
                return ChatRef(id=channel, type="group", topic=topic, title=channel)
            self.note({"id": channel, "name": text_of(found, "channel", "name") or channel})
        self._kept.move_to_end(channel)
        title = self._kept[channel].name
        return ChatRef(id=channel, type="group", topic=topic, title=title)

    async def _ask(self, method: str, fields: Mapping[str, object]) -> Json | None:
        """Return the answer, an empty one where Slack never tells it; None = not now."""
        try:
            return await self._api.call(method, fields)
        except RequestFailedError as error:
            logger.info("a name is not known", extra={"method": method, "why": str(error)})
            return {} if error.is_refusal else None

    def _keep(self, named: Person) -> None:
        self._kept[named.id] = named
        self._kept.move_to_end(named.id)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
