"""What a call of `background_process` may say, and the keys it may press. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from everturn_gateway.tools.arguments import Arguments

TIMEOUT_S: Final = 1800
_TIMEOUT_MAX_S: Final = 7 * 24 * 3600
_COMMAND_CHARACTERS: Final = 30_000  # as UTF-8 it still fits one argument of a program, 128 KB
_PATH_CHARACTERS: Final = 4_000
_LABEL_CHARACTERS: Final = 100
_KEYS_CHARACTERS: Final = 2_000
_INPUT_CHARACTERS: Final = 100_000
_QUIET_S: Final = 5
_QUIET_MAX_S: Final = 3600
_LINES: Final = 100
_LINES_MAX: Final = 2_000
_LINE_MAX: Final = 10**12

_NAMES: Final = (
    r"(?:Up|Down|Left|Right|Enter|Escape|Tab|BTab|Space|BSpace|Home|End|Insert|IC|Delete|DC"
    r"|PageUp|PgUp|PPage|PageDown|PgDn|NPage|F(?:[1-9]|1[0-2]))"
)
_KEY: Final = re.compile(rf"(?:[CMS]-)*{_NAMES}|(?:[CMS]-)+[A-Za-z0-9]")
"Source: tmux(1), key bindings, 3.3a."
_AFTER_TEXT: Final = re.compile(r"\s+(Enter|Tab|Escape|C-[a-z])$")


# Checked here, not in the schema: it goes out with every request, and not every provider knows all
# of JSON Schema's words.


def _between(least: int, most: int) -> AfterValidator:
    def check(value: int) -> int:
        if not least <= value <= most:
            msg = f"must be from {least} to {most}"
            raise ValueError(msg)
        return value

    return AfterValidator(check)


def _text(characters: int, *, may_be_empty: bool = True) -> AfterValidator:
    def check(value: str) -> str:
        if not value and not may_be_empty:
            msg = "must not be empty"
            raise ValueError(msg)
        if len(value) > characters:
            msg = f"has {len(value)} characters; at most {characters} are accepted"
            raise ValueError(msg)
        if "\0" in value:
            msg = "must not contain NUL characters"
            raise ValueError(msg)
        try:
            value.encode()
        except UnicodeEncodeError:
            msg = "is not valid Unicode text"
            raise ValueError(msg) from None
        return value

    return AfterValidator(check)


class ProcessArguments(Arguments):
    """Arguments of `background_process`; their names are those of Duragent's tool."""

    action: Literal[
        "spawn",
        "list",
        "status",
        "log",
        "write",
        "kill",
        "capture",
        "send_keys",
        "watch",
        "unwatch",
    ]
    command: Annotated[str, _text(_COMMAND_CHARACTERS, may_be_empty=False)] | None = Field(
        default=None, description="spawn: for bash"
    )
    workdir: Annotated[str, _text(_PATH_CHARACTERS)] | None = Field(
        default=None, description="spawn: folder in the workspace"
    )
    wait: bool = Field(default=False, description="spawn: wait for its end, return its output")
    interactive: bool = Field(default=False, description="spawn: in a terminal (tmux)")
    label: Annotated[str, _text(_LABEL_CHARACTERS)] = ""
    timeout_seconds: Annotated[int, _between(1, _TIMEOUT_MAX_S)] = Field(
        default=TIMEOUT_S, description="spawn: killed after; default 1800"
    )
    handle: str | None = Field(default=None, description="all but spawn, list")
    offset: Annotated[int, _between(0, _LINE_MAX)] | None = Field(
        default=None, description="log: first line; default: the newest"
    )
    limit: Annotated[int, _between(1, _LINES_MAX)] = Field(default=_LINES, description="log: lines")
    input: Annotated[str, _text(_INPUT_CHARACTERS)] | None = Field(
        default=None, description="write: with a line end for Enter"
    )
    eof: bool = Field(default=False, description="write: close its input")
    keys: Annotated[str, _text(_KEYS_CHARACTERS, may_be_empty=False)] | None = Field(
        default=None, description="send_keys: key names (C-c, Down Enter) or text"
    )
    press_enter: bool | None = Field(default=None, description="send_keys: default true after text")
    interval_seconds: Annotated[int, _between(1, _QUIET_MAX_S)] = Field(
        default=_QUIET_S, description="watch: a message when its screen stands still so long"
    )


def read_keys(keys: str, *, press_enter: bool | None) -> tuple[str, tuple[str, ...]]:
    """Return a text to type, and the keys to press after it.

    Words that are all names of keys are pressed. Anything else is typed as it stands, up to Enter,
    Tab, Escape and control keys at its end: `ls -l Enter`. After a text Enter is pressed, unless
    the call says no, or names a key there itself.
    """
    words = keys.split()
    if words and all(_KEY.fullmatch(word) for word in words):
        text, pressed = "", words
    else:
        text, pressed = keys, list[str]()
        while found := _AFTER_TEXT.search(text):
            pressed.insert(0, found[1])
            text = text[: found.start()]
    wants_enter = press_enter if press_enter is not None else not pressed
    if wants_enter and pressed[-1:] != ["Enter"]:
        pressed.append("Enter")
    return text, tuple(pressed)
