"""A real Dovecot of one's own, where one is installed: `make dovecot` installs Debian's.

Source: https://doc.dovecot.org/2.3/configuration_manual/, read 2026-11-27.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import smtplib
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

COMMAND: Final = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or ""
_START_S: Final = 20.0
_LOOK_S: Final = 0.02
_USERS: Final = 100
_SETTINGS: Final = """\
base_dir = {folder}/run
log_path = {folder}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login
auth_failure_delay = 0
default_internal_user = {internal}
default_internal_group = {group}
default_login_user = {login}
first_valid_uid = 1
first_valid_gid = 1
mail_uid = {uid}
mail_gid = {gid}
mail_location = maildir:{folder}/mail/%u
auth_username_format = %Lu
passdb {{
  driver = passwd-file
  args = scheme=PLAIN {folder}/passwords
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u allow_all_users=yes
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    address = 127.0.0.1
    port = {imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Sent {{
    auto = create
    special_use = \\Sent
  }}
}}
"""


class Dovecot:
    """A server of mailboxes that can be stopped and started again, with what it keeps."""

    def __init__(self, folder: Path) -> None:
        """Make one with users `bot0` to `bot99`, whose password is `pw`.

        `folder` has to be one that others can look into, if it is run by root.
        """
        self.folder = folder
        self.imap_port, self.lmtp_port = _free_port(), _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        self._users = {f"bot{number}@everturn.test": "pw" for number in range(_USERS)}
        self.set_password("bot0@everturn.test", "pw")
        is_root = os.getuid() == 0  # then it wants to be others for the most part
        user = pwd.getpwnam("mail") if is_root else pwd.getpwuid(os.getuid())
        internal, login = ("dovecot", "dovenull") if is_root else (user.pw_name, user.pw_name)
        mails = folder / "mail"
        mails.mkdir(exist_ok=True)
        if is_root:
            folder.chmod(0o755)
            os.chown(mails, user.pw_uid, user.pw_gid)
        self._file = folder / "dovecot.conf"
        self._file.write_text(
            _SETTINGS.format(
                folder=folder,
                internal=internal,
                group=grp.getgrgid(pwd.getpwnam(internal).pw_gid).gr_name,
                login=login,
                uid=user.pw_uid,
                gid=user.pw_gid,
                imap=self.imap_port,
                lmtp=self.lmtp_port,
            )
        )

    def set_password(self, user: str, password: str) -> None:
        """Change the password of a user; it takes up to a second."""
        self._users[user] = password
        lines = (f"{user}:{{PLAIN}}{password}\n" for user, password in self._users.items())
        (self.folder / "passwords").write_text("".join(lines))

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = await to_thread.run_sync(self._started)
        with anyio.fail_after(_START_S):
            for port in (self.imap_port, self.lmtp_port):
                while True:
                    with suppress(OSError, anyio.EndOfStream):
                        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                            await stream.receive()
                            break
                    await anyio.sleep(_LOOK_S)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [COMMAND, "-F", "-c", str(self._file)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def stop(self) -> None:
        """End it, and the processes of its connections with it."""
        if self._process is not None:
            self._process.terminate()
            await to_thread.run_sync(self._process.wait)
            self._process = None

    async def deliver(self, address: str, raw: bytes) -> None:
        """Put a mail into an inbox."""

        def put() -> None:
            with smtplib.LMTP("127.0.0.1", self.lmtp_port) as client:
                client.sendmail("sender@example.org", [address], raw)

        await to_thread.run_sync(put)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
