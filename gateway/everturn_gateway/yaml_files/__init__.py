"""Read YAML files into checked values, and say of everything that is wrong where it stands.

A scalar reaches its model as the text that stands in the file, and the field's own type decides
what it means: `version: 1.0` is the text "1.0", `allowlist: [12345]` a list of texts, and
`port: ${PORT:-8080}` a number. Nothing here builds anything but dicts, lists, texts and None.
"""

from __future__ import annotations

from everturn_gateway.yaml_files.checking import Section, check, check_part, field_names, nearest
from everturn_gateway.yaml_files.paths import is_there, may_pass, resolved
from everturn_gateway.yaml_files.places import Document, FieldPath, Place, dotted
from everturn_gateway.yaml_files.reading import expand, parse_document, read_document, read_text

__all__ = [
    "Document",
    "FieldPath",
    "Place",
    "Section",
    "check",
    "check_part",
    "dotted",
    "expand",
    "field_names",
    "is_there",
    "may_pass",
    "nearest",
    "parse_document",
    "read_document",
    "read_text",
    "resolved",
]
