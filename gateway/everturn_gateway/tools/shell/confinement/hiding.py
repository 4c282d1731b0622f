"""Which places no confined command sees, though they lie in a folder that is shown.

A command sees little, but a workspace may be a project that holds the gateway's own files, and an
owner may list a whole home as readable.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.tools.environment import ToolEnvironment

RULES: Final = ("agent.yaml", "policy.yaml", "policy.local.yaml")
"What rules an agent, in its folder: it may hold tokens, and says what would not be asked about."

_IN_A_HOME: Final = (
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".opera",
    ".pki",
    ".anthropic",
    ".openai",
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".terraform.d",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".s3cfg",
    ".boto",
    ".vault-token",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".node_repl_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".cache/huggingface/token",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/op",
    ".config/git/credentials",
    ".config/pip/pip.conf",
    ".config/rclone",
    ".config/doctl",
    ".config/BraveSoftware",
    ".config/Code",
    ".config/Signal",
    ".config/anthropic",
    ".config/github-copilot",
    ".config/microsoft-edge",
    ".config/opera",
    ".config/vivaldi",
    ".config/chromium",
    ".config/google-chrome",
    ".config/composer/auth.json",
    ".composer/auth.json",
    ".local/share/keyrings",
    ".local/share/containers",
    ".local/share/opencode/auth.json",
    ".local/share/TelegramDesktop",
    "snap/chromium",
    "snap/firefox",
    ".var/app",
)
"Where programs keep keys, passwords and what was typed, below a person's home."
_OF_THE_SYSTEM: Final = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/ssl/private",
    "/etc/letsencrypt",
    "/etc/NetworkManager/system-connections",
)
_HOST_KEYS: Final = (Path("/etc/ssh"), late_pattern(r"ssh_host_.*_key"))
_SECRET_FILE: Final = late_pattern(
    r"\.env|\.env\.(?!example$|sample$|template$|dist$).*|.*\.env|.*\.(?:key|pem|p12|pfx)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|credentials(?:\.json)?|secrets?\.(?:ya?ml|json|toml)"
    r"|everturn\.ya?ml",
    re.IGNORECASE,
)
"Files beside the gateway's configuration and the agents that hold secrets by their name."


def secret_places(environment: ToolEnvironment, *around: Path) -> Iterator[Path]:
    """Yield folders and files that hold secrets, as written; not all of them need exist.

    These are the gateway's own state, other agents' folders, where this machine's programs keep
    keys, and what is called like a secret beside the gateway's files and `around`. Reads a few
    folders: not for the event loop.
    """
    yield environment.state
    yield from _neighbours(environment.home)
    for home in _homes(environment.environ):
        for name in _IN_A_HOME:
            yield home / name
    yield from map(Path, _OF_THE_SYSTEM)
    yield from _named(*_HOST_KEYS)
    own = (
        environment.state.parent,
        environment.home,
        environment.home.parent,
        Path.cwd(),
        *_homes(environment.environ),
    )
    for folder in dict.fromkeys((*own, *around)):
        yield from _named(folder, _SECRET_FILE)


def _homes(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the home of whoever runs the gateway, as the environment and the system name it."""
    homes = [Path(environ["HOME"])] if environ.get("HOME") else []
    with contextlib.suppress(KeyError):  # a user without an entry, as in some containers
        homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return tuple(dict.fromkeys(home for home in homes if home.is_absolute()))


def _neighbours(home: Path) -> Iterator[Path]:
    """Yield the folders of other agents: they hold memory and policies that are not ours."""
    for entry in _entries(home.parent):
        folder = home.parent / entry
        if folder != home and (folder / "agent.yaml").is_file():
            yield folder


def _named(folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
    for entry in _entries(folder):
        if names.fullmatch(entry):
            yield folder / entry


def _entries(folder: Path) -> tuple[str, ...]:
    """Return the names in a folder; none where it is not there, or cannot be read by us either."""
    try:
        return tuple(sorted(entry.name for entry in folder.iterdir()))
    except OSError:
        return ()
