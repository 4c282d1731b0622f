"""Whose mailbox it is, where its servers are, and with what it logs in."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
from msgspec import Struct

from everturn_channels.errors import ConnectionLostError, SetupError

Security: TypeAlias = Literal["tls", "starttls", "none"]
"How a connection is kept secret: from its first byte, from a command on, or not at all."

_COMMAND_S: Final = 30.0
_WORDS: Final = 200


class MailServer(Struct, frozen=True, kw_only=True):
    """Where one of the two servers is."""

    host: str
    port: int
    security: Security = "tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailAccount:
    """A mailbox, as its owner set it up."""

    address: str
    "`bot@example.org`, in lower case."
    imap: MailServer
    smtp: MailServer
    user: str
    "As whom it logs in."
    password: str = field(default="", repr=False)
    token_command: tuple[str, ...] = ()
    "A program that prints an access token, instead of a password; it runs in `folder`."
    folder: Path = Path()
    display_name: str = ""
    "What stands beside the address; empty = nothing."
    inbox: str = "INBOX"
    "The folder that is read."
    sent_folder: str = ""
    "The folder of mail that was sent; empty = the one that the server marks as such."
    files_sent: bool = False
    "Whether what is sent is filed there by the bot, since the server does not do it."
    authserv_id: str = ""
    "The name under which the mail server says whether a sender is authentic; empty = it does not."
    secret_tag: str = field(default="", repr=False)
    "Mail to `bot+TAG@example.org` is believed; empty = none is for that."
    proxy: str = ""
    "Through which both servers are reached: `socks5://host:port`, or `http://`; empty = none."
    mails_per_hour: int = 30
    "So many mails of one address are read in an hour."
    where: str = "channels.email"
    "Where its settings stand, for people."

    @property
    def local_part(self) -> str:
        """What stands before the `@`."""
        return self.address.rpartition("@")[0]

    @property
    def domain(self) -> str:
        """What stands behind the `@`."""
        return self.address.rpartition("@")[2]

    @property
    def secret_address(self) -> str:
        """The address with the tag; empty = there is none."""
        return f"{self.local_part}+{self.secret_tag}@{self.domain}" if self.secret_tag else ""

    def is_own(self, address: str) -> bool:
        """Whether an address is the bot's, with whatever tag."""
        local, _, domain = address.rpartition("@")
        return domain == self.domain and local.partition("+")[0] == self.local_part


class Login(Struct, frozen=True, kw_only=True):
    """With what one connection logs in."""

    user: str
    secret: str
    "The password, or the access token."
    is_token: bool

    def __repr__(self) -> str:
        return f"Login(user={self.user!r})"


async def login_of(account: EmailAccount) -> Login:
    """Return with what a connection logs in now; a token is asked for each time.

    Raises:
        SetupError: The program that prints tokens cannot be started, or prints none.
        ConnectionLostError: It fails, perhaps only now.
    """
    if not account.token_command:
        return Login(user=account.user, secret=account.password, is_token=False)
    name = account.token_command[0]
    try:
        with anyio.fail_after(_COMMAND_S):
            done = await anyio.run_process(
                account.token_command,
                check=False,
                cwd=account.folder,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
    except TimeoutError as error:
        msg = f"token_command ({name}) takes longer than {_COMMAND_S:g} s"
        raise ConnectionLostError(msg) from error
    except OSError as error:
        msg = f"token_command ({name}) cannot be started: {error.strerror or error}"
        raise SetupError(msg) from error
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().split("\n")[-1][:_WORDS]
        msg = f"token_command ({name}) failed with status {done.returncode}: {words}"
        raise ConnectionLostError(msg)
    token = done.stdout.decode("ascii", "replace").strip()
    if not token or any(not "!" <= char <= "~" for char in token):
        msg = f"token_command ({name}) has to print an access token, and nothing else"
        raise SetupError(msg)
    return Login(user=account.user, secret=token, is_token=True)
