"""Tools for the files of an agent's workspace."""

from __future__ import annotations

from everturn_gateway.tools.files.sending import send_file_tool
from everturn_gateway.tools.files.tools import file_tools

__all__ = ["file_tools", "send_file_tool"]
