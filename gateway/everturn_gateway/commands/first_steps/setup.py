"""`everturn setup`: which model, its key, one call, and then the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import ModelError
from everturn_actors.spec import ModelSpec
from everturn_gateway import commands
from everturn_gateway.commands import scaffold
from everturn_gateway.commands.first_steps.keyring import Keyring
from everturn_gateway.commands.first_steps.prompts import agrees, ask, choose, choose_name, say
from everturn_gateway.commands.first_steps.trying import (
    Tried,
    described_try,
    try_model,
    try_record,
)
from everturn_gateway.commands.first_steps.writing import Keep, model_in, write_key, write_model
from everturn_gateway.commands.local import pull_into
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import DEFAULT_AGENT, Options
from everturn_gateway.commands.shared.printing import recorded
from everturn_gateway.commands.shared.questions import can_ask
from everturn_gateway.commands.shared.settings import load, log_nowhere, run_async
from everturn_gateway.config.env_file import ENV_NAME
from everturn_gateway.config.home import home_folder
from everturn_gateway.config.settings import Config, is_set_up
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import installed
from everturn_gateway.plugins.providers import key_variable
from everturn_gateway.private_environ import process_environ, read_beside_again
from everturn_gateway.providers.local.weights import missing_engine
from everturn_gateway.providers.servers import (
    KeyRefusedError,
    NoListError,
    Server,
    find_servers,
    models_of,
)
from everturn_gateway.providers.transport.endpoints import PROVIDERS

_TITLES: Final = {
    "openai": "OpenAI",
    "anthropic": "Anthropic (Claude)",
    "gemini": "Google (Gemini)",
    "openrouter": "OpenRouter: models of all makers behind one key",
}
_OTHER: Final = "other"
_NO_MODEL: Final = "builtin"
MORE: Final = {
    "none": "nothing more: talk to it",
    "telegram": "a bot on Telegram",
    "discord": "a bot on Discord",
    "slack": "an app in Slack",
    "matrix": "a bot on Matrix",
    "whatsapp": "a bot on WhatsApp",
    "email": "a mailbox that answers",
    "service": "the gateway starts when you log in: bots, jobs, the console in a browser",
}
"What is asked behind the model, and its answers."
_TRIES: Final = 3  # of a key, before somebody has to look for it


class Answers(Struct, frozen=True, kw_only=True):
    """What was answered on the command line; empty = it is asked."""

    agent: str = ""
    provider: str = ""
    base_url: str = ""
    model: str = ""
    key_file: str = ""
    "Holds the key; `-` = stdin."
    keep: Keep = ""
    "Where the key is kept: in a file beside the configuration, or the system's keyring."
    test: bool = True
    "Whether the model is asked for a word before anything is written."
    also: str = ""
    "What is set up behind the model, see `MORE`; empty = a person is asked, who was asked before."


class _Chosen(Struct, frozen=True, kw_only=True):
    """What is going to be written."""

    model: ModelSpec
    key: str = ""
    "Empty = none is new."
    keep: Keep = ""
    "Where the key is kept, see `write_key`."
    tried: Tried | None = None
    "How it answered; None = it was not asked."


def check(options: Options, *, as_json: bool = False) -> int:
    """Tell what is set up and whether it works; see `check_setup`."""
    with recorded(as_json=as_json) as record:
        return commands.checking.check_setup(options, record)


def setup(
    options: Options, answers: Answers, *, goes_on: bool = False, as_json: bool = False
) -> int:
    """Find out which model answers, try it, and write it down; return the exit code.

    Nothing is written before the model has answered. Where the command that offered it `goes_on`,
    nobody is told what to do next. With `as_json` what was written is printed as JSON.

    Raises:
        GatewayError: An answer is missing or wrong, or the model cannot be used; says what to do.
        ModelError: It gave no answer; says why.
    """
    folder = place_of(options)
    with recorded(as_json=as_json) as record:
        config = _config(folder)
        agent = _agent(config, answers.agent)
        say(f"Setting up Everturn in {folder}; the agent is {agent}.")
        chosen = _choose(answers, config)
        say("")
        record.update(_write(folder, config, agent, chosen))
        if not goes_on:
            _set_up_more(folder, answers, record)
            _next_steps(folder, agent)
    return EXIT_OK


def _set_up_more(folder: Path, answers: Answers, record: dict[str, object]) -> None:
    """Set up what else is wanted, one after the other; a bot that does not work ends nothing."""
    file = folder / scaffold.CONFIG_NAME
    is_asked = not answers.also and answers == Answers(agent=answers.agent) and can_ask()
    while is_asked or answers.also:
        part = answers.also or choose("What else?", [*MORE.items()], option="--also")
        if part == "none":
            return
        try:
            _set_up_part(file, part, record)
        except GatewayError as error:
            if not is_asked:
                raise
            say(f"{error}.")
        if not is_asked:
            return


def _set_up_part(
    file: Path,
    part: str,
    record: dict[str, object],
    *,
    key_file: str = "",
    settings: Mapping[str, str] = {},
    keep: Keep = "",
) -> int:
    record["config"] = str(file)
    if part == "service":
        return commands.services.set_up_service(file, record)
    record.update(
        commands.bots.set_up_bot(file, part, key_file=key_file, settings=settings, keep=keep)
    )
    return EXIT_OK


def test_models(options: Options, agent: str, *, as_json: bool) -> int:
    """Ask the models of one agent, or (empty) all, for a word; see `check_models`."""
    with recorded(as_json=as_json) as record:
        return commands.checking.check_models(load(options), agent, record)


def use_model(options: Options, answers: Answers, *, as_json: bool = False) -> int:
    """Have an agent use another model; return the exit code. Nothing is asked but a key.

    Args:
        options: Where the configuration is.
        answers: `model` is its name, of the agent's own provider where it names none before a `/`.
        as_json: Print what was written as JSON.

    Raises:
        GatewayError: There is no such agent, or see `setup`.
    """
    config = load(options)
    agent = _agent(config, answers.agent)
    present = model_in(config.agents_dir / agent / "agent.yaml")
    provider, slash, name = answers.model.partition("/")
    # A vendor before the name is a part of it at those who serve models of many.
    if answers.base_url:
        provider, name = "openai", answers.model
    elif (
        not slash or present.provider == "openrouter" or provider not in installed().providers.names
    ):
        provider, name = present.provider, answers.model
    is_same = provider == present.provider
    base_url = answers.base_url or (present.base_url if is_same else "")
    folder = config.path.parent if config.path else Path.cwd()
    with recorded(as_json=as_json) as record:
        given = replace(answers, provider=provider, base_url=base_url, model=name)
        chosen = _choose(given, config)
        record.update(_write(folder, config, agent, chosen, with_config=bool(chosen.key)))
    return EXIT_OK


def set_up(
    options: Options,
    what: str,
    *,
    key_file: str,
    settings: Sequence[str] = (),
    keep: Keep = "",
    as_json: bool = False,
) -> int:
    """Set up a bot (`telegram`, `slack` and so on) or a `service`; return the exit code.

    `settings` are as `--set` takes them, `FIELD=VALUE`.

    Raises:
        GatewayError: No agent is set up yet, or what is set up does not work; says what to do.
    """
    file = place_of(options) / scaffold.CONFIG_NAME
    if not file.is_file():
        msg = f"there is no {file} yet: begin with `everturn setup`"
        raise GatewayError(msg)
    load(Options(config=file))
    with recorded(as_json=as_json) as record:
        pairs = [each.partition("=") for each in settings]
        given = {name.strip(): value.strip() for name, _, value in pairs}
        return _set_up_part(file, what, record, key_file=key_file, settings=given, keep=keep)


def place_of(options: Options) -> Path:
    """Return the folder whose configuration is written: here where something is set up, else home.

    Raises:
        GatewayError: Parts of a configuration are named in place of it.
    """
    if options.workspace or options.agents_dir:
        msg = "setup writes a whole configuration: name it with --config"
        raise GatewayError(msg)
    if options.config is not None:
        if options.config.name != scaffold.CONFIG_NAME:
            msg = f"setup writes {scaffold.CONFIG_NAME}, and not {options.config.name}"
            raise GatewayError(msg)
        return options.config.absolute().parent
    here = Path.cwd()
    return here if is_set_up(here) else home_folder(process_environ())


def _config(folder: Path) -> Config:
    """Return the configuration of a folder, or the one that will be written there."""
    file = folder / scaffold.CONFIG_NAME
    if file.is_file():
        return load(Options(config=file))
    log_nowhere()
    return Config(
        workspace=folder / scaffold.WORKSPACE_FOLDER, agents_dir=folder / scaffold.AGENTS_FOLDER
    )


def _agent(config: Config, given: str) -> str:
    """Return which agent gets the model: the one that is named, the only one, or `assistant`."""
    if given:
        return scaffold.check_name(given)
    names = sorted(file.parent.name for file in config.agents_dir.glob("*/agent.yaml"))
    if len(names) == 1:
        return names[0]
    if names and DEFAULT_AGENT not in names:
        return choose("Which agent?", [(name, name) for name in names], option="--agent")
    return DEFAULT_AGENT


# --- which model ---------------------------------------------------------------------------------


def _choose(answers: Answers, config: Config) -> _Chosen:
    """Return a model that answers, and the key that it needs."""
    while True:
        provider, base_url, known = _server(answers)
        if provider == _NO_MODEL:
            return _Chosen(model=ModelSpec(provider=_NO_MODEL, name="builtin"))
        plugin = installed().providers.get(provider)
        if plugin is None:
            msg = f"there is no provider {provider!r}; there are: {scaffold.provider_names()}"
            raise GatewayError(msg)
        keyring = Keyring(plugin, config)
        spec = ModelSpec(provider=provider, name=answers.model or "-", base_url=base_url)
        if provider in PROVIDERS:
            names = _opened(keyring, answers, spec, known)
            name = answers.model or choose_name("Which model?", names, option="--model")
        else:
            name = answers.model or plugin.usual_model or ask("Its name", option="--model")
        spec = ModelSpec(provider=provider, name=scaffold.check_model(name), base_url=base_url)
        if provider == "local" and name == plugin.usual_model:
            pull_into(config)
        tried: Tried | None = None
        if answers.test:
            tried = _answers(spec, keyring, config, is_last=bool(answers.model))
        if tried or not answers.test:
            return _Chosen(model=spec, key=keyring.new, keep=answers.keep, tried=tried)


def _server(answers: Answers) -> tuple[str, str, tuple[str, ...]]:
    """Return provider, address, and the models that are known to be there."""
    if answers.provider or answers.base_url:
        return answers.provider or "openai", answers.base_url, ()
    say("Looking for model servers on this machine ...")
    found = run_async(partial(find_servers, process_environ()))
    choices = _choices(found)
    picked = choose("Who runs the model?", choices, option="--provider and --model")
    if picked.isdecimal():
        server = found[int(picked)]
        usual = server.provider == "ollama" and server.base_url.endswith("127.0.0.1:11434")
        return server.provider, "" if usual else server.base_url, server.models
    if picked == _OTHER:
        title = "Address of the API, such as http://gpu-box:8000/v1"
        return "openai", ask(title, option="--base-url"), ()
    return picked, "", ()


def _choices(found: list[Server]) -> list[tuple[str, str]]:
    here = [
        (str(number), f"{each.title} on this machine ({len(each.models)} models, no key)")
        for number, each in enumerate(found)
    ]
    others = [name for name in installed().providers.names if name in _TITLES]
    toy = (
        []
        if missing_engine()
        else [("local", "a small one of this machine, to look around (93 MB)")]
    )
    return [
        *here,
        *((name, _TITLES[name]) for name in others),
        (_OTHER, "another server that speaks OpenAI's API"),
        *toy,
        (_NO_MODEL, "none yet: the built-in responder, which is no model"),
    ]


def _opened(
    keyring: Keyring, answers: Answers, spec: ModelSpec, known: tuple[str, ...]
) -> list[str]:
    """Return the models that the key opens, which is asked for where it is missing.

    Raises:
        GatewayError: There is no key, it is refused, or the server cannot be asked.
    """
    if answers.key_file:
        keyring.read(answers.key_file)
    elif keyring.is_needed(spec):
        keyring.ask(spec.base_url)
    if known:
        return list(known)
    for _ in range(_TRIES):
        try:
            return run_async(partial(models_of, spec, keyring.environ))
        except KeyRefusedError as error:
            if answers.key_file or not can_ask():
                raise
            say(f"{error}.")
            keyring.ask(spec.base_url)
        except NoListError:
            if not answers.model:
                raise
            return []
    return run_async(partial(models_of, spec, keyring.environ))


def _answers(spec: ModelSpec, keyring: Keyring, config: Config, *, is_last: bool) -> Tried | None:
    """Try a model, and tell of it; return how it answered, None where another one is to be chosen.

    Raises:
        GatewayError: It gave no answer, and nobody chooses another one.
    """
    say(f"Asking {spec.name} for a word ...")
    try:
        tried = run_async(partial(try_model, spec, config, keyring.environ))
    except ModelError as error:
        say(f"It gave no answer: {crash_log.secrets.mask(str(error))}")
        if not is_last and can_ask() and agrees("Choose another one?", default=True):
            return None
        msg = (
            "nothing was written: the model has to answer first; `everturn help troubleshooting`"
            " says what helps, and --no-test goes on without"
        )
        raise GatewayError(msg) from error
    say(described_try(tried))
    return tried


# --- the files -----------------------------------------------------------------------------------


def _write(
    folder: Path, config: Config, agent: str, chosen: _Chosen, *, with_config: bool = True
) -> dict[str, object]:
    """Write all that was found out; return what that is.

    Args:
        folder: Of the configuration.
        config: What it says, or will say.
        agent: Which agent gets the model.
        chosen: The model, and its key.
        with_config: Whether a configuration is written where there is none; a key needs one.
    """
    written = scaffold.write_config(folder) if with_config else []
    place: str | None = None
    if chosen.key:
        variable = key_variable(chosen.model.provider)
        place = write_key(folder / ENV_NAME, variable, chosen.key, keep=chosen.keep)
        say(f"key in   {place}")
        read_beside_again()  # what stood there before is no other place
        if process_environ().get(variable, chosen.key) != chosen.key:
            say(f"note     {variable} of the environment goes before it: take that one out")
    path = config.agents_dir / agent / "agent.yaml"
    if not path.exists():
        written += scaffold.write_agent(path.parent, agent, chosen.model)
    elif write_model(path, chosen.model):
        say(f"note     {path} has limits of tokens: see whether they are those of this model")
    say(f"model    {chosen.model.provider}/{chosen.model.name} for {agent}")
    return {
        **scaffold.written_record(folder, agent, chosen.model, written),
        "key_in": place,
        "answer": try_record(chosen.tried) if chosen.tried else None,
    }


def _next_steps(folder: Path, agent: str) -> None:
    is_found = folder == home_folder(process_environ()) or folder == Path.cwd()
    more = "" if is_found else f" --config {folder / scaffold.CONFIG_NAME}"
    name = "" if agent == DEFAULT_AGENT else f" {agent}"
    say(
        f"\nNext:\n  everturn chat{name}{more}     talk to it here\n"
        f"  everturn serve{more}    run the gateway: console in a browser, HTTP, bots, jobs\n"
        f"  everturn setup telegram{more}    a bot; or discord, slack, matrix, whatsapp, email\n"
        f"  everturn setup service{more}     a start at login\n"
        "A gateway that runs takes this over by itself. Again, or another model: everturn setup"
    )
