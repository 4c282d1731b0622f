"""Whose the agents are: an owner is written into the configuration."""

from __future__ import annotations

import json
from pathlib import Path

from everturn_channels.access.pairing import Request
from everturn_gateway.commands.first_steps.writing import explaining_faults, replace_file
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.yaml_files.editing import EditError, with_item


def with_owner(config: Config, name: str, person: Request) -> str:
    """Return the configuration with an owner; empty = somebody owns this account already.

    Raises:
        GatewayError: It cannot be changed so; says what to write by hand.
    """
    account = {person.channel: person.sender_id}
    if any((person.channel, person.sender_id) in each.accounts for each in config.owners):
        return ""
    by_hand = f"set it by hand: owners: [{{name: {name}, accounts: {json.dumps(account)}}}]"
    if config.path is None:
        msg = f"there is no everturn.yaml yet: {by_hand}"
        raise GatewayError(msg)
    if any(each.name == name for each in config.owners):
        msg = f"{config.path} has an owner {name} already: {by_hand}"
        raise GatewayError(msg)
    with explaining_faults(config.path):
        text = config.path.read_text(encoding="utf-8")
    try:
        return with_item(text, "owners", {"name": name, "accounts": account})
    except EditError as error:
        msg = f"{config.path}: {error}; {by_hand}"
        raise GatewayError(msg) from error


def write_config_text(path: Path, text: str) -> None:
    """Put another text in the place of a configuration, whole or not at all.

    Raises:
        GatewayError: It cannot be written.
    """
    with explaining_faults(path):
        replace_file(path, text, mode=path.stat().st_mode & 0o777)
