"""Starts the program that keeps a background process: `python -I -S run.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Behind the standard library, which none of the packages beside Everturn may stand before.
    sys.path.append(str(Path(__file__).resolve().parents[4]))
    from everturn_gateway.tools.processes.supervisor.supervisor_process import main

    sys.exit(main(Path(sys.argv[1])))
