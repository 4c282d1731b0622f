"""What of this machine every confined command sees: programs, and what a C library reads.

Nothing is shown because it is there: what stands on no list here does not exist for a command.
Folders of programs on the PATH of the gateway are added where they are a toolchain by its make: a
virtual environment, a Node.js, a Go, ... Reads the file system.

Sources: hier(7), ld.so(8), nsswitch.conf(5); the folders of certificates that Go's crypto/x509 and
OpenSSL know (Debian, Fedora, SUSE, Alpine, NixOS).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from everturn_gateway.tools.shell.confinement.environment import DEFAULT_PATH
from everturn_gateway.yaml_files import resolved

PROGRAMS: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/current-system"),
)
"Where systems keep programs and libraries; links are shown as links."
EMPTY: Final = ("/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/var")
"Folders that programs expect to be there."

_ETC: Final = (
    # The loader, and what a C library looks names up in. passwd, group and hosts are made up.
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "host.conf", "gai.conf"),
    *("protocols", "services", "rpc", "networks", "localtime", "timezone", "locale.alias"),
    *("locale.conf", "terminfo", "os-release", "lsb-release", "debian_version", "alpine-release"),
    *("fedora-release", "redhat-release", "system-release"),
    # Which program of several a name stands for, and files by their content and name.
    *("alternatives", "static", "mime.types", "magic", "magic.mime", "mailcap", "papersize"),
    # Whom to trust. The folders with private keys are others.
    *("ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ssl/ca-bundle.pem", "ca-certificates"),
    *("ca-certificates.conf", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf"),
    *("pki/ca-trust/extracted", "pki/java", "crypto-policies"),
    # Toolchains that keep a part of themselves here, with links from /usr to it.
    *("fonts", "texmf", "R", "perl", "php", "xml", "sgml", "ImageMagick-6", "ImageMagick-7"),
)
_ETC_BY_NAME: Final = ("java-*-openjdk", "java", "python3*")
_ONLINE: Final = ("resolv.conf", "hosts")
_ELSEWHERE: Final = ("/var/lib/ca-certificates",)  # SUSE: /etc/ssl/certs leads there
_HIDDEN: Final = ("/usr/local/etc",)
"Below what is shown, though it is configuration of this machine's services."

_FOLDERS_OF_PROGRAMS: Final = frozenset(("bin", "sbin", "condabin"))
_MADE_AS: Final = (
    "pyvenv.cfg",  # a virtual environment of Python
    "lib/python3*/os.py",  # a Python
    "conda-meta/history",
    "include/node/node.h",
    "lib/node_modules/npm",
    "lib/rustlib",
    "pkg/tool",  # a Go
    "lib/ruby/[0-9]*",
    "lib/jvm.cfg",  # a JDK
    "lib/modules",  # a JDK from 9 on
    "Cellar",  # a Homebrew
)
"What a folder holds, beside its programs, that is a toolchain."
_PARTS: Final = frozenset(
    (
        *("bin", "sbin", "condabin", "lib", "lib32", "lib64", "libexec", "include", "share"),
        *("man", "pkg", "src", "misc", "conf", "jmods", "jre", "ssl", "Cellar", "opt"),
        *("pyvenv.cfg", "release", "VERSION", "go.env", "conda-meta"),
    )
)
"What of it is shown: some people make a virtual environment in the folder of a project."


def etc_places(*, network: bool) -> Iterator[Path]:
    """Yield the files and folders of /etc to show, as they are called; each may be a link."""
    etc = Path("/etc")
    for name in (*_ETC, *(_ONLINE if network else ())):
        if _is_public(etc / name):
            yield etc / name
    for pattern in _ETC_BY_NAME:
        yield from filter(_is_public, sorted(etc.glob(pattern)))
    yield from filter(_is_public, map(Path, _ELSEWHERE))


def closed_places(shown: Iterator[Path]) -> Iterator[Path]:
    """Yield what nobody but its owner may read below system folders: the owner may be ours, root.

    Looks through the folders that `etc_places` gave, `shown`; of /usr only at what is known.
    """
    yield from map(Path, _HIDDEN)
    for place in shown:
        for folder, folders, files in os.walk(place):
            for name in (*folders, *files):
                each = Path(folder, name)
                if not each.is_symlink() and not _is_public(each):
                    yield each


def toolchains(environ: Mapping[str, str], *, barred: tuple[Path, ...]) -> list[Path]:
    """Return the parts of toolchains on the PATH that lie beside the system's folders.

    Links are resolved. A virtual environment brings the Python that it was made of. Nothing that
    holds one of the `barred` places (homes, the gateway's state, agents) is a toolchain, whatever
    it looks like.
    """
    found: dict[Path, None] = {}
    for folder in _on_path(environ):
        if (prefix := _prefix(folder, barred)) is not None:
            found[prefix] = None
            if (base := _base(prefix, barred)) is not None:
                found[base] = None
    return [part for prefix in found for name in sorted(_PARTS) if (part := prefix / name).exists()]


def unseen(environ: Mapping[str, str], shown: tuple[Path, ...]) -> list[Path]:
    """Return the folders on the PATH, as written, that no command sees beside those `shown`."""
    return [
        Path(written)
        for written in _entries(environ)
        if (folder := _folder(written)) is not None
        and not _is_system(folder)
        and not any(folder.is_relative_to(each) for each in shown)
    ]


def barred_places(environ: Mapping[str, str], *own: Path) -> tuple[Path, ...]:
    """Return the homes of people, and places of the gateway's `own`, links resolved."""
    homes = [Path(environ["HOME"])] if environ.get("HOME") else []
    for parent in ("/home", "/Users"):
        with suppress(OSError):
            homes += Path(parent).iterdir()
    barred: list[Path] = []
    for place in (*homes, Path("/root"), Path("/opt"), Path("/srv"), Path("/var"), *own):
        with suppress(OSError):
            barred.append(resolved(place))
    return tuple(barred)


def _prefix(folder: Path, barred: tuple[Path, ...]) -> Path | None:
    """Return the toolchain that a folder of programs belongs to; None where it is none."""
    prefix = folder.parent if folder.name in _FOLDERS_OF_PROGRAMS else folder
    if _is_system(prefix) or any(place.is_relative_to(prefix) for place in barred):
        return None
    with suppress(OSError):
        if any(next(prefix.glob(mark), None) for mark in _MADE_AS):
            return prefix
    return None


def _base(prefix: Path, barred: tuple[Path, ...]) -> Path | None:
    """Return the Python that a virtual environment was made of."""
    with suppress(OSError, UnicodeDecodeError):
        for line in (prefix / "pyvenv.cfg").read_text().splitlines():
            name, _, value = line.partition("=")
            # Some say a folder of links here; the program itself says where it is.
            if name.strip() == "home" and (python := Path(value.strip(), "python3")).exists():
                return _prefix(resolved(python).parent, barred)
    return None


def _on_path(environ: Mapping[str, str]) -> Iterator[Path]:
    return filter(None, map(_folder, _entries(environ)))


def _entries(environ: Mapping[str, str]) -> list[str]:
    path = environ.get("PATH") or DEFAULT_PATH
    return [each for each in dict.fromkeys(path.split(":")) if each.startswith("/")]


def _folder(written: str) -> Path | None:
    with suppress(OSError):
        folder = resolved(Path(written))
        return folder if folder.is_dir() else None
    return None


def _is_system(folder: Path) -> bool:
    return any(folder.is_relative_to(each) for each in PROGRAMS)


def _is_public(place: Path) -> bool:
    """Return whether anybody on this machine may read it: then it holds no secret."""
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    wanted = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return mode & wanted == wanted
