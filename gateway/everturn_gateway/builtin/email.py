"""The e-mail channel as a plug-in: its settings, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field

from everturn_channels.adapter import Adapter
from everturn_channels.ingestion.history import BacklogLimits
from everturn_gateway.builtin.addresses import TunnelUrl, proxy_password
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import (
    ChannelPlugin,
    ChannelSetup,
    PluginChannelSettings,
    secret_fields,
)
from everturn_gateway.yaml_files import FieldPath, SettingsModel

if TYPE_CHECKING:
    from everturn_channels import email
else:
    email = late("everturn_channels.email")

_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*/=?^_`{|}~-]+@([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+")
_HOST: Final = re.compile(r"[A-Za-z0-9:._-]+")
_TAG: Final = re.compile(r"[A-Za-z0-9]{12,40}")
_PORTS: Final = {
    "imap": {"tls": 993, "starttls": 143, "none": 143},
    "smtp": {"tls": 465, "starttls": 587, "none": 25},
}


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        msg = "must be an address like bot@example.org, without a name and without a +tag"
        raise ValueError(msg)
    return value.lower()


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        msg = "must be the name of a host, like imap.example.org"
        raise ValueError(msg)
    return value


def _tag(value: str) -> str:
    if value and not _TAG.fullmatch(value):
        msg = "must be 12 to 40 letters and digits: whoever guesses it can write in any name"
        raise ValueError(msg)
    return value.lower()  # addresses are compared so


class MailServerSettings(SettingsModel):
    """`imap` or `smtp` of `channels.email`."""

    host: Annotated[str, AfterValidator(_host)]
    "Its name."
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    "Where it listens, where that is not the usual place for its security."
    security: Literal["tls", "starttls", "none"] = "tls"
    "How the connection is kept secret; none only on this machine."


class EmailSettings(PluginChannelSettings):
    """`channels.email`."""

    address: Annotated[str, AfterValidator(_address)]
    "The bot's own: `bot@example.org`."
    imap: MailServerSettings
    "Where mail is read."
    smtp: MailServerSettings
    "Where mail is sent."
    user: str = ""
    "As whom it logs in; the address where none is named."
    password: Annotated[str, Field(repr=False)] = ""
    "Of that user; of Gmail and others an app password."
    token_command: tuple[str, ...] = ()
    "A program that prints an OAuth 2.0 access token, instead of a password."
    display_name: Annotated[str, Field(max_length=100)] = ""
    "What people read beside the address."
    authserv_id: str = ""
    "Who says in Authentication-Results whether senders are authentic."
    secret_tag: Annotated[str, Field(repr=False), AfterValidator(_tag)] = ""
    "Mail to `bot+TAG@example.org` is believed without."
    proxy: TunnelUrl | None = None
    "Through which both servers are reached."
    inbox: str = "INBOX"
    "The folder that is read."
    sent_folder: str = ""
    "The folder of sent mail, where the server does not mark one."
    files_sent: bool = False
    "Whether the bot files what it sends there."
    mails_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 30
    "So many mails of one address are read in an hour."


def _email(setup: ChannelSetup[EmailSettings]) -> Adapter:
    settings, common = setup.settings, setup.settings.common()
    return email.EmailAdapter(
        name=setup.name,
        account=email.EmailAccount(
            address=settings.address,
            imap=_server("imap", settings.imap),
            smtp=_server("smtp", settings.smtp),
            user=settings.user or settings.address,
            password=settings.password,
            token_command=settings.token_command,
            folder=setup.folder,
            display_name=settings.display_name,
            proxy=settings.proxy or "",
            inbox=settings.inbox,
            sent_folder=settings.sent_folder,
            files_sent=settings.files_sent,
            authserv_id=settings.authserv_id,
            secret_tag=settings.secret_tag,
            mails_per_hour=settings.mails_per_hour,
            where=f"channels.{setup.name}",
        ),
        clock=setup.clock,
        backlog=BacklogLimits(
            max_messages=common.backlog_max_messages, max_age_s=common.backlog_max_age_s
        ),
    )


def _server(kind: str, settings: MailServerSettings) -> email.MailServer:
    port = settings.port or _PORTS[kind][settings.security]
    return email.MailServer(host=settings.host, port=port, security=settings.security)


def _faults(settings: EmailSettings) -> Iterator[tuple[FieldPath, str]]:
    if not settings.password and not settings.token_command:
        message = "password is empty; set EMAIL_PASSWORD, or a token_command, or enabled: false"
        yield ("password",), message
    if settings.password and settings.token_command:
        yield ("token_command",), "stands beside password; keep one of the two"
    if not settings.authserv_id and not settings.secret_tag:
        message = (
            "is required, or secret_tag: anybody can write any From line, and one of the two says"
            " whom to believe"
        )
        yield ("authserv_id",), message
    for name, server in (("imap", settings.imap), ("smtp", settings.smtp)):
        if server.security == "none" and not _is_here(server.host):
            message = (
                "none would send the password for all to read; only a host on this machine has it"
            )
            yield (name, "security"), message


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _identity(settings: EmailSettings) -> str:
    return f"{settings.address} {settings.inbox}"


def _secrets(settings: EmailSettings) -> Iterator[str]:
    yield from secret_fields(settings)
    yield from proxy_password(settings.proxy)


EMAIL: Final = ChannelPlugin(
    name="email",
    interface=1,
    summary="a mailbox: IMAP and SMTP",
    docs="docs/email.md",
    settings=EmailSettings,
    extra="everturn[email]",
    libraries=("imap_tools", "aiosmtplib", "markdown_it"),
    make=_email,
    faults=_faults,
    secrets=_secrets,
    identity=_identity,
)
