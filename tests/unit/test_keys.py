"""Keys from files: whose, how closed, and what is said where they cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.tables import table

from everturn_actors.spec import ModelSpec
from everturn_gateway.providers import ProviderConfigError
from everturn_gateway.providers.keys import Keys, read_key
from everturn_gateway.providers.transport.endpoints import endpoint_for

OPENAI = ModelSpec(provider="openai", name="m")


def key_file(folder: Path, text: str = "sk-from-file\n", mode: int = 0o600) -> Path:
    """Write a file with a key."""
    path = folder / "openai.key"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_a_key_is_read_from_a_file_of_its_owner(tmp_path: Path) -> None:
    """As the file is now, by a link too; all else is as the environment has it."""
    # The line end that an editor adds is not part of it.
    keys = Keys({}, {"openai": key_file(tmp_path)})

    assert endpoint_for(OPENAI, keys).key == "sk-from-file"

    # The next reading sees a new key. Keys are replaced; the old one stops working.
    keys = Keys({}, {"openai": key_file(tmp_path)})
    before = keys["OPENAI_API_KEY"]
    key_file(tmp_path, "sk-new")

    assert (before, keys["OPENAI_API_KEY"]) == ("sk-from-file", "sk-new")

    # A link to a good file is followed. Secrets are mounted as links; what counts is who can read
    # the file itself.
    (tmp_path / "link").symlink_to(key_file(tmp_path))

    assert read_key(tmp_path / "link") == "sk-from-file"

    # Which key counts. The configuration speaks of this gateway, the environment of this machine.
    path = key_file(tmp_path)
    named = {"OPENAI_API_KEY_FILE": str(path)}
    both = {"OPENAI_API_KEY": "sk-environ", **named}

    assert Keys(both, {"openai": key_file(tmp_path)})["OPENAI_API_KEY"] == "sk-from-file"
    assert Keys(both, {})["OPENAI_API_KEY"] == "sk-environ"
    assert Keys(named, {})["OPENAI_API_KEY"] == "sk-from-file"
    assert "OPENAI_API_KEY" not in Keys({}, {})

    # Other variables are as they were. It stands in the place of the environment.
    keys = Keys({"HOME": "/home/ann"}, {"openai": key_file(tmp_path)})

    assert dict(keys) == {"HOME": "/home/ann", "OPENAI_API_KEY": "sk-from-file"}
    assert len(keys) == 2


@table("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o601])
def test_a_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    """Its key is no secret; whoever reads why knows what to type."""
    path = key_file(tmp_path, mode=mode)
    with pytest.raises(ProviderConfigError) as refused:
        endpoint_for(OPENAI, Keys({}, {"openai": path}))

    assert str(refused.value) == (
        f"the key file {path} is open to other users ({mode:04o}); chmod 600 {path}"
    )


@table("text", ["", " \n\n", "x" * 20_000])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: str) -> None:
    """The provider would refuse an empty key, and nobody would know why."""
    path = key_file(tmp_path, text)
    with pytest.raises(ProviderConfigError, match=r"is empty|too large") as refused:
        read_key(path)

    assert str(path) in str(refused.value)
    assert "xxxx" not in str(refused.value)


def test_a_file_that_cannot_be_a_key_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason, and without what stands in it."""
    # What is no file is refused. A name that is mistyped, a folder, a pipe that would make the
    # gateway wait for ever.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (tmp_path / "none", tmp_path, pipe):
        with pytest.raises(ProviderConfigError, match="the key file"):
            read_key(path)

    # Two lines are no key and are not quoted. A file with a comment above the key; what stands in
    # it is a secret all the same.
    keys = Keys({}, {"openai": key_file(tmp_path, "# mine\nsk-secret\n")})
    with pytest.raises(ProviderConfigError) as refused:
        endpoint_for(OPENAI, keys)

    assert "OPENAI_API_KEY is not a key" in str(refused.value)
    assert "sk-secret" not in str(refused.value)

    # A file of another user is refused. That user can read the key, and replace it.
    path = key_file(tmp_path)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ProviderConfigError) as refused:
        read_key(path)

    assert f"belongs to another user (id {owner})" in str(refused.value)
    assert f"chown {owner + 1} {path}" in str(refused.value)
