"""`everturn setup telegram` and `discord`: a bot's token, a look whether it works, the files."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from everturn_gateway.channels import check_channel
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.first_steps.keyring import key_in
from everturn_gateway.commands.first_steps.prompts import ask_secret, say
from everturn_gateway.commands.first_steps.writing import (
    Keep,
    explaining_faults,
    replace_file,
    write_key,
)
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.settings import run_async
from everturn_gateway.config.env_file import ENV_NAME
from everturn_gateway.config.settings import Config, load_config
from everturn_gateway.errors import GatewayError
from everturn_gateway.private_environ import process_environ
from everturn_gateway.yaml_files.editing import EditError, with_section

_ACCOUNT: Final = re.compile(r"@(\w{3,64})")
_WHERE: Final = {
    "telegram": "from @BotFather: https://t.me/BotFather, /newbot",
    "discord": "from https://discord.com/developers/applications, under Bot",
}


def set_up_bot(file: Path, platform: str, key_file: str, keep: Keep = "") -> dict[str, object]:
    """Set up the bot of a platform; return what was set up.

    Nothing is written before the platform knows the token.

    Args:
        file: The configuration, which is there.
        platform: `telegram` or `discord`.
        key_file: Holds the token; empty = the environment has it, or it is asked for.
        keep: Where the token is kept, see `write_key`.

    Raises:
        GatewayError: There is no token, or it does not work; says what to do.
    """
    variable = f"{platform.upper()}_BOT_TOKEN"
    given = key_in(key_file) if key_file else ""
    known = process_environ().get(variable, "")
    if not given and not known:
        title = f"The token of the bot, {_WHERE[platform]}"
        given = ask_secret(title, option=f"--key-file FILE, or set {variable}")
    crash_log.secrets.add(given)
    with explaining_faults(file):
        text = file.read_text(encoding="utf-8")
    token = f"${{{variable}}}"
    try:
        changed = with_section(text, "channels", platform, {"bot_token": token})
    except EditError as error:
        msg = f"{file}: {error}; set it by hand: channels: {{{platform}: {{bot_token: {token}}}}}"
        raise GatewayError(msg) from error
    environ = ChainMap({variable: given}, dict(process_environ())) if given else process_environ()
    config, account = _tried(file, changed, platform, environ)
    with explaining_faults(file):
        replace_file(file, changed, mode=file.stat().st_mode & 0o777)
    place: str | None = None
    if given:
        place = write_key(file.with_name(ENV_NAME), variable, given, keep=keep)
        say(f"token in {place}")
    say(f"bot      {platform} in {file}")
    if not config.routes and len(list(config.agents_dir.glob("*/agent.yaml"))) > 1:
        say("note     routes in everturn.yaml have to say which of the agents answers there")
    _next_steps(platform, account)
    return {"channel": platform, "account": account, "key_in": place}


def _tried(
    file: Path, changed: str, platform: str, environ: Mapping[str, str]
) -> tuple[Config, str]:
    """Log in as the bot, and tell what is found.

    Returns:
        The configuration with it, and its name; empty = it did not say.

    Raises:
        GatewayError: The configuration would have a fault, or the bot does not work.
    """
    draft = file.with_name(f".{file.name}.new")
    try:
        with explaining_faults(draft):
            replace_file(draft, changed, mode=0o600)
        config = load_config(draft, environ=environ)
    finally:
        draft.unlink(missing_ok=True)
    channel = next((each for each in config.channels if each.name == platform), None)
    if channel is None:
        msg = f"channels.{platform} is switched off in {file}"
        raise GatewayError(msg)
    secrets = crash_log.secrets
    for secret in config.secrets:
        secrets.add(secret)
    say("Logging in, to see whether it works ...")
    checked = run_async(partial(check_channel, channel, SystemClock(), secrets.mask))
    for line in checked.lines:
        say(f"  {line}")
    if checked.has_problem:
        msg = "nothing was written: the bot has to work first"
        raise GatewayError(msg)
    found = _ACCOUNT.search(" ".join(checked.lines))
    return config, found[1] if found else ""


def _next_steps(platform: str, account: str) -> None:
    where = f"https://t.me/{account}" if platform == "telegram" and account else "your bot"
    say(
        "\nNext:\n"
        "  everturn serve                run the gateway; one that runs has to be started again\n"
        f"  write to {where}: it answers with a code\n"
        "  everturn pair approve CODE    lets you in"
    )
