"""`everturn clean` and `everturn erase`."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from everturn_channels.names import clean as clean_text
from everturn_gateway.client.answers import Json
from everturn_gateway.client.maintenance import MaintenanceClient
from everturn_gateway.commands.clients import open_workspace_api
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.questions import can_ask, confirm
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.retention.erasing import person_of
from everturn_gateway.tools.wording import counted

_MEGABYTE: Final = 1_000_000
_SHOWN: Final = 20
_NOTHING: Final = (
    "nothing is cleaned: `sessions.keep` in everturn.yaml has no limit, so all is kept for ever"
)


def clean(options: Options, *, dry_run: bool, as_json: bool) -> int:
    """Let go of what is older or more than `sessions.keep` allows; return the exit code.

    Args:
        options: Where the configuration is.
        dry_run: Change nothing; say what would go.
        as_json: Print JSON: the plan, or what was done.
    """
    config = load(options)

    async def main() -> int:
        async with _opened(config) as client:
            if dry_run:
                async with slow_progress("looking at what is kept"):
                    plan = await client.plan()
                _print_plan(plan, as_json=as_json)
                return EXIT_OK
            if not (await client.plan())["is_set"]:
                if as_json:
                    print_json({"removed": 0, "stayed": 0, "size_bytes": 0})
                else:
                    print_line(_NOTHING)
                return EXIT_OK
            done: Json = {}
            async with (
                slow_progress("removed") as told,
                aclosing(client.clean()) as steps,
            ):
                async for kind, data in steps:
                    if kind == "step":
                        told(data["done"], data["total"])
                    done = data
            if as_json:
                print_json(dict(done))
            else:
                stayed = f"; {done['stayed']} stayed: in use, or see the log" * bool(done["stayed"])
                print_line(f"{done['removed']} removed, {_size(done['size_bytes'])}{stayed}")
        return EXIT_OK

    return run_async(main)


def erase(options: Options, person: str, *, ask: bool, as_json: bool) -> int:
    """Erase what a person said; return the exit code, 1 where something is left.

    Raises:
        InvalidInputError: `person` names nobody.
    """
    person_of(person)
    if ask and not can_ask():
        msg = "this cannot be taken back, and nobody sits here to be asked: add --yes"
        raise GatewayError(msg)
    config = load(options)

    async def main() -> int:
        question = f"Erase all that {person} said, in all sessions? It cannot be taken back."
        if ask and not await confirm(question):
            print_line("nothing was erased")
            return EXIT_FAILED
        done: Json = {}
        async with (
            _opened(config) as client,
            slow_progress("sessions looked at") as told,
            aclosing(client.erase(person)) as looks,
        ):
            async for _kind, data in looks:
                told(data["looked"], None)
                done = data
        if as_json:
            print_json(dict(done))
        else:
            print_line(
                f"{counted(done['messages'], 'message')} of {person} erased:"
                f" {counted(done['removed'], 'session')} removed, {done['rewritten']} written anew,"
                f" of {done['looked']}"
            )
            for line in done["left"]:
                print_line(f"left: {clean_text(line)}")
            print_line(
                "files of agents stay, such as MEMORY.md: `everturn help operate` has the list"
            )
        return EXIT_FAILED if any(each.startswith("session ") for each in done["left"]) else EXIT_OK

    return run_async(main)


@asynccontextmanager
async def _opened(config: Config) -> AsyncGenerator[MaintenanceClient]:
    async with open_workspace_api(config, resume=False, is_admin=True) as api:
        yield MaintenanceClient(api)


def _print_plan(plan: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(dict(plan))
        return
    steps = plan["steps"]
    if not plan["is_set"]:
        print_line(_NOTHING)
        return
    if not steps:
        print_line("nothing would be removed: all that is kept is within `sessions.keep`")
        return
    counts = Counter((each["what"], each["agent"]) for each in steps)
    sizes = Counter[tuple[str, str]]()
    for each in steps:
        sizes[each["what"], each["agent"]] += each["size_bytes"]
    print_table(
        ("what", "agent", "how many", "size"),
        [
            (what, agent or "-", str(count), _size(sizes[what, agent]))
            for (what, agent), count in sorted(counts.items())
        ],
    )
    print_line("")
    for each in steps[:_SHOWN]:
        print_line(f"{each['what']} {each['name']}: {each['reason']}")
    if len(steps) > _SHOWN:
        print_line(f"... and {len(steps) - _SHOWN} more; --json lists all")
    print_line(f"\n{len(steps)} would be removed, {_size(plan['size_bytes'])}; nothing was changed")


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _MEGABYTE:,.1f} MB"
