"""`everturn channel new` and `channel test`: a channel of one's own, begun and tried."""

from __future__ import annotations

import importlib.resources
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import anyio
from msgspec import structs

from everturn_channels.errors import ChannelError
from everturn_channels.plugin import PluginAdapter
from everturn_channels.plugin.trial import Trial, try_plugin
from everturn_gateway.channels.adapters import make_adapter
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.channel import unknown_channel
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, recorded
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.errors import GatewayError

# No longer than everturn.yaml takes them: `plugins.channels.ChannelName`.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_KIT: Final = "everturn_kit"
_PACKAGE: Final = "everturn_channels.plugin"
_SAY_S: Final = 60.0

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
    config = load(options, with_channels=True)
    channel = next((each for each in config.channels if each.name == name), None)
    if channel is None:
        raise unknown_channel(config, name)
    trials: list[Trial] = []

    def tell(trial: Trial) -> None:
        trials.append(trial)
        if not as_json:
            why = f": {trial.why}" if trial.why else ""
            sys.stdout.write(f"{trial.outcome:<9}  {trial.rule}{why}\n")
            sys.stdout.flush()

    async def main() -> int:
        clock = SystemClock()
        adapter = await make_adapter(channel, clock)
        if not isinstance(adapter, PluginAdapter):
            msg = f"channel {name!r} is no program of your own; `channel check` looks at it"
            raise GatewayError(msg)
        try:
            async with anyio.create_task_group() as tasks:

                async def prompt() -> None:
                    if say:
                        tasks.start_soon(_run, say)
                    else:
                        text = f"Write to the bot twice, within {wait_s:.0f} s.\n"
                        sys.stderr.write(text)

                await try_plugin(adapter.program, clock, tell, prompt=prompt, wait_s=wait_s)
                tasks.cancel_scope.cancel()
        except* ChannelError as errors:
            raise GatewayError(str(errors.exceptions[0])) from errors
        return EXIT_FAILED if any(each.outcome == "fault" for each in trials) else EXIT_OK

    code = run_async(main)
    if as_json:
        print_json([structs.asdict(each) for each in trials])
    return code


async def _run(say: str) -> None:
    """Run a command that writes to the bot; how it ends shows in what comes."""
    try:
        with anyio.move_on_after(_SAY_S):
            await anyio.run_process(
                shlex.split(say), stdout=subprocess.DEVNULL, stderr=None, check=False
            )
    except (OSError, ValueError) as error:
        sys.stderr.write(f"--say: {say!r} cannot be run: {error}\n")
