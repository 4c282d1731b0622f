"""The Matrix channel: one account on a homeserver. The only package that knows matrix-nio."""

from __future__ import annotations

from everturn_channels.matrix.account import MatrixAccount
from everturn_channels.matrix.adapter import MatrixAdapter

__all__ = ["MatrixAccount", "MatrixAdapter"]
