"""`everturn setup`: from nothing to an answer, by options, by questions, again, and in vain."""

from __future__ import annotations

import json
import plistlib
import re
from functools import partial
from pathlib import Path

import anyio
import pytest
import yaml
from support.answers import Answer
from support.command import everturn, start, terminal, write_agent
from support.email_contract import BOT as MAILBOX
from support.email_world import open_email_world
from support.matrix_routes import open_matrix_api
from support.model_api import ModelApi, open_model_api, refused, unauthorized
from support.patience import WAIT_S
from support.slack_api import APP_TOKEN, BOT_TOKEN
from support.slack_methods import open_slack_api
from support.tables import table
from support.telegram_api import BOT, TOKEN, open_telegram_api
from support.whatsapp_api import APP_SECRET, NUMBER_ID, open_whatsapp_api
from support.whatsapp_api import TOKEN as WHATSAPP_TOKEN

from everturn_actors.model import ToolCall
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import Person
from everturn_gateway.app import open_keyed
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.first_steps.services import plist_text, unit_text
from everturn_gateway.config.env_file import read_env_file
from everturn_gateway.config.settings import load_config
from everturn_gateway.doctor.workspace import permission_findings
from everturn_gateway.errors import ConfigError

KEY = "sk-test-0123456789abcdef"


def listed(*names: str) -> dict[str, object]:
    """Return a list of models, oldest first."""
    rows = [{"id": name, "object": "model", "created": n} for n, name in enumerate(names)]
    return {"object": "list", "data": rows}


def files(folder: Path) -> list[str]:
    """Return what stands in a folder, as paths."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


async def test_by_options_and_from_anywhere(tmp_path: Path) -> None:
    """One command, a key from stdin, and the next one talks to the model."""
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    env = {"EVERTURN_HOME": str(home)}
    async with open_model_api(default=Answer(text="Hello there")) as api:
        options = ("--base-url", api.url, "--model", "small:4b", "--key-file", "-")
        done = await everturn(
            "setup", *options, "--json", cwd=here, stdin=f"{KEY}\n".encode(), env=env
        )
        said = await everturn("run", "hi", cwd=here, env=env)
        found = await everturn("setup", "--check", "--json", cwd=here, env=env)
        checked = await everturn("setup", "--check", cwd=here, env=env)
        headers = {request.headers["authorization"] for request in api.requests}

    assert done.code == 0, done.err
    assert "It answers in" in done.err
    record = json.loads(done.out)
    assert record["model"] == {"provider": "openai", "name": "small:4b"}
    assert (record["base_url"], record["answer"]["text"]) == (api.url, "Hello there")
    assert str(home / "agents" / "assistant" / "agent.yaml") in record["written"]
    assert json.loads(found.out)["models"][0]["text"] == "Hello there"
    assert json.loads(found.out)["gateway"] is None
    assert KEY not in done.out + done.err + checked.out
    assert said.out == "Hello there\n"
    assert headers == {f"Bearer {KEY}"}
    assert (checked.code, "Hello there" in checked.out) == (0, True)
    assert (home / ".env").read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert (home / ".env").stat().st_mode & 0o777 == 0o600
    assert list(here.iterdir()) == []


async def test_a_key_is_kept_in_the_systems_keyring(tmp_path: Path) -> None:
    """No file has it; where it is gone, the line that names it is told with what to do."""
    ring = tmp_path / "ring.json"
    env = {
        "EVERTURN_HOME": str(tmp_path / "home"),
        "PYTHON_KEYRING_BACKEND": "support.file_keyring.FileKeyring",
        "PYTHON_KEYRING_FILE": str(ring),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    async with open_model_api(default=Answer(text="Hello there")) as api:
        options = ("--base-url", api.url, "--model", "small:4b", "--key-file", "-")
        done = await everturn(
            "setup", *options, "--keep", "keyring", cwd=tmp_path, stdin=KEY.encode(), env=env
        )
        said = await everturn("run", "hi", cwd=tmp_path, env=env)
        headers = {request.headers["authorization"] for request in api.requests}
    kept = (tmp_path / "home" / ".env").read_text()
    ring.unlink()
    gone = await everturn("run", "hi", cwd=tmp_path, env=env)

    assert done.code == 0, done.err
    assert (said.out, headers) == ("Hello there\n", {f"Bearer {KEY}"})
    assert KEY not in kept
    assert kept.startswith("OPENAI_API_KEY=keyring:everturn-")
    assert gone.code == 2
    assert ".env:1: OPENAI_API_KEY is not in this user's keyring any more" in gone.err


async def test_by_questions(tmp_path: Path) -> None:
    """Four questions; models that do not talk are not offered, and the newest comes first."""
    env = {"EVERTURN_HOME": str(tmp_path / "home"), "COLUMNS": "40"}
    async with open_model_api(default=Answer(text="Hello there")) as api:
        api.told["/v1/models"] = listed("old", "text-embedding-9", "new")
        async with terminal("chat", cwd=tmp_path, env=env) as person:
            await person.expect("Choose a model now? [Y/n]")
            await person.enter("")
            offered = await person.expect("Who runs the model?", "Number")
            number = next(
                line.split()[0] for line in offered.splitlines() if "another server" in line
            )
            await person.enter("99")
            await person.expect("A number from 1", "Number")
            await person.enter(number)
            await person.expect("Address of the API")
            await person.enter(api.url)
            models = await person.expect("Which model?", "Number or name:")
            await person.enter("1")
            await person.expect("It answers in", "model    openai/new", "you>")
            await person.enter("hi")
            await person.expect("Hello there")
            await person.press_control("d")
            code, _ = await person.end()
        agent = (tmp_path / "home" / "agents" / "assistant" / "agent.yaml").read_text()

    assert code == 0
    assert re.search(r"of all makers\s+ {6}behind one key", offered)  # a narrow terminal
    assert models.index(" new") < models.index(" old")
    assert "embedding" not in models
    assert "name: new" in agent


async def test_what_else_is_asked_behind_the_model(tmp_path: Path) -> None:
    """One part after the other, and one that does not work ends nothing."""
    env = {"EVERTURN_HOME": str(tmp_path / "home"), "TELEGRAM_BOT_TOKEN": "no token"}
    async with terminal("setup", cwd=tmp_path, env=env) as person:
        offered = await person.expect("Who runs the model?", "Number")
        number = next(line.split()[0] for line in offered.splitlines() if "none yet" in line)
        await person.enter(number)
        await person.expect("What else?", "Number")
        await person.enter("2")
        await person.expect("What else?", "Number")
        await person.enter("1")
        await person.expect("Next:")
        code, _ = await person.end()

    assert code == 0
    assert "telegram" not in (tmp_path / "home" / "everturn.yaml").read_text()


async def test_again_while_the_gateway_runs(tmp_path: Path) -> None:
    """Another model and another key hold at once; what else stands in the files stays."""
    async with open_model_api(default=Answer(text="yes")) as api:
        agent = tmp_path / "agents" / "mine" / "agent.yaml"
        agent.parent.mkdir(parents=True)
        agent.write_text(
            "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: mine}\nspec:\n"
            f"  # the model\n  model:\n    provider: openai\n    name: one  # small\n"
            f"    base_url: {api.url}\n    temperature: 0.1\n"
        )
        (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
        (tmp_path / ".env").write_text("# mine\nexport OPENAI_API_KEY='sk-old'\nOTHER=1\n")
        async with start("serve", cwd=tmp_path) as gateway:
            await gateway.until("Ctrl-C stops it.")
            await everturn("run", "hi", cwd=tmp_path)
            before = api.requests[-1]
            options = ("--base-url", api.url, "--model", "two", "--key-file", "-")
            done = await everturn("setup", *options, cwd=tmp_path, stdin=KEY.encode())
            with anyio.fail_after(WAIT_S):
                while True:  # it is told of the change by the system
                    await everturn("run", "hi", cwd=tmp_path)
                    if api.requests[-1].json()["model"] == "two":
                        break
        after = api.requests[-1]

    assert done.code == 0, done.err
    assert before.headers["authorization"] == "Bearer sk-old"
    assert after.headers["authorization"] == f"Bearer {KEY}"
    assert "name: two  # small" in agent.read_text()
    assert "temperature: 0.1" in agent.read_text()
    assert (tmp_path / ".env").read_text() == f"# mine\nOPENAI_API_KEY={KEY}\nOTHER=1\n"


def no_credit(api: ModelApi) -> None:
    """Answer as OpenAI does where the money is used up."""
    api.default = refused(429, "You exceeded your current quota", code="insufficient_quota")


def wrong_key(api: ModelApi) -> None:
    """Refuse the key."""
    api.default = unauthorized()


def a_page(api: ModelApi) -> None:
    """Answer as a proxy does that wants a login."""
    api.told["/v1/models"] = b"<html><title>Log in</title></html>"


@table(
    ("fault", "options", "told"),
    [
        (no_credit, ("--model", "m"), "current quota"),
        (wrong_key, ("--model", "m"), "API key"),
        (a_page, (), "is that the address of its API"),
        (None, (), "give --model"),
        (None, ("--model", "m", "--base-url", "http://127.0.0.1:9/v1"), "127.0.0.1:9"),
        (None, ("--model", "m", "--base-url", "gpu-box"), "not an address"),
        (None, ("--model", 'a"b'), "no name of a model"),
        (None, ("--provider", "skynet"), "there is no provider"),
        (None, ("--model", "m", "--key-file", "missing"), "cannot be read"),
        (None, ("--model", "m", "--agent", "../up"), "no name for an agent"),
    ],
)
async def test_what_does_not_work_writes_nothing(
    tmp_path: Path, fault: object, options: tuple[str, ...], told: str
) -> None:
    """It is said in a line, with what to do, and can be done again."""
    async with open_model_api() as api:
        if callable(fault):
            fault(api)
        given = options if "--base-url" in options else ("--base-url", api.url, *options)
        env = {"EVERTURN_HOME": str(tmp_path / "home")}
        done = await everturn("setup", *given, cwd=tmp_path, env=env)

    assert done.code == 2, done
    assert told in done.out + done.err
    assert files(tmp_path) == []


async def test_a_model_without_tools_and_one_that_calls_them_have_answered(tmp_path: Path) -> None:
    """The first is told of, and used; some others call whatever there is."""

    def refuses(request: object) -> Answer:
        body = request.json()  # type: ignore[attr-defined]
        if "tools" in body:
            return refused(400, f"{body['model']} does not support tools")
        return Answer(text="Hello")

    calls = Answer(calls=(ToolCall(call_id="c", name="clock", arguments="{}"),))
    env = {"EVERTURN_HOME": str(tmp_path / "home")}
    async with open_model_api(default=refuses) as api:
        setup = ("setup", "--base-url", api.url, "--model", "m")
        without = await everturn(*setup, cwd=tmp_path, env=env)
        api.default = calls
        called = await everturn(*setup, cwd=tmp_path, env=env)

    assert (without.code, called.code) == (0, 0)
    assert "refuses requests with tools" in without.out
    assert "(no words)" in called.out


async def test_another_model(tmp_path: Path) -> None:
    """It is tried first; of the same provider where none is named, and its address stays."""
    agent = write_agent(tmp_path, "mine", provider="openai", model="one", base_url="x")
    async with open_model_api(default=Answer(text="yes")) as api:
        agent.write_text(agent.read_text().replace('"x"', api.url))
        used = await everturn("model", "use", "two:7b", "--json", cwd=tmp_path)
        tried = await everturn("model", "test", cwd=tmp_path)
        api.default = unauthorized()
        refused_one = await everturn("model", "use", "three", cwd=tmp_path)
        silent = await everturn("model", "test", "mine", cwd=tmp_path)
    builtin = await everturn("model", "use", "builtin/builtin", cwd=tmp_path)
    nobody = await everturn("model", "test", "nobody", cwd=tmp_path)

    assert (used.code, tried.code) == (0, 0), used.err
    assert json.loads(used.out)["agent"] == "mine"
    assert json.loads(used.out)["written"] == []
    assert "openai/two:7b. It answers in" in tried.out
    assert (refused_one.code, silent.code) == (2, 1)
    assert builtin.code == 0, builtin.err
    assert "provider: builtin\n" in agent.read_text()
    assert "base_url" not in agent.read_text()
    assert (nobody.code, "there is no agent 'nobody'" in nobody.err) == (2, True)
    assert files(tmp_path) == ["agents/mine/agent.yaml"]


async def test_a_bot(tmp_path: Path) -> None:
    """The token is tried before anything is written; its name and the way in are told."""
    file = tmp_path / "everturn.yaml"
    async with open_telegram_api() as api:
        text = f"# mine\nserver: {{port: 0}}\nchannels:\n  telegram:\n    api_base: {api.url}\n"
        missing = await everturn("setup", "telegram", cwd=tmp_path, stdin=b"x")
        file.write_text(text)
        wrong = await everturn(
            *("setup", "telegram", "--key-file", "-"),
            cwd=tmp_path,
            stdin=b"1:wrong",
            has_platforms=True,
        )
        after_wrong = files(tmp_path), file.read_text()
        right = await everturn(
            *("setup", "telegram", "--key-file", "-", "--json"),
            cwd=tmp_path,
            stdin=TOKEN.encode(),
            has_platforms=True,
        )

    assert (missing.code, "begin with `everturn setup`" in missing.err) == (2, True)
    assert wrong.code == 2
    assert after_wrong == (["everturn.yaml"], text)
    assert "token of channels.telegram" in wrong.out
    assert ".new" not in wrong.out + wrong.err
    assert right.code == 0, right.err
    assert f"https://t.me/{BOT.lstrip('@')}" in right.err
    assert "everturn pair approve CODE" in right.err
    assert json.loads(right.out)["account"] == BOT.lstrip("@")
    assert TOKEN not in right.out + right.err + file.read_text()
    assert file.read_text() == f'{text}    bot_token: "${{TELEGRAM_BOT_TOKEN}}"\n'


async def test_bots_on_other_platforms(tmp_path: Path) -> None:
    """What is no secret stands in the configuration; where one writes to it is told."""
    file = tmp_path / "everturn.yaml"
    file.write_text("server: {port: 0}\n")
    env = {"SLACK_APP_TOKEN": APP_TOKEN, "WHATSAPP_APP_SECRET": APP_SECRET}
    setup = partial(everturn, "setup", cwd=tmp_path, has_platforms=True, env=env)
    async with (
        open_slack_api() as slack,
        open_matrix_api() as matrix,
        open_whatsapp_api() as whatsapp,
        open_email_world() as mail,
    ):
        user, _ = matrix.add_user("bot", "s3cret-matrix")
        on_slack = await setup(
            *("slack", "--key-file", "-", "--set", f"api_base={slack.url}/api"),
            stdin=BOT_TOKEN.encode(),
        )
        on_matrix = await setup(
            *("matrix", "--key-file", "-", "--set", f"homeserver={matrix.url}"),
            *("--set", f"user={user}"),
            stdin=b"s3cret-matrix",
        )
        on_whatsapp = await setup(
            *("whatsapp", "--key-file", "-", "--set", f"phone_number_id={NUMBER_ID}"),
            *("--set", f"api_base={whatsapp.url}/v25.0"),
            stdin=WHATSAPP_TOKEN.encode(),
        )
        unknown = await setup("matrix", "--set", "colour=red", stdin=b"")
        by_mail = await setup(
            *("email", "--key-file", "-", "--set", f"address={MAILBOX}"),
            *("--set", "imap.host=127.0.0.1", "--set", f"imap.port={mail.imap.port}"),
            *("--set", "smtp.host=127.0.0.1", "--set", f"smtp.port={mail.smtp.port}"),
            *("--set", "imap.security=none", "--set", "smtp.security=none"),
            stdin=b"pw",
        )
        before = file.read_text()
        again = await setup("email", "--set", "smtp.host=localhost", stdin=b"")

    for done in (on_slack, on_matrix, on_whatsapp, by_mail, again):
        assert done.code == 0, done.out + done.err
    assert file.read_text() == re.sub(r"(smtp: .host: )[^,]*", r"\1localhost", before)
    section = yaml.safe_load(file.read_text())["channels"]
    assert section["slack"]["app_token"] == "${SLACK_APP_TOKEN}"
    assert section["matrix"]["homeserver"] == matrix.url
    assert section["email"]["secret_tag"] == "${EMAIL_SECRET_TAG}"
    assert "s3cret" not in file.read_text()
    manifest = yaml.safe_load((tmp_path / "slack-manifest.yaml").read_text())
    assert manifest["settings"]["socket_mode_enabled"]
    assert user in on_matrix.out
    kept = (tmp_path / ".env").read_text()
    (chosen,) = re.findall(r"WHATSAPP_VERIFY_TOKEN=\W*(\w+)", kept)
    assert chosen in on_whatsapp.out
    (tag,) = re.findall(r"EMAIL_SECRET_TAG=\W*(\w+)", kept)
    secret_address = MAILBOX.replace("@", f"+{tag}@")
    assert (secret_address in by_mail.out, secret_address in again.out) == (True, True)
    assert (unknown.code, f"{file}: channels.matrix.colour" in unknown.err) == (2, True)


async def test_an_owner_by_the_code_of_a_bot(tmp_path: Path) -> None:
    """Also of somebody who was let in before; where nothing can be written nobody is let in."""
    file = tmp_path / "everturn.yaml"
    file.write_text("server: {port: 0}  # mine\n")
    config = await anyio.to_thread.run_sync(partial(load_config, file, environ={}))
    async with open_keyed(config, is_change=True) as keyed:
        pairing = Pairing(keyed, SystemClock())
        codes = [await pairing.ask("telegram", Person(id=each)) for each in ("7", "8")]
    first, second = (str(code) for code in codes)
    approve = partial(everturn, "pair", "approve", cwd=tmp_path)
    let_in = await approve(first)
    owned = await approve(first, "--owner", "me", "--json")
    refused = await approve(second, "--owner", "me")
    async with open_keyed(config, is_change=False) as keyed:
        waiting = await Pairing(keyed, SystemClock()).pending()

    assert let_in.code == 0, let_in.err
    assert json.loads(owned.out)["owner"] == "me"
    text = file.read_text()
    assert text.startswith("server: {port: 0}  # mine\n")
    assert yaml.safe_load(text)["owners"] == [{"name": "me", "accounts": {"telegram": "7"}}]
    assert (refused.code, "has an owner me already" in refused.err) == (2, True)
    assert [each.code for each in waiting] == [second]


async def test_a_service(tmp_path: Path) -> None:
    """A unit that starts this program with this configuration, also from a folder with a blank."""
    folder = tmp_path / "my bot"
    folder.mkdir()
    (folder / "everturn.yaml").write_text("server: {port: 0}\n")
    done = await everturn(
        *("setup", "service", "--json"),
        cwd=folder,
        env={"XDG_CONFIG_HOME": str(tmp_path / "config")},
    )
    unit = (tmp_path / "config" / "systemd" / "user" / "everturn.service").read_text()

    assert done.code == 0, done.err
    assert "systemctl --user enable --now everturn" in done.err
    assert json.loads(done.out)["started"] is False
    assert f'"serve" "--config" "{folder}/everturn.yaml"\n' in unit
    assert f"WorkingDirectory={folder}\n" in unit
    assert plistlib.loads(plist_text(["a b"], folder).encode())["ProgramArguments"] == ["a b"]
    assert 'ExecStart="/a$$b" "50%%"\n' in unit_text(["/a$b", "50%"], folder)


def test_lines_beside_the_configuration(tmp_path: Path) -> None:
    """A line that is no variable is told with its place; nothing in a value is expanded."""
    path = tmp_path / ".env"
    path.write_text("# mine\nA=1\nexport B='x # y'\nC=${A}\n\nD=\"q\\nr\" # why\nE\n")
    found = read_env_file(path)
    path.write_text("GOOD=1\nA='b\n")

    assert found == {"A": "1", "B": "x # y", "C": "${A}", "D": "q\nr"}
    assert read_env_file(tmp_path / "missing") == {}
    with pytest.raises(ConfigError, match=r"\.env:2: is no variable"):
        read_env_file(path)
    path.write_bytes(b"A=\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 2"):
        read_env_file(path)


def test_keys_that_others_can_read_are_found(tmp_path: Path) -> None:
    """By the doctor, which can close them."""
    path = tmp_path / "everturn.yaml"
    path.write_text("server: {port: 0}\n")
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / ".env").chmod(0o644)
    (tmp_path / ".everturn").mkdir(mode=0o700)
    config = load_config(path, environ={})
    (finding,) = permission_findings(config, repair=True)

    assert (finding.verdict, ".env is now 0600" in finding.text) == ("repaired", True)
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    assert config.env_file in config.private_files
