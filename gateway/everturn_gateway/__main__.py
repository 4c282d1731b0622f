"""The command `everturn`: `python -m everturn_gateway` is the same."""

from __future__ import annotations

import sys

from everturn_gateway.cli import run
from everturn_gateway.gc_tuning import begin_loading
from everturn_gateway.private_environ import claim_process


def main() -> None:
    """Run one command and leave with its exit code."""
    begin_loading()
    claim_process()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
