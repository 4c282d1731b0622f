"""How the tools of MCP servers are called towards the model. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

# What every model API takes as the name of a tool.
NAME_CHARACTERS: Final = 64
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MARK_CHARACTERS: Final = 8


def exposed_names(
    tools: Iterable[tuple[str, str]], *, taken: Collection[str] = ()
) -> dict[tuple[str, str], str]:
    """Return a name for each pair of server and tool: `<server>_<tool>`, made to fit.

    No two get the same one, none gets one of `taken`, and the same tools get the same names in
    whatever order they come. Where two would be called alike, the one that needed no change keeps
    its name (the first of several, by server and tool), and the others get a mark made of what
    they are called.
    """
    used = set(taken)
    names: dict[tuple[str, str], str] = {}
    for exact, server, tool in sorted(
        (not _is_exact(server, tool), server, tool) for server, tool in set(tools)
    ):
        del exact
        name = _plain(server, tool)
        tries = 0
        while name in used:
            name = _marked(server, tool, tries)
            tries += 1
        used.add(name)
        names[server, tool] = name
    return names


def renamed(
    names: Mapping[tuple[str, str], str], *, taken: Collection[str] = ()
) -> tuple[str, ...]:
    """Return in words which tools are called otherwise than they are, since another has the name.

    Args:
        names: What `exposed_names` returned.
        taken: What it was given.
    """
    holders = {name: f"{tool!r} of {server!r}" for (server, tool), name in names.items()}
    found: list[str] = []
    for (server, tool), name in sorted(names.items()):
        plain = _plain(server, tool)
        if name != plain:
            holder = (
                "a tool of the agent's own" if plain in taken else holders.get(plain, "another")
            )
            found.append(
                f"tool {tool!r} of MCP server {server!r} is called {name} here: {plain} is {holder}"
            )
    return tuple(found)


def _plain(server: str, tool: str) -> str:
    return _NOT_A_NAME.sub("_", f"{server}_{tool}")[:NAME_CHARACTERS]


def _is_exact(server: str, tool: str) -> bool:
    name = f"{server}_{tool}"
    return len(name) <= NAME_CHARACTERS and _NOT_A_NAME.search(name) is None


def _marked(server: str, tool: str, tries: int) -> str:
    key = f"{server}\0{tool}\0{tries}" if tries else f"{server}\0{tool}"
    mark = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARACTERS]
    plain = _NOT_A_NAME.sub("_", f"{server}_{tool}")[: NAME_CHARACTERS - _MARK_CHARACTERS - 1]
    return f"{plain}_{mark}"
