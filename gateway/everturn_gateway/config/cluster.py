"""What `everturn.yaml` says of several gateways that share one store."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, cast

from pydantic import Field, field_validator

from everturn_actors.json_values import as_object
from everturn_gateway.errors import Fault
from everturn_gateway.plugins import Registry
from everturn_gateway.yaml_files import Document, SettingsModel

SECRET_MIN: Final = 16  # characters; whoever guesses it may do what any of the gateways may
_UNIX_MAX: Final = 100  # bytes of a path; the kernel takes 108
_TCP: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")
_EVERYWHERE: Final = frozenset(("0.0.0.0", "[::]"))  # noqa: S104 - what is told apart here
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class ClusterTlsSettings(SettingsModel):
    """`cluster.tls`: how gateways on a network that others use talk to each other."""

    certificate: str
    "File with the certificate of this gateway, and what it was issued by; PEM."
    key: str
    "File with the key of it; PEM."
    authorities: str
    "File with those whose certificates are trusted; PEM. It names the addresses of `advertise`."


class ClusterSettings(SettingsModel):
    """`cluster`: this gateway among those that share its store."""

    node: str = ""
    "Its name, which no other one has; by default that of the machine."
    listen: str = "127.0.0.1:7070"
    "Where the others reach it: `host:port`, or the path of a socket on one machine."
    advertise: str = ""
    "The same as the others see it; needed where it listens on every address."
    secret: Annotated[str, Field(repr=False)] = ""
    "The same for all of them, at least 16 characters, best as `${EVERTURN_CLUSTER_SECRET}`."
    workspace_shared: bool = False
    "Whether all of them see the same workspaces of agents: on storage that they share."
    tls: ClusterTlsSettings | None = None
    """Encrypts what gateways say to each other, in all of them alike. Without it that is as safe as
    the network between them."""

    @field_validator("listen", "advertise")
    @classmethod
    def _check_address(cls, value: str) -> str:
        if value.startswith("/") and len(value.encode()) > _UNIX_MAX:
            message = f"must be the path of a socket of at most {_UNIX_MAX} bytes"
            raise ValueError(message)
        if value and not value.startswith("/") and not _is_tcp(value):
            message = "must be an address like 10.0.0.7:7070, or the path of a socket"
            raise ValueError(message)
        return value

    @field_validator("node")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if value and not _NAME.fullmatch(value):
            message = (
                "must begin with a letter or a digit, and hold these, `.`, `_` and `-` alone, at"
                " most 63"
            )
            raise ValueError(message)
        return value

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, value: str) -> str:
        if len(value) < SECRET_MIN:
            message = f"must have at least {SECRET_MIN} characters: openssl rand -hex 32"
            raise ValueError(message)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTls:
    """The files by which gateways know each other."""

    certificate: Path
    key: Path
    authorities: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """This gateway among those that share its store."""

    node: str
    "Its name."
    listen: str
    "`host:port`, or the path of a socket."
    advertise: str
    "The same as the others see it."
    secret: str = field(repr=False)
    "Known to all of them, and nobody else."
    tls: ClusterTls | None = None
    "None = what they say to each other is not encrypted."
    workspace_shared: bool = False
    "Whether all of them see the same workspaces of agents."
    is_one_machine: bool = False
    "Whether they are processes of one gateway, with one folder: then no agent needs a home."


def cluster_config(section: ClusterSettings | None, base: Path) -> ClusterConfig | None:
    """Return the value of a section; None = this gateway is alone. Paths begin at `base`."""
    if section is None:
        return None
    tls = section.tls
    return ClusterConfig(
        node=section.node or host_name(),
        listen=section.listen,
        advertise=section.advertise or section.listen,
        secret=section.secret,
        workspace_shared=section.workspace_shared,
        tls=None
        if tls is None
        else ClusterTls(
            certificate=base / tls.certificate,
            key=base / tls.key,
            authorities=base / tls.authorities,
        ),
    )


def cluster_faults(document: Document, registry: Registry) -> Iterator[Fault]:
    """Yield what several gateways cannot share, and why the others could not reach this one."""
    data: object = document.data.get("cluster")
    if not isinstance(data, Mapping):
        return
    section, store = cast("Mapping[str, object]", data), document.data.get("store")
    name = str(as_object(store).get("type", "file"))
    plugin = registry.stores.get(name)
    if plugin is not None and not plugin.is_shareable:
        message = (
            f"several gateways cannot share the store {name!r}; take `store: {{type: postgres}}`"
        )
        yield document.fault(("cluster",), message)
    if "secret" not in section:
        message = "is missing: what all gateways of the cluster know, and nobody else"
        yield document.fault(("cluster", "secret"), message)
    host = str(section.get("listen", "")).rpartition(":")[0]
    if host in _EVERYWHERE and not section.get("advertise"):
        message = f"is needed where it listens on {host}: the address that the others use"
        yield document.fault(("cluster", "advertise"), message)


def _is_tcp(value: str) -> bool:
    found = _TCP.fullmatch(value)
    try:
        host = found["host"].encode("idna") if found is not None else b""
    except UnicodeError:  # a label of it is empty, or longer than one may be
        return False
    return found is not None and bool(host) and 0 < int(found["port"]) < 65_536


def host_name() -> str:
    """Return the name of this machine, as a node may have it."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:63]
    return name if _NAME.fullmatch(name) else "node"
