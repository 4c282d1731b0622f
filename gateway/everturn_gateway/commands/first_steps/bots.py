"""`everturn setup telegram`, `slack` and so on: what a bot needs, a look at it, the files."""

from __future__ import annotations

import re
import secrets
from collections import ChainMap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.json_values import as_object
from everturn_gateway.builtin.slack import slack_manifest
from everturn_gateway.channels import check_channel
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.first_steps.keyring import key_in
from everturn_gateway.commands.first_steps.prompts import ask, ask_secret, say
from everturn_gateway.commands.first_steps.writing import (
    Keep,
    explaining_faults,
    replace_file,
    write_key,
)
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.questions import can_ask
from everturn_gateway.commands.shared.settings import run_async
from everturn_gateway.config.env_file import ENV_NAME
from everturn_gateway.config.settings import Config, load_config
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.private_environ import process_environ
from everturn_gateway.yaml_files.editing import EditError, Section, section_in, with_section

_ACCOUNT: Final = re.compile(r"@(\w{3,64})")
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_SLACK_FILE: Final = "slack-manifest.yaml"


class _Secret(Struct, frozen=True, kw_only=True):
    """What nobody else may know: it stands in the environment, and the configuration names it."""

    field: str
    variable: str
    title: str
    "What is asked; empty = it is made up."
    instead: str = ""
    "A field that may stand in its place."


class _Setting(Struct, frozen=True, kw_only=True):
    """What stands in the configuration itself."""

    field: str
    "Below another one after a dot: `imap.host`."
    title: str
    instead: str = ""
    "As above."


def _secret(platform: str, field: str, title: str = "", instead: str = "") -> _Secret:
    variable = f"{platform}_{field}".upper()  # as the examples of the documentation have it
    return _Secret(field=field, variable=variable, title=title, instead=instead)


def _token(platform: str, title: str) -> _Secret:
    return _secret(platform, "bot_token", f"The token of the bot, {title}")


_ASKED: Final[Mapping[str, Sequence[_Secret | _Setting]]] = {
    "telegram": (_token("telegram", "from @BotFather: https://t.me/BotFather, /newbot"),),
    "discord": (_token("discord", "from https://discord.com/developers/applications, under Bot"),),
    "slack": (
        _token("slack", "xoxb-..., shown by Install to Workspace"),
        _secret(
            "slack",
            "app_token",
            "The token of the app, xapp-..., from Basic Information, App-Level Tokens, with"
            " the scope connections:write",
            instead="signing_secret",
        ),
    ),
    "matrix": (
        _Setting(field="homeserver", title="Its homeserver, https://matrix.example.org"),
        _Setting(
            field="user", title="The account of the bot, @bot:example.org", instead="access_token"
        ),
        _secret("matrix", "password", "The password of the account", instead="access_token"),
    ),
    "whatsapp": (
        _Setting(
            field="phone_number_id", title="The phone number ID, under WhatsApp, API Setup: digits"
        ),
        _secret(
            "whatsapp",
            "token",
            "The token of a system user, from https://business.facebook.com/settings",
        ),
        _secret("whatsapp", "app_secret", "The secret of the app, under App settings, Basic"),
        _secret("whatsapp", "verify_token"),
    ),
    "email": (
        _Setting(field="address", title="The address of the bot, bot@example.org"),
        _Setting(field="imap.host", title="Where its mail is read, imap.example.org"),
        _Setting(field="smtp.host", title="Where its mail is sent, smtp.example.org"),
        _secret("email", "password", "Its password, or an app password", instead="token_command"),
        _secret("email", "secret_tag", instead="authserv_id"),
    ),
}


def set_up_bot(
    file: Path, platform: str, *, key_file: str, settings: Mapping[str, str], keep: Keep = ""
) -> dict[str, object]:
    """Set up the bot of a platform, or change one; return what was set up.

    Nothing is written before the platform lets the bot in. What stands there of one that was set up
    stays where nothing else is given or answered.

    Args:
        file: The configuration, which is there.
        platform: One of those of `_ASKED`.
        key_file: Holds the first secret; empty = the environment has it, or it is asked for.
        settings: What is to stand in the configuration; what is missing is asked for.
        keep: Where secrets are kept, see `write_key`.

    Raises:
        GatewayError: Something is missing, or it does not work; says what to do.
    """
    if platform == "slack":
        _tell_manifest(file)
    with explaining_faults(file):
        text = file.read_text(encoding="utf-8")
    try:
        present = section_in(text, "channels", platform)
        if present and can_ask():
            say(f"channels.{platform} stands in {file}: what is there stays by Enter.")
        given, fields = _answers(platform, present, key_file, settings)
        for value in given.values():
            crash_log.secrets.add(value)
        changed = with_section(text, "channels", platform, _changes(present, fields))
    except EditError as error:
        msg = f"{file}: {error}; set channels.{platform} by hand: `everturn help {platform}`"
        raise GatewayError(msg) from error
    environ = ChainMap(given, dict(process_environ()))
    config, account = _tried(file, changed, platform, environ)
    place: str | None = None
    for variable, value in given.items():  # first: the configuration is not valid without them
        place = write_key(file.with_name(ENV_NAME), variable, value, keep=keep)
    with explaining_faults(file):
        replace_file(file, changed, mode=file.stat().st_mode & 0o777)
    if place:
        say(f"secret in {place}")
    say(f"bot      {platform} in {file}")
    if not config.routes and len(list(config.agents_dir.glob("*/agent.yaml"))) > 1:
        say("note     routes in everturn.yaml have to say which of the agents answers there")
    _next_steps(platform, account, {**present, **fields}, environ)
    return {"channel": platform, "account": account, "key_in": place}


def _answers(
    platform: str, present: Mapping[str, object], key_file: str, settings: Mapping[str, str]
) -> tuple[dict[str, str], Section]:
    """Return the secrets that are new, by variable, and the fields of the section.

    Args:
        platform: One of those of `_ASKED`.
        present: What stands there of it.
        key_file: Holds the first secret, see `set_up_bot`.
        settings: What is to stand there.
    """
    given, found = dict[str, str](), dict(settings)
    others = {*present, *settings}
    asked = [each for each in _ASKED[platform] if each.instead not in others]
    secrets_asked = [each for each in asked if isinstance(each, _Secret)]
    for each in asked:
        if isinstance(each, _Setting) and not found.get(each.field):
            old = _text_at(present, each.field)
            if not old or can_ask():
                option = f"--set {each.field}=..."
                found[each.field] = ask(each.title, option=option, default=old)
    for each in secrets_asked:
        old = _text_at(present, each.field)
        reference = _VARIABLE.fullmatch(old)
        variable = reference[1] if reference else each.variable
        is_there = bool(process_environ().get(variable) if reference or not old else old)
        if key_file and each is secrets_asked[0]:
            value = key_in(key_file)
        elif not is_there:
            value = _new(each, variable)
        elif old and each.title and can_ask():
            value = ask_secret(each.title, option="--key-file FILE", can_keep=True)
        else:
            value = ""
        if value:
            given[variable] = value
        if value or not old:
            found[each.field] = f"${{{variable}}}"
    return given, _nested(found)


def _text_at(present: Mapping[str, object], field: str) -> str:
    """Return what a field says, also one of a mapping, `imap.host`; empty = nothing."""
    outer, _, inner = field.partition(".")
    found = as_object(present.get(outer)).get(inner) if inner else present.get(outer)
    return "" if found is None or isinstance(found, dict | list) else str(found)


def _nested(found: Mapping[str, str]) -> Section:
    """Return fields, those with a dot in mappings."""
    fields: dict[str, str | dict[str, str]] = {}
    for name, value in found.items():
        outer, _, inner = name.partition(".")
        below = fields.get(outer)
        if inner:
            fields[outer] = {**(below if isinstance(below, dict) else {}), inner: value}
        else:
            fields[outer] = value
    return fields


def _changes(present: Mapping[str, object], fields: Section) -> Section:
    """Return the fields that say something else than what stands there."""
    changes: dict[str, str | Mapping[str, str]] = {}
    for name, value in fields.items():
        if isinstance(value, str):
            changes |= {name: value} if _text_at(present, name) != value else {}
        elif inner := {n: v for n, v in value.items() if _text_at(present, f"{name}.{n}") != v}:
            changes[name] = inner
    return changes


def _new(secret: _Secret, variable: str) -> str:
    if not secret.title:
        return secrets.token_hex(8)
    return ask_secret(secret.title, option=f"--key-file FILE, or set {variable}")


def _tell_manifest(file: Path) -> None:
    """Write down what makes the app on Slack, and say where to paste it."""
    path = file.with_name(_SLACK_FILE)
    with explaining_faults(path):
        replace_file(path, slack_manifest("my-bot"), mode=0o644)
    say(
        f"At https://api.slack.com/apps: Create New App, From a manifest, and paste {path}.\n"
        "Then Install to Workspace."
    )


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
    except ConfigError as error:
        faults = [replace(each, file=file, line=0) for each in error.faults]
        # Its lines are those of a file that nobody sees.
        raise ConfigError(str(error) if not faults else "", faults=faults) from error
    finally:
        draft.unlink(missing_ok=True)
    channel = next((each for each in config.channels if each.name == platform), None)
    if channel is None:
        msg = f"channels.{platform} is switched off in {file}"
        raise GatewayError(msg)
    masked = crash_log.secrets
    for secret in config.secrets:
        masked.add(secret)
    say("Logging in, to see whether it works ...")
    checked = run_async(partial(check_channel, channel, SystemClock(), masked.mask))
    for line in checked.lines:
        say(f"  {line}")
    if checked.has_problem:
        msg = "nothing was written: the bot has to work first"
        raise GatewayError(msg)
    found = _ACCOUNT.search(" ".join(checked.lines))
    return config, found[1] if found else ""


def _next_steps(
    platform: str, account: str, fields: Mapping[str, object], environ: Mapping[str, str]
) -> None:
    where = "your bot"
    match platform:
        case "telegram" if account:
            where = f"https://t.me/{account}"
        case "slack" if account:
            where = f"@{account} in Slack; into a channel it comes by /invite @{account}"
        case "matrix":
            where = f"{fields.get('user')}, or invite it into a room"
        case "whatsapp":
            # Meta asks for both, on a page of its own.
            token = _value_of(fields, "verify_token", environ)
            say(
                "\nWhile the gateway runs, under WhatsApp, Configuration: Callback URL is"
                " https://YOUR-HOST/channels/whatsapp/webhook,\nVerify token is"
                f" {token}; then subscribe to messages"
            )
            where = "the number"
        case "email":
            tag = _value_of(fields, "secret_tag", environ)
            address = str(fields.get("address"))
            # Whoever knows it is believed to be who the mail says: so only its owner is told.
            where = address.replace("@", f"+{tag}@") if tag else address
        case _:
            pass
    say(
        "\nNext:\n"
        "  everturn serve                run the gateway; one that runs has to be started again\n"
        f"  write to {where}: it answers with a code\n"
        "  everturn pair approve CODE --owner me    lets you in, as the owner: who may use /model,"
        " let others in and answer what the agent asks"
    )


def _value_of(fields: Mapping[str, object], name: str, environ: Mapping[str, str]) -> str:
    """Return a secret, which stands in the environment where the configuration names a variable."""
    told = _text_at(fields, name)
    reference = _VARIABLE.fullmatch(told)
    return environ.get(reference[1], "") if reference else told
