"""An agent that a program declares as values: what would stand in its `agent.yaml`, and its tools.

It is read and checked by the same code as a file, so that it can be whatever a file can be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.policy import AnyPolicy
from everturn_actors.ports import Tool
from everturn_gateway.specs.loading import AgentFile
from everturn_gateway.tools.policy.rules.patterns import read_pattern
from everturn_gateway.yaml_files import Document, parse_document


class DeclaredAgent(Struct, frozen=True, kw_only=True):
    """One agent of a program."""

    folder: Path
    "Of its own: what is allowed for good is written there. It need not exist."
    document: Mapping[str, object]
    "What would stand in `agent.yaml`. Texts are taken as they stand: no variable is expanded."
    tools: tuple[Tool, ...] = ()
    "What it can do beside the tools that the document names."
    allowed: tuple[str, ...] = ()
    "Names of those of `tools` that run without a question; the policy's `deny` holds all the same."

    policy: AnyPolicy | None = None
    "How its conversation is made to fit; None = as the document says."

    def as_document(self) -> Document:
        """Return the document as if it had been read from a file.

        Raises:
            ConfigError: It holds what cannot stand in a file.
        """
        name = _name(self.document)
        text = yaml.safe_dump(dict(self.document), sort_keys=False, allow_unicode=True)
        read = parse_document(Path(f"agent {name}"), text, None)
        # Nobody has seen the text: its lines would tell nobody anything.
        places = {path: replace(place, line=0) for path, place in read.places.items()}
        return dataclasses.replace(read, text="", places=places, is_file=False)

    def with_tools(self, file: AgentFile) -> AgentFile:
        """Return the agent as it was read, with its own tools and context policy."""
        config = file.tool_config
        patterns = (read_pattern(f"{_KIND}:{name}") for name in self.allowed)
        policy = config.policy.allowing(*patterns)
        spec = file.spec
        if self.policy is not None:
            context = replace(spec.session.context, policy=self.policy)
            spec = replace(spec, session=replace(spec.session, context=context))
        own = replace(config, own=self.tools, policy=policy)
        return dataclasses.replace(file, spec=spec, tool_config=own)


_KIND = "builtin"  # by which patterns of a policy name the tools of a program


def _name(document: Mapping[str, object]) -> str:
    metadata: object = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    return str(cast("Mapping[str, object]", metadata).get("name", ""))
