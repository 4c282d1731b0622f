"""What may stand where a person types: commands, and files and sessions behind them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from everturn_actors.errors import CoreError
from everturn_channels.errors import ChannelError
from everturn_channels.names import one_line
from everturn_channels.terminal.slash import COMMANDS

Source: TypeAlias = Callable[[], Awaitable[Sequence[tuple[str, str]]]]
"Gives what may stand behind a command, each with a word on what it is."

_SHOWN_MAX: Final = 50


class ChatCompleter(Completer):
    """Completes the first word of a command, and what stands behind it."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        """Prepare.

        Args:
            sources: By command, what may stand behind it. Asked when somebody types there.
        """
        self._sources = sources
        self._paths = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Return nothing: a prompt asks for the asynchronous ones."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        """Yield what may stand at the cursor."""
        typed = document.text_before_cursor
        if not typed.startswith("/") or "\n" in typed:
            return
        word, blank, rest = typed[1:].partition(" ")
        if not blank:
            for each in COMMANDS:
                if each.name.startswith(word.lower()):
                    text = f"/{each.name}"
                    yield Completion(text, start_position=-len(typed), display_meta=each.what)
        elif word == "attach":
            for path in self._paths.get_completions(Document(rest, len(rest)), complete_event):
                yield path
        elif (source := self._sources.get(word)) is not None:
            try:
                offered = await source()
            except (CoreError, ChannelError):
                return  # what cannot be asked for is typed out
            wanted = rest.casefold()
            fitting = [(text, what) for text, what in offered if _fits(wanted, text, what)]
            for text, what in fitting[:_SHOWN_MAX]:
                meta = one_line(what)
                yield Completion(text, start_position=-len(rest), display_meta=meta)


def _fits(wanted: str, text: str, what: str) -> bool:
    return wanted in text.casefold() or wanted in what.casefold()
