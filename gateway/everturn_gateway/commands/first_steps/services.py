"""`everturn setup service`: the gateway starts with the machine, as a service of its user."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from everturn_gateway.commands.first_steps.prompts import agrees, say
from everturn_gateway.commands.first_steps.writing import explaining_faults, replace_file
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.config.env_file import ENV_NAME, read_env_file
from everturn_gateway.config.settings import load_config
from everturn_gateway.errors import ConfigError
from everturn_gateway.private_environ import process_environ

_LABEL: Final = "everturn"
_LOGIN: Final = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "XDG_RUNTIME_DIR"})
"What a service of a user finds in its environment."
_UNIT: Final = """\
# Written by `everturn setup service`, which writes it anew.
[Unit]
Description=Everturn, a gateway between people and language-model agents
Wants=network-online.target
After=network-online.target

[Service]
# It says when it listens, when it stops, and twice a minute that its event loop turns.
Type=notify
NotifyAccess=main
WatchdogSec=60
TimeoutStartSec=120
TimeoutStopSec=30
WorkingDirectory={folder}
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
UMask=0077
Restart=on-failure
RestartSec=2
# 2 = the configuration is wrong; the same again would not help.
RestartPreventExitStatus=2
# Background processes of agents survive a restart of the gateway.
KillMode=process
OOMPolicy=continue

[Install]
WantedBy=default.target
"""


def set_up_service(file: Path, record: dict[str, object]) -> int:
    """Write the service of this user, and start it where a person agrees; return the exit code.

    Keys of the environment are not in it: they have to stand in `.env` beside the configuration.

    Args:
        file: The configuration.
        record: Is told the file of the service, and whether it was started.

    Raises:
        GatewayError: It cannot be written.
    """
    command = [str(Path(sysconfig.get_path("scripts"), "everturn")), "serve", "--config", str(file)]
    if sys.platform == "darwin":
        path = Path.home() / "Library" / "LaunchAgents" / f"{_LABEL}.plist"
        text = plist_text(command, file.parent)
        steps = [["launchctl", "load", "-w", str(path)]]
    else:
        path = _units() / f"{_LABEL}.service"
        text = unit_text(command, file.parent)
        steps = [
            ["systemctl", "--user", "daemon-reload"],
            ["systemctl", "--user", "enable", "--now", _LABEL],
        ]
    with explaining_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, mode=0o644)
    record.update(service=str(path), started=False)
    say(f"service  {path}")
    _tell_missing(file)
    can_start = shutil.which(steps[0][0]) is not None
    if can_start and agrees("Start it now, and with each login?", default=True):
        code = _run(steps)
        record["started"] = code == EXIT_OK
        return code
    say("\nNext:")
    for step in steps:
        say(f"  {' '.join(step)}")
    if sys.platform != "darwin":
        say("  loginctl enable-linger    has it run while you are not logged in, too")
    return EXIT_OK


def _tell_missing(file: Path) -> None:
    """Say what the configuration lacks where the environment of this terminal is not."""
    place = file.with_name(ENV_NAME)
    kept = {name: value for name, value in process_environ().items() if name in _LOGIN}
    try:
        load_config(file, environ=read_env_file(place) | kept)
    except ConfigError as error:
        say(f"note     it does not see this terminal's variables; keep them in {place}:")
        say(str(error))


def unit_text(command: Sequence[str], folder: Path) -> str:
    """Return a unit of systemd. Source: systemd.service(5), "Command lines"; systemd.syntax(7)."""
    return _UNIT.format(
        command=" ".join(map(_quoted, command)), folder=str(folder).replace("%", "%%")
    )


def plist_text(command: Sequence[str], folder: Path) -> str:
    """Return a job of launchd. Source: launchd.plist(5)."""
    job = {
        "Label": _LABEL,
        "ProgramArguments": list(command),
        "WorkingDirectory": str(folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
        "StandardErrorPath": str(folder / "everturn.log"),
    }
    return plistlib.dumps(job).decode()


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _units() -> Path:
    """Return where a user's units are. Source: systemd.unit(5), "User unit search path"."""
    given = Path(process_environ().get("XDG_CONFIG_HOME", ""))
    config = given if given.is_absolute() else Path.home() / ".config"
    return config / "systemd" / "user"


def _run(steps: Sequence[Sequence[str]]) -> int:
    for step in steps:
        done = subprocess.run(step, check=False)
        if done.returncode:
            say(f"{' '.join(step)} failed; the service is written, and does not run")
            return EXIT_FAILED
    say("The service runs; `everturn setup --check` says where.")
    return EXIT_OK
