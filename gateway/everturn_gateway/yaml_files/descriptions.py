"""The texts under the fields of a model, as descriptions in its JSON Schema.

The library can do so as well, but only when a class is made, at every start of a gateway: it parses
the source of each class.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast, get_args

from pydantic import BaseModel
from pydantic.json_schema import DEFAULT_REF_TEMPLATE


def described_schema(
    model: type[BaseModel], *, ref_template: str = DEFAULT_REF_TEMPLATE
) -> dict[str, Any]:
    """Return the JSON Schema of a model, with descriptions of its fields and of those within.

    Args:
        model: The model.
        ref_template: How the models within are referred to, where `{model}` is their name.
    """
    kinds = {model, *_models_in(model)}
    for kind in kinds:
        kind.model_rebuild()  # one that is a default is put into words by itself
    schema = model.model_json_schema(ref_template=ref_template)
    definitions: dict[str, dict[str, Any]] = schema.get("$defs", {})
    for kind in kinds:
        if (found := schema if kind is model else definitions.get(kind.__name__)) is not None:
            describe_fields(found, kind)
    return schema


def describe_fields(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Give the fields of a model the texts that stand under them in its source.

    A field that has a description keeps it, and a package without its sources has none. Reads
    files: not for the event loop.
    """
    described: dict[str, dict[str, Any]] = schema.get("properties", {})
    for kind in model.__mro__:
        if not (issubclass(kind, BaseModel) and kind.__annotations__):
            continue
        try:
            (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        except (OSError, TypeError):
            continue
        for field, text in pairwise(cast("ast.ClassDef", made).body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ) if name in kind.model_fields:
                    key = kind.model_fields[name].alias or name
                    described[key].setdefault("description", inspect.cleandoc(words))
                    described[key] = dict(sorted(described[key].items()))
                case _:
                    pass


def _models_in(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models that the fields of a model are made of."""
    for info in model.model_fields.values():
        yield from _models_of(info.annotation)


def _models_of(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        yield from _models_in(annotation)
    for part in get_args(annotation):
        yield from _models_of(part)
