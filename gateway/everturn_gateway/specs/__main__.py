"""Write the JSON Schema of `agent.yaml`: `python -m everturn_gateway.specs FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from everturn_gateway.specs.schema import schema_text


def main() -> None:
    """Write it to the file that is named, or to standard output."""
    match sys.argv[1:]:
        case [name]:
            Path(name).write_text(schema_text(), encoding="utf-8")
        case []:
            sys.stdout.write(schema_text())
        case _:
            sys.exit("usage: python -m everturn_gateway.specs [FILE]")


if __name__ == "__main__":
    main()
