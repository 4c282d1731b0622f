"""`everturn channel new`, `login` and `test`: a channel of one's own, begun and tried."""

from __future__ import annotations

import importlib.resources
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import structs

from everturn_actors.errors import CoreError
from everturn_channels.errors import ChannelError, ClientError
from everturn_channels.health import ChannelStatus, Login
from everturn_channels.plugin import PluginAdapter
from everturn_channels.plugin.trial import Trial, try_plugin
from everturn_gateway.channels.adapters import make_adapter
from everturn_gateway.client import ask_channels
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.channel import unknown_channel
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line, recorded
from everturn_gateway.commands.shared.settings import api_token, load, run_async
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    import segno
else:
    segno = late("segno")

# No longer than everturn.yaml takes them: `plugins.channels.ChannelName`.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_KIT: Final = "everturn_kit"
_PACKAGE: Final = "everturn_channels.plugin"
_SAY_S: Final = 60.0
_LOGIN_S: Final = 600.0  # for its owner to log in
_LOOK_S: Final = 0.5

_TEST: Final = '''\
"""Plays Everturn to the channel: `pytest`, for which the channel has to be set up."""

import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path


def say() -> None:
    """Write to the bot twice, as a person does on the platform."""
    with socket.create_connection(("127.0.0.1", 7000)) as person:
        person.sendall(b"ann\\nhello\\nhello again\\n")
        time.sleep(20)  # and stay for the answer


def test_the_channel_keeps_the_protocol() -> None:
    """What it breaks is printed, rule by rule."""
    say = shlex.join([sys.executable, __file__])
    command = ["everturn", "channel", "test", "{name}", "--say", say, "--wait", "10"]
    beside = Path(__file__).parents[1]  # where everturn.yaml is
    assert subprocess.run(command, cwd=beside, check=False).returncode == 0


if __name__ == "__main__":
    say()
'''

_SECTION: Final = """\
channels:
  external:
    - name: {name}
      command: python3
      args: [{program}]
"""


def new_channel(name: str, folder: Path, *, as_json: bool = False) -> int:
    """Write a channel that works, the kit that it stands on, and a test; return the exit code.

    Args:
        name: Of the channel.
        folder: Where its own folder comes.
        as_json: Print what was written as JSON.

    Raises:
        GatewayError: The name is not valid, or something is there already. Nothing is written then.
    """
    if not _NAME.fullmatch(name):
        msg = f"{name!r} is no channel's name: lower-case letters, digits and hyphens, at most 40"
        raise GatewayError(msg)
    # A file `signal.py` would stand in the place of the library's own.
    module = name.replace("-", "_").removesuffix("_channel") + "_channel"
    place = folder / name
    files = {
        f"{module}.py": _source("template.py").replace(f"{_PACKAGE}.kit", _KIT),
        f"{_KIT}.py": _source("kit.py"),
        f"test_{module}.py": _TEST.format(name=name),
    }
    try:
        place.mkdir(parents=True)
        for file, text in files.items():
            (place / file).write_text(text, encoding="utf-8")
    except FileExistsError as error:
        msg = f"{place} exists already; nothing was written"
        raise GatewayError(msg) from error
    except OSError as error:
        msg = f"{place} cannot be written: {error.strerror or error}"
        raise GatewayError(msg) from error
    with recorded(as_json=as_json) as record:
        for file in files:
            sys.stdout.write(f"wrote {place / file}\n")
        section = _SECTION.format(name=name, program=place / f"{module}.py")
        record.update(name=name, written=[str((place / file).absolute()) for file in files])
        sys.stdout.write(
            f"\nName it in everturn.yaml:\n\n{section}\nThen try it, and write to it:\n"
            f"  everturn channel check {name}\n  everturn channel test {name}\n"
            f"  everturn serve\n  nc 127.0.0.1 7000    # first a name, then messages\n"
        )
    return EXIT_OK


def _source(name: str) -> str:
    return (importlib.resources.files(_PACKAGE) / name).read_text(encoding="utf-8")


def try_channel(options: Options, name: str, *, say: str, wait_s: float, as_json: bool) -> int:
    """Play the gateway to a channel of one's own; print each rule; return the code, 1 for a fault.

    Args:
        options: Where the configuration is.
        name: Of the channel.
        say: A command that makes somebody write to the bot twice; empty = the person is asked to.
        wait_s: For the first message.
        as_json: Print one JSON document.

    Raises:
        ConfigError: The configuration is not valid.
        GatewayError: There is no such channel, or it is no program.
    """
    channel = _channel(load(options, with_channels=True), name)
    trials: list[Trial] = []

    def tell(trial: Trial) -> None:
        trials.append(trial)
        if not as_json:
            why = f": {trial.why}" if trial.why else ""
            sys.stdout.write(f"{trial.outcome:<9}  {trial.rule}{why}\n")
            sys.stdout.flush()

    async def main() -> int:
        clock = SystemClock()
        adapter = await _program(channel)
        try:
            async with anyio.create_task_group() as tasks:

                async def prompt() -> None:
                    if say:
                        tasks.start_soon(_run, say)
                    else:
                        text = f"Write to the bot twice, within {wait_s:.0f} s.\n"
                        sys.stderr.write(text)

                await try_plugin(
                    adapter.program, clock, tell, prompt=prompt, show=_show_aside, wait_s=wait_s
                )
                tasks.cancel_scope.cancel()
        except* ChannelError as errors:
            raise GatewayError(str(errors.exceptions[0])) from errors
        return EXIT_FAILED if any(each.outcome == "fault" for each in trials) else EXIT_OK

    code = run_async(main)
    if as_json:
        print_json([structs.asdict(each) for each in trials])
    return code


def log_in(options: Options, name: str, *, as_json: bool) -> int:
    """Show what a channel of one's own asks of its owner, until it is logged in; return the code.

    Where a gateway runs it is that one's login; else the program is started for it, and ended.

    Args:
        options: Where the configuration is.
        name: Of the channel.
        as_json: Print the account as JSON in the end; what is to be done goes to stderr.

    Raises:
        ConfigError: The configuration is not valid.
        GatewayError: There is no such channel, it is no program, or it cannot be logged in.
    """
    config = load(options, with_channels=True)
    channel = _channel(config, name)

    async def main() -> int:
        running = await find_running(config.workspace)
        with recorded(as_json=as_json) as record:
            if running is not None:
                account = await _follow(running.url, api_token(config), name)
                lines = [f"logged in as {account or 'nobody in particular'}"]
            else:
                adapter = await _program(channel)
                try:
                    lines = list(await adapter.log_in(_show))
                except ChannelError as error:
                    raise GatewayError(str(error)) from error
            for line in lines:
                print_line(f"{name}  {line}")
            record.update(name=name, lines=lines)
        return EXIT_OK

    return run_async(main)


async def _follow(url: str, token: str, name: str) -> str:
    """Show what the channel of a running gateway asks for until it is connected; return as whom."""
    shown: Login | None = None
    with anyio.move_on_after(_LOGIN_S):
        while True:
            status = await _status(url, token, name)
            if status.state == "connected":
                return status.account
            if status.state == "failed setup" and status.login is None:
                raise GatewayError(status.error)
            if status.login is not None and status.login != shown:
                shown = status.login
                _show(shown)
            await anyio.sleep(_LOOK_S)
    msg = f"channel {name!r} was not logged in within {_LOGIN_S / 60:.0f} minutes"
    raise GatewayError(msg)


async def _status(url: str, token: str, name: str) -> ChannelStatus:
    try:
        statuses = await ask_channels(url, token=token)
    except (CoreError, ClientError) as error:
        raise GatewayError(str(error)) from error
    found = next((each for each in statuses if each.name == name), None)
    if found is None:
        msg = f"the running gateway does not know channel {name!r}; start it anew"
        raise GatewayError(msg)
    return found


def _show(login: Login) -> None:
    """Print what is to be done, with its QR code."""
    print_line(login.text)
    if login.qr:
        try:
            segno.make(login.qr, micro=False).terminal(sys.stdout, compact=True)
        except segno.DataOverflowError:
            print_line(login.qr)  # more than any QR code holds
    sys.stdout.flush()


def _show_aside(login: Login) -> None:
    """Print it beside what a command says."""
    with redirect_stdout(sys.stderr):
        _show(login)


def _channel(config: Config, name: str) -> ChannelConfig:
    channel = next((each for each in config.channels if each.name == name), None)
    if channel is None:
        raise unknown_channel(config, name)
    return channel


async def _program(channel: ChannelConfig) -> PluginAdapter:
    """Return the program of a channel; nothing of it runs yet."""
    adapter = await make_adapter(channel, SystemClock())
    if not isinstance(adapter, PluginAdapter):
        msg = f"channel {channel.name!r} is no program of your own; `channel check` looks at it"
        raise GatewayError(msg)
    return adapter


async def _run(say: str) -> None:
    """Run a command that writes to the bot; how it ends shows in what comes."""
    try:
        with anyio.move_on_after(_SAY_S):
            await anyio.run_process(
                shlex.split(say), stdout=subprocess.DEVNULL, stderr=None, check=False
            )
    except (OSError, ValueError) as error:
        sys.stderr.write(f"--say: {say!r} cannot be run: {error}\n")
