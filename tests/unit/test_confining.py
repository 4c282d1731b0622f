"""What an owner may write of the sandbox, and how far it is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.tables import table

from everturn_gateway.tools.shell import Confinement, Limits
from everturn_gateway.tools.shell.settings import ConfinedSettings, read_confinement


def _read(base: Path, **fields: Any) -> tuple[Confinement, list[str]]:
    home = base / "agents" / "helper"
    home.mkdir(parents=True, exist_ok=True)
    read = read_confinement(ConfinedSettings(**fields), folder=home, state=base / ".everturn")
    return read.confinement, [text for _, text in read.faults]


def test_paths_and_limits_are_taken_as_people_write_them(tmp_path: Path) -> None:
    """Or said to have no effect."""
    # Paths are absolute of the home or of the agents folder. So that an agent's folder can be moved
    # with what it names.
    confinement, faults = _read(
        tmp_path, readable=("/usr/x", "~/book", "data"), writable=("/srv/o",)
    )

    assert faults == []
    assert confinement.readable == (
        Path("/usr/x"),
        Path("~/book").expanduser(),
        tmp_path / "agents/helper/data",
    )
    assert confinement.writable == (Path("/srv/o"),)

    # Limits are taken over. In the units that people write.
    written = {"max_tasks": 7, "max_memory_mib": 3, "max_file_mib": 2}
    confinement, faults = _read(tmp_path, limits=written)

    assert faults == []
    assert confinement.limits == Limits(tasks=7, memory_bytes=3 * 1024**2, file_bytes=2 * 1024**2)
    assert _read(tmp_path)[0].limits == Limits()

    # What has no effect is said. Plain commands see everything.
    _, faults = _read(tmp_path, sandbox="plain", readable=("/x",), limits={"max_tasks": 5})

    assert faults == [
        "limits has no effect with sandbox: plain",
        "readable has no effect with sandbox: plain",
    ]


@table(
    ("field", "path", "words"),
    [
        ("readable", "/", "every secret"),
        ("readable", "/proc/1", "lies in /proc"),
        ("readable", "/dev/shm", "lies in /dev"),  # noqa: S108 - it is refused
        ("readable", "../../.everturn", "gateway's own workspace"),
        ("readable", "../../.everturn/sessions", "gateway's own workspace"),
        ("writable", "../../.everturn/files", "gateway's own workspace"),
        ("writable", "../..", "holds agents"),
        ("writable", "..", "holds agents"),
        ("writable", ".", "folder of one"),
        ("writable", "../other/x", "folder of one"),
        ("writable", "/", "every secret"),
    ],
)
def test_what_no_command_may_see_is_refused(
    tmp_path: Path, field: str, path: str, words: str
) -> None:
    """A slip of the owner's would undo all of it."""
    _, faults = _read(tmp_path, **{field: (path,)})

    assert len(faults) == 1
    assert words in faults[0]
    assert faults[0].startswith(f"{field}: ")
