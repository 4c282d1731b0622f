"""Files that people send, put where the tools of an agent can read them."""

from __future__ import annotations

from functools import partial

from everturn_actors.errors import ToolFailedError
from everturn_actors.outside import one_source
from everturn_gateway.tools.config import ToolConfig, may_read
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.files.workspace import workspace_of
from everturn_gateway.tools.marks import INBOX
from everturn_gateway.tools.policy.files.protected_files import reason_of_name

_OWNERS_ALONE = 0o600


async def keep_in_inbox(
    environment: ToolEnvironment, config: ToolConfig, name: str, data: bytes
) -> str | None:
    """Keep a file for an agent's tools; return its path as they know it when it is durable.

    The same file once more is left as it is. A model may have changed it: then it is put back.
    It is marked as text from outside, whoever sent it: people pass on what others wrote.
    Where others would take orders from a file of its name, it gets another (`protected_files`).

    Args:
        environment: Where the agent's tools work.
        config: Which tools it has.
        name: Of the file, without a path; the same name always comes with the same bytes.
        data: Its bytes.

    Returns:
        None where no tool of the agent reads files.

    Raises:
        OSError: It could not be written, or its name is none.
    """
    in_workspace = may_read(config)
    if not in_workspace and not config.cli and not config.found:
        return None
    if "/" in name or name in {"", ".", ".."}:
        msg = f"{name!r} is no name of a file"
        raise OSError(msg)
    path = f"{INBOX}/{_harmless(name)}"
    workspace = workspace_of(environment)

    def write() -> None:
        with workspace.place(path, create=True) as place:
            if reason := reason_of_name(place.inside):  # the folder is a link to such a place
                msg = f"{INBOX} leads to {place.inside}: {reason}"
                raise ToolFailedError(msg)
            there = place.read_if_there(len(data) + 1)
            if there is None or there[0] != data:
                sources = (one_source(f"the file {name}, which was sent here"),)
                mark = partial(environment.marks.mark, sources=sources)
                place.replace(data, mode=_OWNERS_ALONE, look=mark)

    try:
        await workspace.run(write)
    except ToolFailedError as error:
        raise OSError(str(error)) from error
    # Programs of the owner's run in folders of their own.
    return path if in_workspace else str(environment.files / path)


def _harmless(name: str) -> str:
    """Return a name that no program takes for its configuration or an option."""
    if not reason_of_name(name):
        return name
    return f"received-{name.lstrip('.-')}.file"
