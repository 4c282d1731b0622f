"""The line below the prompt: who answers, how full its window is, and what goes on. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from prompt_toolkit.utils import get_cwidth

from everturn_channels.money import dollars
from everturn_channels.names import one_line
from everturn_channels.terminal.gauge import ASCII, BLOCKS

_BAR: Final = 8  # columns
_GAP: Final = " · "
_ASCII_GAP: Final = " - "  # where the terminal cannot show the other one


class Facts(Struct, frozen=True, kw_only=True):
    """What is known of the session, as of its last turn."""

    agent: str = ""
    model: str = ""
    percent: int = 0
    "Of the window that is used."
    cost_nanodollars: int = 0


def status_line(facts: Facts, doing: str, *, columns: int, bars: tuple[str, str] = BLOCKS) -> str:
    """Return what fits of: what goes on, the agent, its window as a bar, cost and model.

    >>> status_line(Facts(agent="helper", model="m", percent=25), "", columns=30, bars=("#", "."))
    'helper - ##...... 25 % - m'
    """
    gap = _ASCII_GAP if bars == ASCII else _GAP
    full = min(facts.percent * _BAR // 100, _BAR)
    full = max(full, 1) if facts.percent else full
    wanted = (
        doing,
        one_line(facts.agent),
        f"{bars[0] * full}{bars[1] * (_BAR - full)} {facts.percent} %" if facts.model else "",
        dollars(facts.cost_nanodollars) if facts.cost_nanodollars else "",
        one_line(facts.model),
    )
    line = ""
    for part in filter(None, wanted):
        longer = f"{line}{gap}{part}" if line else part
        if get_cwidth(longer) > columns:
            break
        line = longer
    return line
