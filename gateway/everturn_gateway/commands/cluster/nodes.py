"""`everturn nodes`: which gateways share the store, and who of them does what."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from everturn_actors.cluster.leases import Share
from everturn_actors.documents import Document
from everturn_actors.errors import JournalError
from everturn_gateway.app import look_at_nodes, open_keyed
from everturn_gateway.app.homes import SEATS_FORM, SEATS_KEY, away
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.errors import GatewayError


def list_nodes(options: Options, *, as_json: bool) -> int:
    """Print the nodes that live, as the store knows them; return the exit code, 1 where none does.

    Raises:
        GatewayError: The store cannot be shared, or cannot be read.
    """
    config = load(options)

    async def read() -> tuple[Sequence[Share], Mapping[str, str]]:
        nodes = await look_at_nodes(config)
        async with open_keyed(config, is_change=False) as keyed:
            return nodes, await Document(keyed, SEATS_KEY, SEATS_FORM).read()

    try:
        nodes, homes = run_async(read)
    except JournalError as error:
        msg = f"the nodes cannot be listed: {error}"
        raise GatewayError(msg) from error
    if as_json:
        print_json({"nodes": [_row(each) for each in nodes], "homes": dict(homes)})
        return EXIT_OK
    if not nodes:
        say("no node lives")
        return EXIT_FAILED
    print_table(
        ("node", "address", "version", "partitions", "seats", ""),
        (
            (
                each.member.node.name,
                each.member.node.address,
                each.member.node.version,
                str(each.partitions),
                ", ".join(each.seats),
                "goes" if each.member.drains else "",
            )
            for each in nodes
        ),
        right=("partitions",),
    )
    for line in away(homes, (each.member.node.name for each in nodes), _seats(nodes)):
        sys.stdout.write(f"{line}\n")
    if len({each.member.digest for each in nodes if each.member.digest}) > 1:
        sys.stdout.write("their agents differ: who answers depends on where a conversation is\n")
    if len({each.member.node.version for each in nodes}) > 1:
        sys.stdout.write("their versions differ, as during an upgrade\n")
    return EXIT_OK


def _seats(nodes: Sequence[Share]) -> Iterator[str]:
    for each in nodes:
        yield from each.seats


def _row(share: Share) -> dict[str, object]:
    member = share.member
    return {
        "name": member.node.name,
        "address": member.node.address,
        "version": member.node.version,
        "drains": member.drains,
        "partitions": share.partitions,
        "seats": list(share.seats),
        "agents": member.digest,
    }
