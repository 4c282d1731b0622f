"""What the first "hello" sends to the model, beside the agent's own text.

.venv/bin/python benchmarks/first.py

The agent has no tools, one line of system prompt, and what the gateway gives to every agent.
"""

from __future__ import annotations

import asyncio
import json

from figures import Figure, show_figures
from harness import AGENT
from streaming import measure

OWN = "You are a benchmark."  # the system prompt of `AGENT`
SAID = "go"


def measured() -> tuple[str, list[Figure]]:
    """Return the request, and its figure."""
    assert OWN in AGENT
    _, _, body = asyncio.run(measure(0.0, 0))
    beside = len(body) - len(OWN) - len(SAID)
    figure = Figure(what="first request beside own text", value=beside, unit="bytes", bar=2_000)
    return json.dumps(json.loads(body), indent=2), [figure]


def main() -> None:
    """Print the request and the table."""
    request, figures = measured()
    print(request)
    show_figures("the first request", figures)


if __name__ == "__main__":
    main()
