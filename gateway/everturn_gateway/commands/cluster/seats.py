"""`everturn seat`: what one node does for all, which one that is, and which one it should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from everturn_actors.cluster.leases import Share
from everturn_actors.documents import Document
from everturn_actors.errors import JournalError
from everturn_gateway.app import look_at_nodes, open_keyed
from everturn_gateway.app.homes import SEATS_FORM, SEATS_KEY, away
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json
from everturn_gateway.commands.shared.questions import can_ask, confirm
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError

_AGENT: Final = "agent:"


class _Seats(Struct, frozen=True):
    """What is known of seats."""

    nodes: Sequence[Share]
    homes: Mapping[str, str]
    "By seat: the node that should have it."

    @property
    def holders(self) -> dict[str, str]:
        """By seat: the node that has it."""
        return {seat: each.member.node.name for each in self.nodes for seat in each.seats}

    @property
    def names(self) -> list[str]:
        """Return all seats that somebody has, could have or should have."""
        able = {seat for each in self.nodes for seat in each.member.seats}
        return sorted({*self.holders, *self.homes, *able})


def list_seats(options: Options, *, as_json: bool) -> int:
    """Print the seats; return the exit code, 1 where one waits for a node that does not live.

    Raises:
        GatewayError: The store cannot be shared, or cannot be read.
    """
    config = load(options)
    seats = _read(config)
    holders = seats.holders
    waiting = away(seats.homes, (each.member.node.name for each in seats.nodes), holders)
    if as_json:
        rows = [
            {"seat": each, "node": holders.get(each, ""), "home": seats.homes.get(each, "")}
            for each in seats.names
        ]
        print_json({"seats": rows, "waiting": list(waiting)})
    else:
        print_table(
            ("seat", "node", "should be at"),
            ((each, holders.get(each, ""), seats.homes.get(each, "")) for each in seats.names),
        )
        for line in waiting:
            say(line)
    return EXIT_FAILED if waiting else EXIT_OK


def move_seat(options: Options, seat: str, node: str, *, yes: bool, as_json: bool = False) -> int:
    """Let a node have a seat from now on, before all others; return the exit code.

    Raises:
        GatewayError: There is no such seat or node, nobody said that the folder may stay behind, or
            the store cannot be written.
    """
    config = load(options)
    seats = _read(config)
    living = [each.member.node.name for each in seats.nodes]
    if seat not in seats.names:
        known = ", ".join(seats.names) or "none"
        msg = f"there is no seat {seat!r}; seats are: {known}"
        raise GatewayError(msg)
    if node not in living:
        msg = f"no node {node!r} lives; nodes are: {', '.join(living) or 'none'}"
        raise GatewayError(msg)
    before = seats.homes.get(seat, "")
    shared = config.cluster is not None and config.cluster.workspace_shared
    is_agent = seat.startswith(_AGENT)
    stays = not shared if is_agent else seat not in _free(seats)
    run_async(lambda: _move(config, seat, node, before if stays else "", yes=yes))
    if as_json:
        print_json({"seat": seat, "node": seats.holders.get(seat, ""), "home": node})
    else:
        say(f"{seat} goes to node {node} within seconds, when its turns have ended")
    return EXIT_OK


def _free(seats: _Seats) -> set[str]:
    """Return the seats that several nodes could have: no folder keeps them where they are."""
    able = [seat for each in seats.nodes for seat in each.member.seats]
    return {seat for seat in able if able.count(seat) > 1}


async def _move(config: Config, seat: str, node: str, before: str, *, yes: bool) -> None:
    if before and before != node and not yes:
        what = (
            f"what {seat} has in its folder on node {before} does not go with it: copy it to node"
            f" {node} first, while that seat rests"
        )
        if not can_ask():
            msg = f"{what}. Then say --yes"
            raise GatewayError(msg)
        if not await confirm(f"{what}. Move it now?"):
            msg = "nothing was moved"
            raise GatewayError(msg)
    try:
        async with open_keyed(config, is_change=True) as keyed:
            document = Document(keyed, SEATS_KEY, SEATS_FORM)
            await document.change(lambda homes: {**homes, seat: node})
    except JournalError as error:
        msg = f"the seat cannot be moved: {error}"
        raise GatewayError(msg) from error


def _read(config: Config) -> _Seats:
    async def read() -> _Seats:
        nodes = await look_at_nodes(config)
        async with open_keyed(config, is_change=False) as keyed:
            return _Seats(nodes, await Document(keyed, SEATS_KEY, SEATS_FORM).read())

    try:
        return run_async(read)
    except JournalError as error:
        msg = f"the seats cannot be listed: {error}"
        raise GatewayError(msg) from error
