"""The language of whoever is spoken to just now, for texts that are made far below.

What is handled for a person, and what is delivered to a chat, is done within `speaking`. It belongs
to the task, and to those that it starts: two chats that are served side by side hear their own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from anyio.to_thread import run_sync

from everturn_channels.languages.texts import ENGLISH, Language, Texts, texts_in

_SPOKEN: Final[ContextVar[Texts]] = ContextVar("spoken", default=ENGLISH)

_READ: Final = set[Language]()


@contextmanager
def speaking(language: Language) -> Generator[None]:
    """Have the texts that are made within the block in a language.

    The first time, their file is read: on an event loop wait until they are `ready`.
    """
    token = _SPOKEN.set(texts_in(language))
    try:
        yield
    finally:
        _SPOKEN.reset(token)


async def ready(language: Language) -> Language:
    """Return a language whose texts are read, so that `speaking` it waits for no disk."""
    if language != "en" and language not in _READ:
        await run_sync(texts_in, language)
        _READ.add(language)
    return language


class _Spoken:
    """Looks texts up as `Texts` does, in the language of the block that runs."""

    def __call__(self, text: str, /, **values: str | int) -> str:
        """Return a text with its values. See `Texts`."""
        return _SPOKEN.get()(text, **values)

    def plural(self, one: str, other: str, count: int, /, **values: str | int) -> str:
        """Return a text that depends on a number. See `Texts.plural`."""
        return _SPOKEN.get().plural(one, other, count, **values)


t: Final = _Spoken()
"A text for whoever is spoken to: `t('Stopped.')`."


def marked(text: str) -> str:
    """Return a text as it stands; it is looked up where it is said.

    For what is fixed before anybody is spoken to.
    """
    return text


def said(text: str) -> str:
    """Return a `marked` text in the language that is spoken; any other stays as it is."""
    return _SPOKEN.get()(text)
