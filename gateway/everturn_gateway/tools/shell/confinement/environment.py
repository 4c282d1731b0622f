"""What a command finds in its environment. Pure.

Programs take orders from files in the home of whoever runs them, and from variables. A command gets
an empty home of its own and no variable of the gateway's but those named here; what programs read
beside the home is pointed at nothing. git also reads `.git/config` in the folder where it runs,
which whoever writes to the workspace has written: values of the command line (`GIT_CONFIG_COUNT`)
win over those of a file, so the keys that start programs are forced.

Not every key can be forced: names of a filter, a driver, an alias or a remote are free, and
`diff.external` has no value that means "none". Whoever judges a command has to look for those.
Sources: git-config(1), git(1), "Environment Variables"; curl(1), npm-config(7), psql(1), pip.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from everturn_gateway.tools.environment import ToolEnvironment

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"Where programs are, for a gateway that has no PATH."
NOTHING: Final = "/dev/null"

GIT_CONFIG: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Programs that git starts by itself, as part of commands that look harmless.
        "core.fsmonitor": "false",
        "core.hooksPath": NOTHING,
        "core.alternateRefsCommand": "true",
        "core.attributesFile": NOTHING,
        "gc.auto": "0",
        "maintenance.auto": "false",
        "submodule.recurse": "false",
        # A repository that lies in a folder as mere files, without `.git`, is none.
        "safe.bareRepository": "explicit",
        # To show, to edit, to ask.
        "core.pager": "cat",
        "core.editor": "true",
        "sequence.editor": "true",
        "interactive.diffFilter": "cat",
        "core.askPass": "",
        "credential.helper": "",
        "credential.interactive": "false",
        # To reach others.
        "core.sshCommand": "ssh",
        "protocol.ext.allow": "never",
        # To sign, and to check who signed.
        "commit.gpgSign": "false",
        "tag.gpgSign": "false",
        "tag.forceSignAnnotated": "false",
        "push.gpgSign": "false",
        "log.showSignature": "false",
        "merge.verifySignatures": "false",
        "gpg.program": "false",
        "gpg.openpgp.program": "false",
        "gpg.x509.program": "false",
        "gpg.ssh.program": "false",
        "gpg.ssh.defaultKeyCommand": "false",
    }
)
"What no file of a repository can set: key and forced value."

_GIT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": NOTHING,
        "GIT_CONFIG_GLOBAL": NOTHING,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_ASKPASS": "",
        "GIT_EDITOR": "true",
        "GIT_SEQUENCE_EDITOR": "true",
        "GIT_MERGE_AUTOEDIT": "no",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_PROXY_COMMAND": "",
        "GIT_SSH_COMMAND": "ssh",
        "GIT_TERMINAL_PROMPT": "0",
    }
)
_OTHERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TERM": "dumb",
        "SHELL": "/bin/sh",
        "PAGER": "cat",
        "MANPAGER": "cat",
        "EDITOR": "true",
        "VISUAL": "true",
        "SSH_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "HISTFILE": NOTHING,
        "INPUTRC": NOTHING,
        "LESSHISTFILE": "-",
        "LESSSECURE": "1",
        "PSQLRC": NOTHING,
        "WGETRC": NOTHING,
        "PIP_CONFIG_FILE": NOTHING,
        "PYTHONNOUSERSITE": "1",
        "npm_config_userconfig": NOTHING,
        "npm_config_globalconfig": NOTHING,
    }
)
_MAIL_DOMAIN: Final = "everturn.invalid"  # RFC 2606: nobody's, ever


def command_environ(
    environment: ToolEnvironment, home: str, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the whole environment of a command of an agent.

    Of the gateway's own environment only PATH, USER, LANG and TZ are passed on.

    Args:
        environment: Whose command it is.
        home: Its home: an empty folder that nobody reads after it, never the workspace.
        extra: What its owner gives it beside that; wins.
    """
    mine = environment.environ
    environ = {
        "PATH": mine.get("PATH") or DEFAULT_PATH,
        "LANG": mine.get("LANG") or "C.UTF-8",
        "TMPDIR": "/tmp",
        **home_environ(home),
        **_OTHERS,
        **git_environ(environment.agent, environment.files),
    }
    if user := mine.get("USER"):
        environ["USER"] = environ["LOGNAME"] = user
    if zone := mine.get("TZ"):
        environ["TZ"] = zone
    return {**environ, **(extra or {})}


def home_environ(home: str) -> dict[str, str]:
    """Return the variables that lead programs to a home and to nothing else."""
    return {
        "HOME": home,
        "CURL_HOME": home,
        "XDG_CACHE_HOME": posixpath.join(home, ".cache"),
        "XDG_CONFIG_HOME": posixpath.join(home, ".config"),
        "XDG_DATA_HOME": posixpath.join(home, ".local/share"),
        "XDG_STATE_HOME": posixpath.join(home, ".local/state"),
    }


def git_environ(agent: str, files: Path) -> dict[str, str]:
    """Return what keeps git to its own programs, and names `agent` as the author of commits.

    No repository is looked for above `files`, the agent's workspace.
    """
    config = {
        **GIT_CONFIG,
        "user.name": agent,
        "user.email": f"{agent}@{_MAIL_DOMAIN}",
        "init.defaultBranch": "main",
    }
    environ = {
        **_GIT,
        "GIT_CEILING_DIRECTORIES": str(files.parent),
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (key, value) in enumerate(config.items()):
        environ[f"GIT_CONFIG_KEY_{number}"] = key
        environ[f"GIT_CONFIG_VALUE_{number}"] = value
    return environ
