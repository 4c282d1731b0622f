"""`everturn pair`: who asked to talk to an agent, and who may. Works while the gateway runs."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

from everturn_actors.state.serialization import utc_text
from everturn_channels.access.pairing import Paired, Pairing, Request
from everturn_gateway.app import open_keyed
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.first_steps.owners import with_owner, write_config_text
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.moments import minute_text
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done, print_json
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.principals import is_principal_name


def list_pairs(options: Options, *, as_json: bool) -> int:
    """Print who waits for approval and who has it; return the exit code.

    Raises:
        PairingError: A file cannot be read.
    """
    config = load(options)

    async def look() -> tuple[tuple[Request, ...], tuple[Paired, ...]]:
        async with open_keyed(config, is_change=False) as keyed:
            pairing = Pairing(keyed, SystemClock())
            return await pairing.pending(), await pairing.approved()

    waiting, known = run_async(look)
    if as_json:
        document = {
            "waiting": [
                {
                    "code": each.code,
                    "channel": each.channel,
                    "sender": each.sender_id,
                    "name": each.name,
                    "asked_at": utc_text(each.asked_at),
                    "expires_at": utc_text(each.expires_at),
                }
                for each in waiting
            ],
            "approved": [
                {
                    "channel": each.channel,
                    "sender": each.sender_id,
                    "name": each.name,
                    "approved_at": utc_text(each.approved_at),
                    "by": each.by,
                }
                for each in known
            ],
        }
        print_json(document)
        return EXIT_OK
    if waiting:
        print_table(
            ("code", "channel", "sender", "calls themselves", "valid until"),
            [
                (each.code, each.channel, each.sender_id, each.name, minute_text(each.expires_at))
                for each in waiting
            ],
        )
        sys.stdout.write("\n`everturn pair approve CODE` lets one of them in\n")
    if known:
        print_table(
            ("approved", "sender", "calls themselves", "since"),
            [
                (each.channel, each.sender_id, each.name, minute_text(each.approved_at))
                for each in known
            ],
        )
    if not waiting and not known:
        sys.stdout.write("nobody waits, and nobody was approved\n")
    return EXIT_OK


def approve_pair(options: Options, code: str, *, owner: str = "", as_json: bool = False) -> int:
    """Let the person with `code` talk to the agents of their channel; return the exit code.

    Args:
        options: Where the configuration is.
        code: That the bot gave them.
        owner: The name by which they are an owner from now on; empty = they are none.
        as_json: Print JSON.

    Raises:
        PairingError: No request that is still valid has this code.
        GatewayError: The configuration cannot be changed; nobody was let in then.
    """
    config = load(options)
    if owner and not is_principal_name(owner):
        msg = f"{owner!r} is no name of an owner: lower-case letters, digits, . - _, a letter first"
        raise GatewayError(msg)

    async def let_in() -> tuple[Request, str]:
        async with open_keyed(config, is_change=True) as keyed:
            pairing = Pairing(keyed, SystemClock())
            changed = with_owner(config, owner, await pairing.asked(code)) if owner else ""
            if changed and config.path:  # first: where it cannot be written nobody is let in
                write_config_text(config.path, changed)
            return await pairing.approve(code), changed

    person, changed = run_async(let_in)
    name = f" ({person.name})" if person.name else ""
    record = {"channel": person.channel, "sender_id": person.sender_id, "name": person.name}
    text = f"approved: {person.sender_id}{name} on {person.channel}"
    if changed:
        told = run_async(partial(_reload, config))
        text += f"\n{owner} is an owner; {told}"
    elif owner:
        text += "\nan owner has this account already"
    print_done(
        text, {**record, "approved": True, "owner": owner if changed else None}, as_json=as_json
    )
    return EXIT_OK


async def _reload(config: Config) -> str:
    """Have a gateway that runs read its configuration again; return what was done, in words."""
    running = await find_running(config.workspace)
    if running is None:
        return "`everturn serve` begins with it"
    try:
        os.kill(running.pid, signal.SIGHUP)
    except OSError:
        return "start the gateway again, which takes it over then"
    return "the gateway takes it over"


def remove_pair(options: Options, channel: str, sender: str, *, as_json: bool = False) -> int:
    """Take an approval back; return the exit code, 1 where there was none.

    Raises:
        PairingError: A file cannot be read or written.
    """
    config = load(options)

    async def let_out() -> bool:
        async with open_keyed(config, is_change=True) as keyed:
            return await Pairing(keyed, SystemClock()).revoke(channel, sender)

    was_there = run_async(let_out)
    text = (
        f"no longer approved: {sender} on {channel}"
        if was_there
        else f"{sender} was not approved on {channel}"
    )
    record = {"channel": channel, "sender_id": sender, "removed": was_there}
    print_done(text, record, as_json=as_json)
    return EXIT_OK if was_there else EXIT_FAILED
