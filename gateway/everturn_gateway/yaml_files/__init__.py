"""Read YAML files into checked values, and say of everything that is wrong where it stands.

A scalar reaches its model as the text that stands in the file, and the field's own type decides
what it means: `version: 1.0` is the text "1.0", `allowlist: [12345]` a list of texts, and
`port: ${PORT:-8080}` a number. Nothing here builds anything but dicts, lists, texts and None.

- `checking`: check a document against a model, and say in plain words what is wrong
- `descriptions`: the texts under the fields of a model, as descriptions in its JSON Schema
- `editing`: sets fields in a YAML text and leaves all else, comments too, as it stands
- `fields`: kinds of values that fields of many sections hold
- `paths`: paths in folders that people own: anything may stand there, and asking must not fail
  oddly
- `places`: a file that was read, and where each of its values stands
- `reading`: from bytes to plain data: size, encoding, YAML, aliases, environment variables
- `watching`: notice when files in a folder change, whatever becomes of the folder itself
"""

from __future__ import annotations

from everturn_gateway.yaml_files.checking import (
    SettingsModel,
    check,
    check_part,
    field_names,
    nearest,
)
from everturn_gateway.yaml_files.paths import is_there, may_pass, resolved
from everturn_gateway.yaml_files.places import Document, FieldPath, Place, dotted
from everturn_gateway.yaml_files.reading import expand, parse_document, read_document, read_text

__all__ = [
    "Document",
    "FieldPath",
    "Place",
    "SettingsModel",
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
