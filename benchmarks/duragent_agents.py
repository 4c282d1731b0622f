"""Load every agent file that a checkout of Duragent holds: templates, documents, and tests.

    git clone https://github.com/giosakti/duragent /tmp/duragent
    .venv/bin/python benchmarks/duragent_agents.py /tmp/duragent

A file counts as valid where Duragent's parser takes it: its apiVersion is the present one, and its
tools are of a type that the parser knows. Scripts and prompts that an agent names are made.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from everturn_gateway.errors import ConfigError
from everturn_gateway.specs import load_agent

_BLOCKS = {
    ".md": re.compile(r"```ya?ml\n(.*?)```", re.DOTALL),
    ".rs": re.compile(r'r#"(.*?)"#', re.DOTALL),
    ".yaml": re.compile(r"(.*)", re.DOTALL),
}
_OTHER_VERSION = re.compile(r"apiVersion: duragent/v(?!1alpha1\n)")
_OTHER_TOOL = re.compile(r"^\s+(?:- )?type: (?:mcp|http)\b", re.MULTILINE)
_FILE = re.compile(r"(?:prompt|soul|instructions|command|readme): (\S+\.(?:md|sh))")


def agent_files(checkout: Path) -> Iterator[tuple[Path, str]]:
    """Yield what stands in the checkout as an agent file, and where."""
    for file in sorted(checkout.rglob("*")):
        pattern = _BLOCKS.get(file.suffix)
        if pattern is None or not file.is_file():
            continue
        for block in pattern.findall(file.read_text()):
            if re.search(r"^kind: Agent$", block, re.MULTILINE):
                filled = block.replace("{name}", "a").replace("{provider}", "openai")
                yield file.relative_to(checkout), filled.replace("{model}", "m")


def load(text: str) -> str:
    """Return why an agent file does not load; empty where it does."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "agents" / "a"
        folder.mkdir(parents=True)
        for name in _FILE.findall(text):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
        (folder / "agent.yaml").write_text(text)
        try:
            load_agent(folder, environ={}, state=Path(made) / ".everturn")
        except ConfigError as error:
            return "; ".join(f"{fault.field}: {fault.message}" for fault in error.faults)
    return ""


def main() -> None:
    """Print what loads, and what does not."""
    valid = loaded = invalid = 0
    for file, text in agent_files(Path(sys.argv[1])):
        if _OTHER_VERSION.search(text) or _OTHER_TOOL.search(text):
            invalid += 1
            continue
        valid += 1
        why = load(text)
        loaded += not why
        if why:
            print(f"{file}: {why}")
    print(f"{loaded} of {valid} valid agent files load; {invalid} that Duragent refuses, too")


if __name__ == "__main__":
    main()
