"""`everturn agent checkpoints`: what turns changed in a workspace, and taking it back."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from everturn_channels.names import visible
from everturn_gateway.client.answers import value_of
from everturn_gateway.client.undoing import undone_text
from everturn_gateway.commands.clients import open_workspace_api
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.http.schemas.checkpoints import (
    CheckpointBody,
    CheckpointDetail,
    CheckpointList,
)

_FILES_SHOWN: Final = 3


def checkpoints(
    options: Options, agent: str, *, show: int | None, undo: int | None, as_json: bool
) -> int:
    """Print the checkpoints of an agent's workspace, or one, or take one back.

    Raises:
        CoreError, GatewayError: There is no such agent, or no such checkpoint.
    """
    config = load(options)
    path = f"/api/v1/agents/{quote(agent, safe='')}/checkpoints"
    if undo is not None:
        method, path = "POST", f"{path}/{undo}/undo"
    else:
        method, path = "GET", path if show is None else f"{path}/{show}"

    async def ask() -> dict[str, object]:
        async with open_workspace_api(config, resume=False) as api:
            return await api.ask(method, path)

    data = run_async(ask)
    if as_json:
        print_json(data)
    elif undo is not None:
        print_line(value_of(undone_text, data))
    elif show is not None:
        found = value_of(CheckpointDetail.model_validate, data)
        print_line(visible(found.diff) if found.diff else "it changed no text")
    else:
        _print_list(value_of(CheckpointList.model_validate, data), agent)
    return EXIT_OK


def _print_list(found: CheckpointList, agent: str) -> None:
    if not found.checkpoints:
        print_line(f"no turn of {agent} has changed files of its workspace")
        return
    rows = [
        (
            str(each.number),
            f"{each.created_at[:16].replace('T', ' ')} UTC",
            each.session_id,
            each.turn_id,
            each.state,
            _files(each),
        )
        for each in found.checkpoints
    ]
    print_table(("number", "made", "session", "turn", "state", "files"), rows, right=("number",))


def _files(checkpoint: CheckpointBody) -> str:
    names = [f"{visible(each.path)} ({each.change})" for each in checkpoint.files]
    more = len(names) - _FILES_SHOWN + checkpoint.not_kept
    shown = ", ".join(names[:_FILES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
