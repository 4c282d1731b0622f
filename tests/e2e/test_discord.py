"""Discord by the installed command: what people see, whatever becomes of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from support.answers import Answer
from support.discord_api import TOKEN, DiscordApi, open_discord_api
from support.discord_rest import Call
from support.model_api import open_model_api
from support.process import DISCORD, gateway_process
from support.talking import (
    SOON,
    Brain,
    calling,
    check_secrets,
    discord_texts,
    in_parts,
    log_of,
    starts,
    until,
    until_said,
    until_state,
    write_talking,
)

ONE_BY_ONE = {"mode": "sequential", **SOON}
NAMES = ("ann", "waits", "unanswered", "between", "preview", "asked")
"""People, by what the gateway was about when it was killed: nothing; it waited for the model; a
message had arrived and that was not known; the second of three had; a preview was shown; a
question waited for an answer."""


async def test_a_guild_is_answered_once_through_lost_sessions_and_kills(tmp_path: Path) -> None:
    """GW-02, GW-04, GW-08, GW-10, SE-04: nothing old, nothing lost, nothing doubled."""
    brain = Brain()
    async with open_model_api(default=brain) as model, open_discord_api() as discord:
        world, bot = discord.world, f"<@{discord.world.bot['id']}>"
        people = {name: world.add_user(name) for name in NAMES}
        dms = {name: world.dm(user) for name, user in people.items()}
        world.add_message(people["ann"], world.general, f"{bot} old news")
        write_talking(
            tmp_path,
            model.url,
            channels={
                "discord": {
                    "bot_token": TOKEN,
                    "api_base": discord.base,
                    "gateway_url": discord.gateway,
                }
            },
            agents={
                "helper": {
                    "dm": {"policy": "open", "queue": SOON},
                    "groups": {"policy": "open", "queue": ONE_BY_ONE},
                }
            },
        )
        async with (
            gateway_process(tmp_path, imported=DISCORD) as gateway,
            gateway.client() as client,
        ):
            await until_state(client, "connected")
            await until(lambda: discord.commands)
            await a_hanging_model_stops_no_command(brain, discord, people["ann"], dms["ann"])
            await a_lost_session_loses_nothing(discord, people["ann"], bot)
            await everybody_waits_for_something(brain, discord, people, dms)
            await until_said(tmp_path, dms["ann"], world.general)
            await gateway.kill()
        for number in (4, 5):
            world.add_message(people["ann"], world.general, f"{bot} missed {number}")
        world.add_message(people["waits"], dms["waits"], "are you there?")
        discord.sessions.clear()
        discord.refuses_handshakes = 1_000_000
        async with (
            gateway_process(tmp_path, imported=DISCORD) as gateway,
            gateway.client() as client,
        ):
            await until_state(client, "retrying")
            ready = await client.get("/readyz")
            discord.refuses_handshakes = 0
            await until_state(client, "connected")
            (button,) = [m for m in discord.said(dms["asked"]) if m["components"]]
            pressed = button["components"][0]["components"][0]["custom_id"]
            await discord.button_clicks(pressed, author=people["asked"], channel=dms["asked"])
            await until_said(tmp_path, world.general, *dms.values())
            await until(lambda: len(discord_texts(discord)) == 5)
            await until(lambda: len(discord_texts(discord, dms["waits"])) == 2)
            ready_again = await client.get("/readyz")

        assert (ready.status_code, ready.json()["channels"]) == (503, ["discord"])
        assert ready_again.status_code == 200
        assert discord_texts(discord) == [f"re: [Ann] missed {n}" for n in range(1, 6)]
        assert not brain.about("old news"), "a first start replays nothing"
        received = [e["text"] for e in log_of(tmp_path, world.general) if e["type"] == "received"]
        assert len(received) == 5
        assert discord_texts(discord, dms["ann"]) == ["Well thought."]
        assert discord_texts(discord, dms["waits"]) == ["It took two tries.", "re: are you there?"]
        assert discord_texts(discord, dms["unanswered"]) == ["re: unanswered"]
        texts = discord_texts(discord, dms["between"])
        assert starts(texts) == ["between 1", "between 2", "between 3"]
        assert discord_texts(discord, dms["preview"]) == ["It came bit by bit."]
        question, reply = discord_texts(discord, dms["asked"])
        assert reply == "It is made."
        assert "llowed" in question
        assert (tmp_path / ".everturn" / "files" / "helper" / "made").read_text() == "made\n"
        check_secrets(tmp_path, TOKEN)


async def a_hanging_model_stops_no_command(
    brain: Brain, discord: DiscordApi, ann: dict[str, Any], dm: str
) -> None:
    """GW-04: who waits for an answer can ask what is going on."""
    gate = anyio.Event()
    brain.plan("think", Answer(text="Well thought.", hold={0: gate}))
    await discord.says("think", author=ann, channel=dm)
    await until(lambda: brain.about("think"))
    await until(lambda: dm in discord.typing)
    asked = await discord.slash("status", author=ann, channel=dm)
    await until(lambda: asked["said"])

    assert "Session" in asked["said"][0]["content"]
    assert discord_texts(discord, dm) == []
    gate.set()
    await until(lambda: discord_texts(discord, dm))


async def a_lost_session_loses_nothing(discord: DiscordApi, ann: dict[str, Any], bot: str) -> None:
    """GW-10: what was said while nobody listened is read from the history, once."""
    for number in (1, 2, 3):
        discord.world.add_message(ann, discord.world.general, f"{bot} missed {number}")
    await discord.invalidate()
    discord.fail(
        "POST",
        rf"^/channels/{discord.world.general}/messages$",
        429,
        body={"message": "You are being rate limited.", "retry_after": 0.5, "global": False},
        headers={"Via": "1.1 google", "X-RateLimit-Scope": "user", "Retry-After": "1"},
    )
    await until(lambda: len(discord_texts(discord)) == 3)


async def everybody_waits_for_something(
    brain: Brain, discord: DiscordApi, people: Mapping[str, dict[str, Any]], dms: Mapping[str, str]
) -> None:
    """Return when each chat is where its name says."""
    never, more = anyio.Event(), anyio.Event()
    first, rest = "This comes bit by bit, in pieces that take a while. ", "More of it. "
    brain.plan("waits", Answer(text="Lost.", hold={0: never}), Answer(text="It took two tries."))
    brain.plan("between", Answer(text=in_parts("between", 3, 1500)))
    brain.plan(
        "preview",
        Answer(pieces=(first, rest, rest), hold={1: more, 2: never}),
        Answer(text="It came bit by bit."),
    )
    brain.plan("asked", calling("bash", command="echo made >> made"), Answer(text="It is made."))
    unanswered = discord.hold(sends(dms["unanswered"]), carried_out=True)
    between = discord.hold(sends(dms["between"], "between 2"), carried_out=True)
    edited = discord.hold(
        lambda call: call.method == "PATCH" and f"/{dms['preview']}/" in call.path,
        carried_out=True,
    )
    for name in NAMES[1:]:
        await discord.says(name, author=people[name], channel=dms[name])
    await until(lambda: discord_texts(discord, dms["preview"]))
    more.set()
    await edited.wait()  # so it is known which message the preview is
    await unanswered.wait()
    await between.wait()
    await until(lambda: brain.about("waits"))
    await until(lambda: discord_texts(discord, dms["asked"]))


def sends(channel: str, word: str = "") -> Callable[[Call], bool]:
    """Return what picks a message that shows `word` in a channel."""

    def picks(call: Call) -> bool:
        is_there = call.method == "POST" and call.path == f"/channels/{channel}/messages"
        return is_there and word in call.body["content"]

    return picks
