"""The tool by which an agent takes up what it has written."""

from __future__ import annotations

import pytest
from support.commands import run_tool

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.reloading import ReloadTools


async def test_the_model_reads_what_came_and_went() -> None:
    """It has to know under which name it can call what it wrote."""
    calls = 0

    async def reload() -> str:
        nonlocal calls
        calls += 1
        return "added: zip"

    tool = ReloadTools(reload)

    assert (await run_tool(tool, {})).text == "added: zip"
    assert calls == 1
    assert (tool.capabilities.safe, tool.capabilities.read_only) == (True, False)
    with pytest.raises(ToolFailedError, match="name: Extra inputs"):
        await run_tool(tool, {"name": "zip"})
    assert calls == 1
