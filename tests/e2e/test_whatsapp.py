"""WhatsApp by the installed command: what people see, whatever becomes of the gateway."""

from __future__ import annotations

from pathlib import Path

from support.model_api import open_model_api
from support.process import gateway_process
from support.talking import OPEN, Brain, check_secrets, until, until_state, write_talking
from support.whatsapp_api import APP_SECRET, TOKEN, VERIFY_TOKEN, body_of, open_whatsapp_api, signed
from support.whatsapp_kills import (
    IMPORTED,
    WEBHOOK,
    delivering,
    section_of,
    talk_through_kills,
    until_answered,
)


async def test_a_chat_is_answered_through_kills(tmp_path: Path) -> None:
    """Nothing lost; what may have come already says so; no secret in the log."""
    async with open_whatsapp_api() as api:
        seen = await talk_through_kills(tmp_path, api, questions=3)

    told = [each.removeprefix("(This may be a repeat.)\n") for each in seen]
    assert sorted({*told}) == [f"re: question {number}" for number in range(3)]
    unsaid = [each for each in seen if each in told]  # a repeat that was killed, too, comes again
    assert len(set(unsaid)) == len(unsaid)
    for secret in (TOKEN, APP_SECRET, VERIFY_TOKEN):
        check_secrets(tmp_path, secret)


async def test_meta_tries_the_address_and_delivers_there(tmp_path: Path) -> None:
    """To whoever knows the token of the owner it answers; unsigned deliveries are turned away."""
    asked = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "115820"}
    async with open_whatsapp_api() as api, open_model_api(default=Brain()) as model:
        channels = {"whatsapp": section_of(api)}
        write_talking(tmp_path, model.url, channels=channels, agents={"helper": OPEN})
        async with (
            gateway_process(tmp_path, imported=IMPORTED) as gateway,
            gateway.client() as client,
        ):
            await until_state(client, "connected")
            tried = await client.get(WEBHOOK, params=asked)
            guessed = await client.get(WEBHOOK, params=asked | {"hub.verify_token": "guess"})
            nowhere = await client.get("/channels/telegram/webhook", params=asked)
            unsigned = await client.post(WEBHOOK, content=body_of({}))
            forged = await client.post(WEBHOOK, content=body_of({}), headers=signed(b"other"))
            async with delivering(api, client):
                await api.say("hello")
                await until_answered(api, "hello")
                api.failures.append(131047)  # as after a day
                await api.say("late")
                await until(lambda: not api.failures)
                await until(lambda: not api.pending)
                await api.say("well?")
                await until_answered(api, "well?")

    assert (tried.status_code, tried.text) == (200, "115820")
    assert tried.headers["content-type"].startswith("text/plain")
    refused = [each.status_code for each in (guessed, nowhere, unsigned, forged)]
    assert refused == [401, 404, 401, 401]
    assert api.shown() == ["re: hello", "re: late", "re: well?"], "what waited comes first"
