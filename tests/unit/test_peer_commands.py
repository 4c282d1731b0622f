"""`everturn mcp` and `everturn acp` where their packages are not installed."""

from __future__ import annotations

import sys

import pytest

from everturn_gateway import commands
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.errors import GatewayError


def test_the_extra_of_mcp_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A desktop program shows the one line that the command leaves."""
    monkeypatch.delitem(sys.modules, "everturn_gateway.mcp_server.stdio", raising=False)
    for name in ("mcp", "mcp.server.stdio"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(GatewayError, match=r"run `pip install 'everturn\[mcp\]'`"):
        commands.peers.mcp(Options())


def test_the_extra_of_editors_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor shows the one line that the command leaves."""
    for name in ("agent", "stdio", "permissions", "updates", "prompts", "calls"):
        monkeypatch.delitem(sys.modules, f"everturn_gateway.acp.{name}", raising=False)
    for name in ("acp", "acp.schema"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(GatewayError, match=r"run `pip install 'everturn\[acp\]'`"):
        commands.peers.acp(Options(), agent="")
