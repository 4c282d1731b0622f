"""Another model for one conversation: chosen by an owner, durable, and never in the way."""

from __future__ import annotations

from pathlib import Path

from support.feeding_adapter import feeding
from support.fixed_models import LARGE, fixed_models
from support.gateway import open_http_gateway

from everturn_actors.events import ModelChosen
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import ChosenModel, ConversationKey, Inbound
from everturn_actors.service import Copied
from everturn_actors.testing import open_test_service
from everturn_channels.access.owners import Owner
from everturn_channels.adapter import ChatRef, Person
from everturn_channels.models import not_yours_to_choose

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
        submission = await test.service.submit(Inbound(text="hi", key=key))
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


async def test_a_model_that_cannot_be_used_is_not_chosen(tmp_path: Path) -> None:
    """It is refused when it is chosen, with the reason and the way back."""
    async with feeding(tmp_path, owners=[OWNER]) as fed:
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
