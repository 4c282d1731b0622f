"""Writes what a setup has found out: a key, and the model of an agent."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from everturn_actors.spec import ModelSpec
from everturn_gateway.commands.first_steps.prompts import choose
from everturn_gateway.commands.shared.questions import can_ask
from everturn_gateway.config.env_file import read_env_file
from everturn_gateway.config.system_keyring import keyring_name, put_secret
from everturn_gateway.errors import GatewayError
from everturn_gateway.folders import sync_folder
from everturn_gateway.yaml_files.editing import EditError, fields_at, with_fields

Keep: TypeAlias = Literal["", "file", "keyring"]


def write_key(path: Path, name: str, value: str, *, keep: Keep = "") -> str:
    """Set a variable in a file that nobody else may read; its other lines stay.

    Written whole or not at all. With the keyring the secret goes there, and the file says so.

    Args:
        path: The file of variables.
        name: The variable.
        value: The secret.
        keep: Where; empty = a person is asked where the system has a keyring, else the file.

    Returns:
        Where it is, for people.

    Raises:
        GatewayError: It cannot be written, or the file has a fault.
    """
    where = f"{path} (nobody else can read it)"
    if not keep and can_ask() and (ring := keyring_name()):
        places = [("file", f"in {where}"), ("keyring", f"in the system's keyring ({ring})")]
        keep = "keyring" if choose("Where is it kept?", places, option="--keep") != "file" else ""
    if keep == "keyring":
        value = put_secret(path.parent, name, value)
        where = f"the system's keyring; {path} says so"
    else:
        read_env_file(path)  # what is wrong there is told with its line, and stays
    with explaining_faults(path):
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        line = re.compile(rf"^[ \t]*(?:export[ \t]+)?{re.escape(name)}[ \t]*=.*$", re.MULTILINE)
        new = f"{name}={value}"
        text, count = line.subn(lambda _: new, old, count=1)
        if not count:
            text = f"{old}{'' if not old or old.endswith(chr(10)) else chr(10)}{new}\n"
        replace_file(path, text, mode=0o600)
    return where


def write_model(path: Path, model: ModelSpec) -> bool:
    """Have an agent use another model; all else in its file stays.

    Args:
        path: Its `agent.yaml`.
        model: Provider, name and address.

    Returns:
        Whether limits that stand there were those of another model.

    Raises:
        GatewayError: The file cannot be read, changed or written.
    """
    fields = {"provider": model.provider, "name": model.name, "base_url": model.base_url}
    with explaining_faults(path):
        old = path.read_text(encoding="utf-8")
        try:
            text = with_fields(old, ("spec", "model"), fields)
        except EditError as error:
            wanted = ", ".join(f"{key}: {value}" for key, value in fields.items() if value)
            msg = f"{path}: {error}; set it by hand: model: {{{wanted}}}"
            raise GatewayError(msg) from error
        replace_file(path, text, mode=path.stat().st_mode & 0o777)
    return text != old and bool(
        re.search(r"^ +(?:max_\w+_tokens|context_window):", text, re.MULTILINE)
    )


def model_in(path: Path) -> ModelSpec:
    """Return which model an agent uses now, as its file has it: provider, name and address.

    Raises:
        GatewayError: It cannot be read, or names none.
    """
    with explaining_faults(path):
        text = path.read_text(encoding="utf-8")
    try:
        found = fields_at(text, ("spec", "model"))
    except EditError as error:
        msg = f"{path}: {error}"
        raise GatewayError(msg) from error
    return ModelSpec(
        provider=found.get("provider", ""),
        name=found.get("name", ""),
        base_url=found.get("base_url", ""),
    )


@contextmanager
def explaining_faults(file: str | Path, what: str = "written") -> Generator[None]:
    """Say of a file that cannot be read or written why.

    Args:
        file: What it is called.
        what: What is done with it.

    Raises:
        GatewayError: It cannot.
    """
    try:
        yield
    except OSError as error:
        msg = f"{file} cannot be {what}: {error.strerror or error}"
        raise GatewayError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{file} is not UTF-8 at byte {error.start}"
        raise GatewayError(msg) from error


def replace_file(path: Path, text: str, *, mode: int) -> None:
    """Write a file, whole or not at all, and durably."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
