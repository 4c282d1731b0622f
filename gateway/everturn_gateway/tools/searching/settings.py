"""When the tools of an agent are searched, as its owner wrote it down."""

from __future__ import annotations

from typing import Literal

import msgspec


class ToolSearchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools are too many to stand in every request."""

    mode: Literal["auto", "always", "never"] = "auto"
    max_tools: int = 30
    "auto: from one more on, they are searched."
    max_window_share: float = 0.2
    "auto: how much of the model's window their definitions may take, all together."
