"""What a confined command may ask of the kernel, as a filter for seccomp. Pure.

A sandbox is as strong as the kernel. Most commands need neither namespaces of their own, nor
keyrings, nor the parts of the kernel in which most of its holes were. And some sockets know nothing
of namespaces: AF_VSOCK speaks to the host of a virtual machine, and, where the network is the
machine's, AF_UNIX to its desktop and its containers, by names that are no files.

Sources: seccomp(2); asm/unistd_64.h, asm-generic/unistd.h, linux/audit.h of Linux 6.12; the list of
Flatpak (common/flatpak-run.c).
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_CLONE_NEWUSER: Final = 0x1000_0000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # types into the terminal of whoever started it
_X32: Final = 0x4000_0000  # from here on: calls of another kind, on x86-64

# Same numbers everywhere, as all calls that are newer than 2019.
_NEW: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "openat2": 437,
    "memfd_secret": 447,
    "setxattrat": 463,
    "removexattrat": 466,
    "fchmodat2": 452,
    "open_tree_attr": 467,
}
_X86_64: Final = {
    **_NEW,
    "open": 2,
    "creat": 85,
    "chmod": 90,
    "fchmod": 91,
    "mknod": 133,
    "openat": 257,
    "mknodat": 259,
    "fchmodat": 268,
    "ioctl": 16,
    "socket": 41,
    "clone": 56,
    "syslog": 103,
    "uselib": 134,
    "pivot_root": 155,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "lookup_dcookie": 212,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "clock_settime": 227,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "setns": 308,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_GENERIC: Final = {
    **_NEW,
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "removexattr": 14,
    "lremovexattr": 15,
    "fremovexattr": 16,
    "mknodat": 33,
    "fchmod": 52,
    "fchmodat": 53,
    "openat": 56,
    "lookup_dcookie": 18,
    "ioctl": 29,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "quotactl": 60,
    "acct": 89,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "syslog": 116,
    "reboot": 142,
    "settimeofday": 170,
    "socket": 198,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "clone": 220,
    "swapon": 224,
    "swapoff": 225,
    "perf_event_open": 241,
    "open_by_handle_at": 265,
    "setns": 268,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}
MACHINES: Final[Mapping[str, tuple[int, Mapping[str, int]]]] = MappingProxyType(
    {
        "x86_64": (0xC000_003E, _X86_64),
        "aarch64": (0xC000_00B7, _GENERIC),
        "riscv64": (0xC000_00F3, _GENERIC),
    }
)
"By what `uname -m` says: the kernel's number for it, and those of its calls."

_MODE_AT: Final = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "creat": 1,
    "mknod": 1,
    "mknodat": 2,
    "open": 2,
    "openat": 3,
}
"Which argument of a call is the mode that a file gets."
_JUDGED: Final = frozenset(("ioctl", "socket", "clone", *_MODE_AT))  # by what is asked of them
_MISSING: Final = frozenset(
    ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "openat2")
)
"What programs can do without, where it does not exist."
_ATTRIBUTES: Final = frozenset(
    (
        *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
        *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    )
)
"What would take the mark of text from outside off a file; as on a disk that keeps none."
_RUNS_AS_OWNER: Final = 0o6000  # S_ISUID, S_ISGID
_MAKES_FILE: Final = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE

_LOAD, _EQUAL, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where they stand in `struct seccomp_data`
_ALLOW: Final = 0x7FFF_0000
_ERROR: Final = 0x0005_0000


@functools.cache
def call_filter(*, network: bool, machine: str | None = None) -> bytes | None:
    """Return the program that judges each call; None where the machine's numbers are not known.

    Args:
        network: Whether the command has the machine's own network, and with it its sockets.
        machine: As `uname -m` has it; by default this one.
    """
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    architecture, calls = known
    families = [_AF_INET, _AF_INET6, _AF_NETLINK, *([] if network else [_AF_UNIX])]
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture, yes=1),
        _refuse(errno.ENOSYS),
        _step(_LOAD, _NUMBER),
    ]
    if calls is _X86_64:
        program += [_step(_AT_LEAST, _X32, no=1), _refuse(errno.ENOSYS)]
    for name, number in calls.items():
        if name not in _JUDGED:
            program += [_step(_EQUAL, number, no=1), _refuse(_error_of(name))]
    program += _judged(calls["ioctl"], 1, [_TIOCSTI, _TIOCLINUX], refused=errno.EPERM)
    program += _judged(calls["clone"], 0, [_CLONE_NEWUSER], refused=errno.EPERM, test=_HAS)
    for name, argument in _MODE_AT.items():
        if name in calls:
            program += _mode_judged(calls[name], argument, is_open=name.startswith("open"))
    program += [
        _step(_EQUAL, calls["socket"], no=len(families) + 3),
        _step(_LOAD, _ARGUMENTS),
        *(_step(_EQUAL, each, yes=len(families) - at) for at, each in enumerate(families)),
        _refuse(errno.EAFNOSUPPORT),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _error_of(name: str) -> int:
    if name in _ATTRIBUTES:
        return errno.EOPNOTSUPP
    return errno.ENOSYS if name in _MISSING else errno.EPERM


def _judged(
    number: int, argument: int, values: list[int], *, refused: int, test: int = _EQUAL
) -> list[bytes]:
    """Return the steps that refuse a call where an argument has one of some values."""
    return [
        _step(_EQUAL, number, no=len(values) + 3),
        _step(_LOAD, _ARGUMENTS + 8 * argument),
        *(_step(test, each, yes=len(values) - at) for at, each in enumerate(values)),
        _step(_RETURN, _ALLOW),
        _refuse(refused),
    ]


def _mode_judged(number: int, argument: int, *, is_open: bool) -> list[bytes]:
    """Return the steps that refuse to make a file that runs as its owner.

    It would belong to the gateway's user, and anybody on this machine could run it.
    """
    steps = [
        _step(_LOAD, _ARGUMENTS + 8 * argument),
        _step(_HAS, _RUNS_AS_OWNER, yes=1),
        _step(_RETURN, _ALLOW),
        _refuse(errno.EPERM),
    ]
    if is_open:  # without these the mode is whatever stood there
        flags = _step(_LOAD, _ARGUMENTS + 8 * (argument - 1))
        steps = [flags, _step(_HAS, _MAKES_FILE, yes=1), _step(_RETURN, _ALLOW), *steps]
    return [_step(_EQUAL, number, no=len(steps)), *steps]


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERROR | number)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Return one instruction: what it does, with what, and how many are left out after it."""
    return struct.pack("HBBI", code, yes, no, value)
