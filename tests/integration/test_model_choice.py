"""Another model for one conversation: chosen by an owner, durable, and never in the way."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import yaml
from support.feeding_adapter import feeding
from support.fixed_models import LARGE, fixed_models
from support.gateway import open_client_here, open_http_gateway, write_agent

from everturn_actors.errors import InvalidInputError
from everturn_actors.events import ModelChosen
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import ChosenModel, ConversationKey, IncomingMessage
from everturn_actors.service import Copied
from everturn_actors.testing import StaticAgents, open_test_service
from everturn_channels.access.owners import Owner
from everturn_channels.adapter import ChatRef, Person
from everturn_channels.adapter import Command as ChatCommand
from everturn_channels.models import not_yours_to_choose
from everturn_channels.terminal.attachments import Basket
from everturn_channels.terminal.commands import obey
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.terminal.lookups import offered_models
from everturn_channels.terminal.slash import Command, parse

ADA, ADA_DM = Person(id="1", name="Ada"), ChatRef(id="1")
OWNER = Owner(name="ada", accounts=frozenset({("test", "1")}))


async def test_a_chosen_model_survives_power_loss_forks_and_ends_with_the_session() -> None:
    """It is an event: whatever becomes of the process, the same model answers."""
    disk, key = MemoryDisk(), ConversationKey(channel="http", chat="1", agent="test")
    async with open_test_service(disk=disk) as test:
        session_id, _ = await test.service.conversations.open(key)
        choose = test.service.conversations.choose_model
        await choose(session_id, LARGE, by="owner:ada")
        before = (await test.service.view(session_id)).last_seq
        await choose(session_id, LARGE, by="owner:ada")
        again = (await test.service.view(session_id)).last_seq
    async with open_test_service(disk=disk) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=key))
        await submission.result()
        state = await test.service.view(session_id)
        (event,) = await test.service.history(session_id, after=before - 1, limit=1)
        report = await test.service.reader.context(session_id)
        copied = Copied(session_id=session_id, last=state.last_seq)
        forked = await test.service.branches.begin(test.key("fork"), copied=copied)
        fork = await test.service.view(forked)
        await test.service.conversations.choose_model(session_id, None)
        own = await test.service.reader.context(session_id)

    assert before == again
    assert event.body == ModelChosen(model=LARGE, by="owner:ada")
    assert (state.model, fork.model) == (LARGE, LARGE)
    assert "large" in report.model
    assert "large" not in own.model


async def test_a_chosen_model_that_is_gone_is_told_of_and_left_by_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is answered meanwhile, and `/model default` needs nothing of it."""
    async with feeding(tmp_path, owners=[OWNER]) as fed:
        say = partial(fed.say, chat=ADA_DM, sender=ADA)
        await say("hello")
        await fed.until_idle("1")
        with monkeypatch.context() as patch:
            patch.setattr(StaticAgents, "get_with", lambda agents, name, _model: agents.get(name))
            await fed.command("model", "missing", chat=ADA_DM, sender=ADA)
        await say("are you there?")
        told = [await fed.command(name, chat=ADA_DM, sender=ADA) for name in ("context", "model")]
        between = await fed.state("1")
        back = await fed.command("model", "default", chat=ADA_DM, sender=ADA)
        await say("again")
        state = await fed.until_idle("1")

    assert "test/missing cannot be used: it is missing" in told[0]
    assert "/model default goes back" in told[0]
    assert "`test/missing`" in told[1]
    assert between is not None
    assert (between.turns, between.waiting) == (1, ())
    assert "own model answers here again" in back
    assert (state.model, state.turns) == (None, 2)


async def test_models_are_offered_to_owners_alone_and_chosen_where_they_can_be_used(
    tmp_path: Path,
) -> None:
    """A refusal has the reason and the way back."""
    # They are those of all agents; whoever only talks with one learns of none.
    folder = tmp_path / "offered"
    folder.mkdir()
    async with feeding(folder, owners=[OWNER]) as fed:
        handler = await fed.adapter.handler()
        found = [
            await handler.suggestions(
                ChatCommand(
                    id="1",
                    name="model",
                    argument="LAR",
                    chat=ADA_DM,
                    sender=sender,
                    at=fed.clock.now(),
                    answer=_told_nothing,
                )
            )
            for sender in (ADA, Person(id="7", name="Ann"))
        ]

    assert found == [["test/large"], []]

    # It is refused when it is chosen, with the reason and the way back.
    folder = tmp_path / "refused"
    folder.mkdir()
    async with feeding(folder, owners=[OWNER]) as fed:
        await fed.say("hello", chat=ADA_DM, sender=ADA)
        await fed.until_idle("1")
        refused = await fed.command("model", "missing", chat=ADA_DM, sender=ADA)
        nobody = await fed.command("model", "nope", chat=ADA_DM, sender=ADA)
        state = await fed.state("1")

    assert "test/missing cannot be used: it is missing" in refused
    assert nobody == "There is no model 'nope'."
    assert state is not None
    assert state.model is None


async def test_an_owner_chooses_by_name_and_by_button_and_others_only_look(tmp_path: Path) -> None:
    """In a group as well: the model is the group's then."""
    large, small = (await fixed_models("test")).others
    async with feeding(tmp_path, owners=[OWNER]) as fed:
        shown = await fed.command("model")
        refused = await fed.command("model", "large")
        clicked = await fed.click(large.button)
        listed = await fed.command("model", chat=ADA_DM, sender=ADA)
        chosen = await fed.command("model", "large", chat=ADA_DM, sender=ADA)
        passed_on = await fed.command("model", "small", chat=ADA_DM, sender=ADA, is_typed=False)
        now = await fed.state("1")
        pressed = await fed.click(small.button, chat=ADA_DM, sender=ADA)
        then = await fed.state("1")
        back = await fed.command("model", "default", chat=ADA_DM, sender=ADA)
        gone = await fed.click("model:0000000000000000", chat=ADA_DM, sender=ADA)
        last = await fed.state("1")

    assert shown == "**Model**: `test/scripted`, its price is not known"
    assert (refused, clicked, passed_on) == (not_yours_to_choose(),) * 3
    assert "window of 200,000 tokens, $2.5 in and $10 out a million tokens" in listed
    assert "From the next message on this one answers here: `test/large`" in chosen
    assert now is not None
    assert now.model == LARGE
    assert "`test/small`, window of 8,000 tokens, free" in pressed
    assert then is not None
    assert then.model == ChosenModel(provider="test", name="small")
    assert "own model answers here again" in back
    assert "not there any more" in gone
    assert last is not None
    assert last.model is None


async def test_an_operator_chooses_over_http(tmp_path: Path) -> None:
    """The answer names the model and the others; what is none is refused with a reason."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        made = (await client.post("/api/v1/sessions", json={"agent": "test"})).json()
        url = f"/api/v1/sessions/{made['id']}/model"
        before = (await client.get(url)).json()
        wrong = await client.put(url, json={"model": "nope"})
        own = await client.put(url, json={"model": before["own"]["model"]})
        back = (await client.put(url, json={"model": ""})).json()

    assert before["is_chosen"] is False
    assert before["model"] == before["own"]
    assert wrong.status_code == 422
    assert (own.status_code, own.json()["is_chosen"]) == (200, True)
    assert back["is_chosen"] is False


async def test_a_chosen_model_has_all_that_the_agents_own_has(tmp_path: Path) -> None:
    """It writes the summaries, as nobody else is named for them, and searches tools."""
    file = write_agent(tmp_path / "agents", name="other")
    document = yaml.safe_load(file.read_text())
    document["spec"]["model"] = {"provider": "openai", "name": "gpt-5-mini"}
    file.write_text(yaml.safe_dump(document))
    local = ChosenModel(provider="ollama", name="llama3")
    async with open_http_gateway(tmp_path) as gateway:
        own, chosen = gateway.library.get("other"), gateway.library.get_with("other", local)
        named = await gateway.model_choices.named("other", "openai/gpt-9")  # nobody lists any
        with pytest.raises(InvalidInputError):
            await gateway.model_choices.named("other", " ")

    assert own.summariser is not None
    assert own.summariser.model.name == "gpt-5-mini"
    assert chosen.summariser is not None
    assert chosen.summariser.model == chosen.spec.model
    assert chosen.spec.model.name == "llama3"
    assert type(chosen.provider) is type(own.provider)
    assert chosen.tools == own.tools
    assert named == ChosenModel(provider="openai", name="gpt-9")


async def test_an_agent_gets_another_model_without_the_window_of_the_one_before(
    tmp_path: Path,
) -> None:
    """It is written into its file, where all else stays as it stands."""
    file = write_agent(tmp_path / "agents", name="other")
    own = "name: large  # mine\n    context_window: 200000\n    temperature: 0.1"
    text = file.read_text().replace("name: scripted", own)
    file.write_text(text.replace("provider: scripted", "provider: builtin"))
    async with open_http_gateway(tmp_path) as gateway:
        small = ChosenModel(provider="builtin", name="small")
        await gateway.model_choices.set_for_agent("other", small, "owner:ada")
        spec = gateway.library.get("other").spec.model

    assert (spec.name, spec.context_window, spec.temperature) == ("small", None, 0.1)
    assert "name: small  # mine" in file.read_text()


async def test_a_person_at_a_terminal_chooses_by_number_and_by_name(tmp_path: Path) -> None:
    """From the list that is shown, or by what Tab completes; a slip changes nothing."""
    file = write_agent(tmp_path / "agents", name="other")
    document = yaml.safe_load(file.read_text())
    document["spec"]["model"] = {"provider": "builtin", "name": "large", "context_window": 200_000}
    file.write_text(yaml.safe_dump(document))
    key = ConversationKey(channel="terminal", chat="ann", agent="test")
    async with open_http_gateway(tmp_path) as gateway, open_client_here(gateway) as client:
        conversation = Conversation(client, key=key)

        async def typed(line: str) -> str:
            command = parse(line)
            assert isinstance(command, Command)
            (piece,) = await obey(command, conversation, Basket())
            return piece.text

        before = await typed("/model")
        by_number = await typed("/model 2")
        after = await typed("/model")
        state = await gateway.service.view(conversation.session_id)
        for slip in ("/model 3", "/model 0", "/model nope", "/model large agent"):
            with pytest.raises(InvalidInputError):
                await typed(slip)
        still = await gateway.service.view(conversation.session_id)
        back = await typed("/model default")
        by_name = await typed("/model LARGE")
        offered = dict(await offered_models(conversation))

    assert before.splitlines()[0].startswith("  1 * scripted/scripted")
    assert before.splitlines()[1].startswith("  2   builtin/large, window of 200,000 tokens, free")
    assert state.model == still.model == ChosenModel(provider="builtin", name="large")
    assert "this one answers here: builtin/large" in by_number
    assert "\n  2 * builtin/large" in after
    assert "own model answers here again: scripted/scripted" in back
    assert "builtin/large" in by_name
    assert list(offered) == ["default", "builtin/large"]


async def _told_nothing(text: str) -> None:
    raise AssertionError(text)
