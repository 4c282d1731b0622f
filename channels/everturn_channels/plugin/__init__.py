"""Channels that are programs of their own: lines of JSON on standard input and output."""

from __future__ import annotations

from everturn_channels.plugin.adapter import PluginAdapter
from everturn_channels.plugin.process import Program

__all__ = ["PluginAdapter", "Program"]
