"""Programs that run what stands behind their name. Pure.

To allow, such a program is what its name says and nothing else. To deny, one looks through it.
"""

from __future__ import annotations

from typing import Final

WRAPPERS: Final = frozenset(
    (
        # shells, and what runs a text as one
        "ash", "bash", "busybox", "csh", "dash", "eval", "fish", "ksh", "mksh", "pwsh", "rbash",
        "script", "sh", "source", "ssh", "su", "tcsh", "toybox", "trap", "tmux", "watch",
        "xonsh", "zsh", ".",
        # parts of the shell that run a command by another way
        "builtin", "command", "coproc", "exec", "time",
        # as somebody else, somewhere else, with other limits
        "bwrap", "caffeinate", "chpst", "chroot", "chrt", "cpulimit", "dbus-run-session",
        "doas", "env", "faketime", "fakeroot", "firejail", "flock", "gosu", "ionice", "ltrace",
        "nice", "nohup", "nsenter", "numactl", "pkexec", "prlimit", "proot", "proxychains",
        "proxychains4", "rlwrap", "runas", "runcon", "runuser", "setarch", "setpriv", "setsid",
        "ssh-agent", "stdbuf", "strace", "sudo", "systemd-inhibit", "systemd-run", "taskset",
        "timeout", "torsocks", "unbuffer", "unshare", "valgrind", "xvfb-run",
        # once for each of many
        "at", "batch", "entr", "fd", "fdfind", "find", "forfiles", "ifne", "parallel", "pexec",
        "rush", "xargs",
    )
)  # fmt: skip
FEEDERS: Final = frozenset(("parallel", "pexec", "rush", "xargs"))
"Those that give the program behind them further words, which they read from elsewhere."
