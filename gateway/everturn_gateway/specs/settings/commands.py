"""`spec.commands`: what people say to the agent often, by a name."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from everturn_channels.command_registry import COMMANDS, NAME_PATTERN, plain_name
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Text

_OURS: Final = frozenset(plain_name(name) for each in COMMANDS for name in each.names)


def _free(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        msg = "must be lower-case letters, digits, hyphens and underscores, 32 at most"
        raise ValueError(msg)
    if plain_name(name) in _OURS:
        msg = f"/{name} is one of Everturn's own commands; choose another name"
        raise ValueError(msg)
    return name


CommandWord = Annotated[
    str, AfterValidator(_free), Field(json_schema_extra={"pattern": f"^{NAME_PATTERN}$"})
]


class CommandSettings(SettingsModel):
    """A command of the agent's own: in menus, in the terminal, and typed with a slash."""

    name: CommandWord
    description: Annotated[str, Field(min_length=1, max_length=100)]
    "What menus say of it."
    prompt: Text
    "What is said to the agent; {{arguments}} stands for what was typed after the name."
    aliases: tuple[CommandWord, ...] = ()
    "Further names."
