"""Pictures in terminals that show them. Pure.

Source: https://iterm2.com/documentation-images.html and
https://sw.kovidgoyal.net/kitty/graphics-protocol/, read 2026-11-26.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Protocol: TypeAlias = Literal["", "iterm", "kitty"]

IMAGE_BYTES_MAX: Final = 4 * 1024 * 1024  # of a picture that is shown
_CHUNK: Final = 4096  # characters of base64 in one sequence of kitty's
_ROWS: Final = 16  # a picture is at most so high
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def protocol_of(environ: Mapping[str, str]) -> Protocol:
    """Return how the terminal is sent pictures; empty = it shows none, or nobody knows.

    Inside tmux and screen none are sent: they would have to be let through.
    """
    if "TMUX" in environ or environ.get("TERM", "").startswith(("screen", "tmux")):
        return ""
    program = environ.get("TERM_PROGRAM", "")
    if "KITTY_WINDOW_ID" in environ or environ.get("TERM") in {"xterm-kitty", "xterm-ghostty"}:
        return "kitty"
    if program in {"iTerm.app", "WezTerm", "mintty", "rio"}:
        return "iterm"
    return ""


def picture(data: bytes, protocol: Protocol) -> str:
    """Return what makes a terminal show a picture below what it shows; empty = it cannot.

    Only the bytes of the picture, in base64, stand between the terminal's own sequences, so that
    nothing of a picture can be a command.
    """
    if not data or len(data) > IMAGE_BYTES_MAX:
        return ""
    encoded = b64encode(data).decode("ascii")
    match protocol:
        case "iterm":
            how = f"inline=1;size={len(data)};height={_ROWS};preserveAspectRatio=1"
            return f"\x1b]1337;File={how}:{encoded}\x07\n"
        case "kitty" if data.startswith(_PNG):  # of packed pictures it takes this one alone
            chunks = [encoded[at : at + _CHUNK] for at in range(0, len(encoded), _CHUNK)]
            parts: list[str] = []
            for index, chunk in enumerate(chunks):
                head = f"a=T,f=100,q=2,r={_ROWS}," if not index else ""
                more = int(index < len(chunks) - 1)
                parts.append(f"\x1b_G{head}m={more};{chunk}\x1b\\")
            return "".join(parts) + "\n"
        case _:
            return ""
