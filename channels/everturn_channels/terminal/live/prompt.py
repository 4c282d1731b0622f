"""The one prompt of a chat: it stays while answers run, and everything else appears above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec import Struct
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

PROMPT: Final = "you> "
LINES_WAITING_MAX: Final = 100  # that were typed and are not obeyed yet
GRACE_S: Final = 0.5  # a key that was on its way when a question appeared is no answer
_ROWS_KEPT: Final = 4  # of the terminal, for the prompt and the line below it
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse dim", "question": "bold"})


class Asked(Struct, frozen=True, kw_only=True):
    """A question that is answered with one key, at an empty prompt."""

    text: str
    keys: str
    "The keys that answer it."
    since_s: float
    "When it appeared, by the clock of the loop."


class PromptHost(Protocol):
    """What stands around the prompt, and what keys do."""

    def above(self, columns: int, rows: int) -> str:
        """Return what still changes, in at most so many lines; without the last line end."""
        ...

    def below(self, columns: int) -> str:
        """Return the line below the prompt."""
        ...

    def asked(self) -> Asked | None:
        """Return the question that a key answers now."""
        ...

    def answer(self, key: str) -> None:
        """Take the key that answers it."""
        ...

    def interrupt(self) -> bool:
        """Take a Ctrl-C at an empty prompt; return whether it leaves."""
        ...

    def fold(self) -> None:
        """Show calls whole, or folded again."""
        ...


class LivePrompt:
    """Reads what is typed, message by message, while the chat goes on above it."""

    def __init__(
        self, host: PromptHost, *, history: History, completer: Completer, colour: bool
    ) -> None:
        """Prepare.

        Args:
            host: What stands around it.
            history: What was typed before.
            completer: What may stand where something is typed.
            colour: Whether the terminal has colours, and its person wants them.
        """
        self._host = host
        self._send, self.typed = anyio.create_memory_object_stream[str](LINES_WAITING_MAX)
        is_command = Condition(lambda: self._session.default_buffer.text.startswith("/"))
        self._session: PromptSession[None] = PromptSession(
            message=self._message,
            history=history,
            multiline=True,
            key_bindings=self._bindings(),
            completer=completer,
            complete_while_typing=is_command,
            complete_style=CompleteStyle.COLUMN,
            prompt_continuation=" " * len(PROMPT),
            bottom_toolbar=self._toolbar,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            style=_STYLE,
            enable_suspend=True,  # Ctrl-Z, as in any program of a shell
            erase_when_done=True,  # what is drawn around it is written for good behind it
        )

    typed: MemoryObjectReceiveStream[str]
    "What was typed and sent, in order."

    async def run(self) -> bool:
        """Show the prompt until the person leaves; return whether the terminal was lost."""
        try:
            await self._session.prompt_async(handle_sigint=False)
        except (EOFError, KeyboardInterrupt):
            return False
        except OSError:  # its window was closed
            return True
        finally:
            self._send.close()
        return False

    def leave(self) -> None:
        """End `run`."""
        if self._session.app.is_running:
            self._session.app.exit(exception=EOFError())

    def interrupt(self) -> None:
        """Do what Ctrl-C does: a signal came instead of the key."""
        buffer = self._session.default_buffer
        if buffer.text:
            buffer.reset()
        elif self._host.interrupt():
            self.leave()

    @property
    def columns(self) -> int:
        """How wide the terminal is now."""
        return self._session.app.output.get_size().columns

    def write(self, text: str) -> None:
        """Write whole lines while there is no prompt."""
        output = self._session.app.output
        with suppress(OSError):  # the terminal is lost
            output.write_raw(text.replace("\n", "\r\n"))
            output.flush()

    async def write_above(self, text: str, done: Callable[[], None]) -> None:
        """Write whole lines above the prompt; call `done` before the prompt is drawn again.

        Raises:
            OSError: The terminal is lost.
        """
        output = self._session.app.output

        def put() -> None:
            output.write_raw(text.replace("\n", "\r\n"))
            output.flush()
            done()

        await run_in_terminal(put)

    def redraw(self) -> None:
        """Draw what stands around the prompt anew."""
        self._session.app.invalidate()

    def _message(self) -> StyleAndTextTuples:
        size = self._session.app.output.get_size()
        typed = self._session.default_buffer.document.line_count
        rows = max(size.rows - _ROWS_KEPT - typed, 1)
        lines: StyleAndTextTuples = []
        if above := self._host.above(size.columns, rows):
            lines += [*to_formatted_text(ANSI(above)), ("", "\n")]
        if (asked := self._host.asked()) is not None:
            lines += [("class:question", f"{asked.text}\n")]
        return [*lines, ("", PROMPT)]

    def _toolbar(self) -> StyleAndTextTuples:
        columns = self._session.app.output.get_size().columns
        return [("", self._host.below(columns))]

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            text = buffer.text
            if not text.strip():
                buffer.reset()
                return
            try:
                self._send.send_nowait(text)
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                event.app.output.bell()  # what is typed stays where it is
                return
            buffer.append_to_history()
            buffer.reset()

        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        def interrupt(_event: KeyPressEvent) -> None:
            self.interrupt()

        def fold(_event: KeyPressEvent) -> None:
            self._host.fold()

        bindings.add("enter")(send)
        bindings.add("escape", "enter")(new_line)
        bindings.add("c-c")(interrupt)
        bindings.add("c-o")(fold)
        for key in ANSWER_KEYS:
            self._bind_answer(bindings, key)
        return bindings

    def _bind_answer(self, bindings: KeyBindings, key: str) -> None:
        def is_answer() -> bool:
            asked = self._host.asked()
            return (
                asked is not None
                and key in asked.keys
                and not self._session.default_buffer.text
                and anyio.current_time() >= asked.since_s + GRACE_S
            )

        def answer(_event: KeyPressEvent) -> None:
            self._host.answer(key)

        bindings.add(key, filter=Condition(is_answer))(answer)


ANSWER_KEYS: Final[Sequence[str]] = tuple("yan123456789")
