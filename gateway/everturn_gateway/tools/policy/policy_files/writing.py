"""Adds to `policy.local.yaml` what a person allowed for good, and keeps all else that stands there.

Blocking: for a worker thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import yaml

from everturn_actors.errors import CoreError
from everturn_actors.json_values import is_list
from everturn_gateway.errors import ConfigError
from everturn_gateway.folders import sync_folder
from everturn_gateway.yaml_files import Document, read_document, resolved

_ALLOW: Final = "allow"
_HEAD: Final = {"apiVersion": "duragent/v1alpha1", "kind": "Policy"}
_NEW: Final = """\
# What people allowed for good. Everturn adds to the list; change it as you like.
apiVersion: duragent/v1alpha1
kind: Policy
"""
_TRIES = 3  # where somebody saves the file at the same moment
_WRITING: Final = threading.Lock()  # one writer in this process; a write takes milliseconds


class PolicyWriteError(CoreError):
    """What was allowed for good could not be written; it holds for this call alone.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"{path}: {why}")


def add_allowed(file: Path, pattern: str) -> None:
    """Add `pattern` to the allow list in `file`; return when that survives a crash.

    The file is replaced as a whole, with mode 0600, and made where there is none. Comments and the
    order of fields stay, but in a file that is written in an unusual way; data always does. Doing
    it twice does no harm.

    Raises:
        PolicyWriteError: It cannot be read or written, or its allow list is no list. The file is
            as it was.
    """
    try:
        with _WRITING:
            target = resolved(file) if file.is_symlink() else file
            for _ in range(_TRIES):
                if _add(target, pattern):
                    return
    except ConfigError as error:
        raise PolicyWriteError(file, str(error)) from error
    except OSError as error:
        raise PolicyWriteError(file, f"cannot be written: {error.strerror or error}") from error
    raise PolicyWriteError(file, "changes all the time; try again")


def _add(file: Path, pattern: str) -> bool:
    """Try once; return False where somebody else wrote the file meanwhile."""
    before = _stamp(file)
    document = read_document(file, {}) if before else None
    data = dict(document.data) if document else {}
    items = _items(file, data.get(_ALLOW))
    if pattern in items:
        return True
    is_new = document is None or not document.text.strip()
    expected = {**(_HEAD if is_new else data), _ALLOW: [*items, pattern]}
    written = pattern.replace("${", "$${")
    for text in _readable_edits(document, written):
        with _replacement(file, text) as made:
            if not _holds(made, expected):
                continue
            if _stamp(file) != before:
                return False
            made.replace(file)
            sync_folder(file.parent)
            return True
    raise PolicyWriteError(file, "is written in a way that cannot be added to; add it by hand")


def _items(file: Path, allowed: object) -> list[object]:
    if allowed is None:
        return []
    if not is_list(allowed):
        raise PolicyWriteError(file, "allow: must be a list; put it right first")
    return allowed


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _holds(file: Path, expected: dict[str, Any]) -> bool:
    try:
        return read_document(file, {}).data == expected
    except ConfigError:
        return False


@contextmanager
def _replacement(file: Path, text: str) -> Generator[Path]:
    """Write a file that may take the place of `file`, synced; removed where it does not."""
    made = file.with_name(f".{file.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(made, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        yield made
    finally:
        made.unlink(missing_ok=True)


def _readable_edits(document: Document | None, pattern: str) -> Iterator[str]:
    """Yield the edits of a file; none where only libyaml, which forgives more, can read it."""
    try:
        yield from _edits(document, pattern)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError):
        return


def _edits(document: Document | None, pattern: str) -> Iterator[str]:
    """Yield texts that may be the file with `pattern` added, the one that keeps most first."""
    item = yaml.safe_dump(pattern, default_style='"', width=float("inf"), allow_unicode=True)
    item = item.removesuffix("\n")
    if document is None or not document.text.strip():
        yield f"{_NEW}{_ALLOW}:\n  - {item}\n"
        return
    text = document.text if document.text.endswith("\n") else f"{document.text}\n"
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    values = {} if not isinstance(root, yaml.MappingNode) else _values(root)
    value = values.get(_ALLOW)
    if value is None:
        yield f"{text}{_ALLOW}:\n  - {item}\n"
    elif isinstance(value, yaml.SequenceNode) and value.value:
        yield _appended(text, value, item)
    else:
        start, end = value.start_mark.index, value.end_mark.index
        yield f"{text[:start].rstrip(' ')}\n  - {item}{text[end:]}"
    yield _rewritten(text, pattern)


def _values(root: yaml.MappingNode) -> dict[str, yaml.Node]:
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", root.value)
    return {str(key.value): value for key, value in pairs}


def _appended(text: str, value: yaml.SequenceNode, item: str) -> str:
    if value.flow_style:
        end = value.end_mark.index - 1
        return f"{text[:end]}, {item}{text[end:]}"
    last = cast("list[yaml.Node]", value.value)[-1]
    end = text.find("\n", last.end_mark.index) + 1 or len(text)
    return f"{text[:end]}{' ' * value.start_mark.column}- {item}\n{text[end:]}"


def _rewritten(text: str, pattern: str) -> str:
    data = cast("dict[str, Any]", yaml.safe_load(text) or {})
    data[_ALLOW] = [*(data.get(_ALLOW) or []), pattern]
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
