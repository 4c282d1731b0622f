"""Telegram by the installed command: what people see, whatever becomes of the gateway."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import httpx2
from support.answers import Answer
from support.command import everturn
from support.model_api import ModelApi, open_model_api, refused
from support.patience import WAIT_S
from support.pictures import png
from support.process import TELEGRAM, GatewayProcess, gateway_process
from support.talking import (
    ANN,
    BOB,
    GROUP,
    OPEN,
    Brain,
    calling,
    check_secrets,
    confirms,
    in_parts,
    read,
    sends,
    starts,
    until,
    until_listening,
    until_said,
    until_state,
    write,
    write_talking,
)
from support.telegram_api import BOT, TOKEN, Json, TelegramApi, open_telegram_api

WORK_TOKEN = "4242424243:AAHanother-token_of-thirty-five-letter"
HOOK_SECRET = "a-secret-of-the-webhook"
CLERK, STRANGER, UNLUCKY = 1003, 1004, 1005
REPEAT = "(This may be a repeat.)\n"
JOINED = {"policy": "open", "queue": {"debounce": {"window_ms": 400}}}
ONE_BY_ONE = {"queue": {"mode": "sequential", "debounce": {"enabled": False}}, "policy": "open"}


# --- a day ---------------------------------------------------------------------------------------


async def test_a_day_of_two_bots(tmp_path: Path) -> None:
    """What people come for: answers, groups, files, a question that outlives an update."""
    brain = Brain()
    async with (
        open_model_api(default=brain) as model,
        open_telegram_api() as family,
        open_telegram_api() as work,
    ):
        work.token = WORK_TOKEN
        write_two_bots(tmp_path, model, family, work)
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until_listening(family)
            await until(lambda: work.webhook.get("url"))
            await a_burst_is_one_turn_and_shows_its_picture(brain, family)
            await a_group_is_heard_and_learns_no_secrets(brain, family)
            await a_hanging_model_stops_nobody_else(brain, family)
            await a_failure_is_told(brain, family)
            await a_file_is_sent(brain, family, tmp_path)
            delivered = await a_stranger_is_let_in(work, gateway, tmp_path)
            button = await a_question_is_asked(brain, family)
            await a_stop_comes_with_one_running_and_two_waiting(brain, family, gateway)
        async with (
            gateway_process(tmp_path, imported=TELEGRAM) as gateway,
            gateway.client() as client,
        ):
            await until(lambda: len(read(family, CLERK)) == 3)
            family.click(*button)
            await until_state(client, "connected", "telegram-work")
            with anyio.fail_after(WAIT_S):  # as Telegram does: what is not taken comes again
                while (again := await deliver(client, delivered)) == 503:  # noqa: ASYNC110 - it tries
                    await anyio.sleep(0.2)
            await until(lambda: read(family, ANN)[-1] == "It is made.")
            listed = (await client.get("/api/v1/channels")).text

        assert read(family, CLERK) == ["re: one", "re: two", "re: three"]
        assert again == 200
        assert len(read(work, STRANGER)) == 2, "delivered twice, answered once"
        assert not is_typing(family, BOB)
        assert not is_typing(family, ANN)
        assert not is_typing(family, UNLUCKY)
        question = button[0]
        assert "reply_markup" not in question or not question["reply_markup"]
        assert "llowed" in question["text"]
        assert (tmp_path / ".everturn" / "files" / "helper" / "made").read_text() == "made\n"
        assert len(brain.about("make it")) == 2
        assert TOKEN not in listed
        assert WORK_TOKEN not in listed
        check_secrets(tmp_path, TOKEN.partition(":")[2], WORK_TOKEN.partition(":")[2], HOOK_SECRET)


def write_two_bots(folder: Path, model: ModelApi, family: TelegramApi, work: TelegramApi) -> None:
    """Write a workspace with two bots: everybody may talk to one, nobody yet to the other."""
    bots = [
        {"name": "family", "bot_token": TOKEN, "api_base": family.url},
        {
            "name": "work",
            "bot_token": WORK_TOKEN,
            "api_base": work.url,
            "mode": "webhook",
            "webhook": {"url": "https://everturn.example", "secret": HOOK_SECRET},
        },
    ]
    write_talking(
        folder,
        model.url,
        channels={"telegram": bots},
        agents={
            "helper": {"dm": JOINED, "groups": JOINED},
            "clerk": {"dm": ONE_BY_ONE},
            "private": {},
        },
        routes=(
            {"match": {"channel": "telegram-work"}, "agent": "private"},
            {"match": {"chat_id": str(CLERK)}, "agent": "clerk"},
            {"match": {}, "agent": "helper"},
        ),
    )


async def a_burst_is_one_turn_and_shows_its_picture(brain: Brain, telegram: TelegramApi) -> None:
    """GW-05: people write in pieces, and a picture is one of them."""
    telegram.files["cat"] = png()
    photo = {"file_id": "cat", "file_unique_id": "cat", "width": 1, "height": 1}
    brain.plan("at this", Answer(text="A grey cat."))
    write(telegram, "my pin is 4711")
    write(telegram, "and look")
    write(telegram, photo=[photo], caption="at this")
    await until(lambda: read(telegram, ANN))
    (asked,) = brain.asked

    assert read(telegram, ANN) == ["A grey cat."]
    shown = json.dumps(asked)
    assert shown.index("my pin is 4711") < shown.index("and look") < shown.index("at this")
    assert "data:image/png;base64," in shown


async def a_group_is_heard_and_learns_no_secrets(brain: Brain, telegram: TelegramApi) -> None:
    """GW-06, SE-05: who is asked `what does he like?` has to know who spoke, and nothing else."""
    write(telegram, "I like tea", who=BOB, chat=GROUP)
    write(telegram, f"@{BOT} what does Bob like?", chat=GROUP)
    await until(lambda: read(telegram, GROUP))
    (asked,) = brain.about("what does Bob like?")

    shown = json.dumps(asked)
    assert "[Bob] I like tea" in shown
    assert "[Ann] " in shown
    assert "4711" not in shown
    assert len(read(telegram, GROUP)) == 1


async def a_hanging_model_stops_nobody_else(brain: Brain, telegram: TelegramApi) -> None:
    """GW-04, GW-12: commands and other chats do not wait for a model, and typing ends with it."""
    gate = anyio.Event()
    brain.plan("think", Answer(text="Well thought.", hold={0: gate}))
    write(telegram, "think", who=BOB)
    await until(lambda: brain.about("think"))
    await until(lambda: is_typing(telegram, BOB))
    write(telegram, "/status", who=BOB)
    await until(lambda: read(telegram, BOB))
    write(telegram, "quick")
    await until(lambda: read(telegram, ANN)[-1] == "re: quick")

    assert "Session" in read(telegram, BOB)[0]
    assert len(read(telegram, BOB)) == 1
    gate.set()
    await until(lambda: len(read(telegram, BOB)) == 2)
    assert read(telegram, BOB)[1] == "Well thought."


def is_typing(telegram: TelegramApi, chat: int) -> bool:
    """Return whether the typing indicator was the last thing shown in a chat."""
    shown = [c for c in telegram.calls if c.params.get("chat_id") == str(chat)]
    return bool(shown) and shown[-1].method == "sendChatAction"


async def a_failure_is_told(brain: Brain, telegram: TelegramApi) -> None:
    """GW-12: who waits learns that nothing comes, and no typing indicator says otherwise."""
    brain.plan("break", refused(400, "no such model"))
    write(telegram, "break", who=UNLUCKY)
    await until(lambda: read(telegram, UNLUCKY))

    assert "could not answer" in read(telegram, UNLUCKY)[0]


async def a_file_is_sent(brain: Brain, telegram: TelegramApi, folder: Path) -> None:
    """What an agent made has to reach the person who asked for it."""
    home = anyio.Path(folder / ".everturn" / "files" / "helper")
    await home.mkdir(parents=True, exist_ok=True)
    await (home / "plan.txt").write_text("the plan")
    brain.plan("send me", calling("send_file", path="plan.txt"), Answer(text="There it is."))
    write(telegram, "send me the plan")
    await until(lambda: read(telegram, ANN)[-1] == "There it is.")

    assert telegram.files["sent/plan.txt"] == b"the plan"


async def a_stranger_is_let_in(
    telegram: TelegramApi, gateway: GatewayProcess, folder: Path
) -> Json:
    """Nobody has to look up ids: a code is shown, and approved while the gateway runs.

    Returns:
        The update that was answered. This bot is delivered to, and does not ask.
    """
    async with gateway.client() as client:
        write(telegram, "may I?", who=STRANGER)
        forged = await deliver(client, telegram.updates[-1], secret="guessed")  # noqa: S106 - is it
        first = await deliver(client, telegram.updates[-1])
        await until(lambda: read(telegram, STRANGER))
        (refusal,) = read(telegram, STRANGER)
        code = refusal.partition("pair approve ")[2].split()[0]
        approved = await everturn("pair", "approve", code, cwd=folder)
        write(telegram, "and now?", who=STRANGER)
        second = await deliver(client, telegram.updates[-1])
        await until(lambda: len(read(telegram, STRANGER)) == 2)

    assert (forged, first, second) == (401, 200, 200)
    assert telegram.webhook["url"] == "https://everturn.example/channels/telegram-work/webhook"
    assert approved.code == 0
    assert read(telegram, STRANGER)[1] == "re: and now?"
    return telegram.updates[-1]


async def deliver(client: httpx2.AsyncClient, update: Json, *, secret: str = HOOK_SECRET) -> int:
    """Hand the gateway an update, as Telegram does; return how it answers."""
    path, headers = "/channels/telegram-work/webhook", {"X-Telegram-Bot-Api-Secret-Token": secret}
    return (await client.post(path, json=update, headers=headers)).status_code


async def a_question_is_asked(brain: Brain, telegram: TelegramApi) -> tuple[Json, str]:
    """Return the message with the question of a call, and the first of its buttons."""
    command = "echo made >> made"
    brain.plan("make it", calling("bash", command=command), Answer(text="It is made."))
    write(telegram, "make it")
    asks = telegram.hold(sends(ANN, command), carried_out=True)
    await asks.wait()
    asks.released.set()
    message = next(call for call in reversed(telegram.calls) if sends(ANN, command)(call)).result
    return message, str(message["reply_markup"]["inline_keyboard"][0][0]["callback_data"])


async def a_stop_comes_with_one_running_and_two_waiting(
    brain: Brain, telegram: TelegramApi, gateway: GatewayProcess
) -> None:
    """GW-11: what runs is finished and told, what waits is kept."""
    gate = anyio.Event()
    brain.plan("one", Answer(text="re: one", hold={0: gate}))
    write(telegram, "one", who=CLERK)
    await until(lambda: brain.about("one"))
    write(telegram, "two", who=CLERK)
    number = telegram.updates[-1]["update_id"] + 1
    kept = telegram.hold(confirms(number))
    write(telegram, "three", who=CLERK)
    await kept.wait()
    kept.released.set()
    codes: list[int] = []

    async def stop() -> None:
        codes.append(await gateway.stop())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        gate.set()

    assert codes == [0]
    assert read(telegram, CLERK)[0] == "re: one"


# --- kills ---------------------------------------------------------------------------------------

WAITS, TWICE, DONE, UNSENT, UNANSWERED, WORKS, DRAFTED, BURST = range(2001, 2009)
"""People, by what the gateway was about when it was killed: it waited for the model; Telegram had
not been told that the message was taken, and the model was asked, or had answered; the second of
three messages had left, and not arrived; the first had arrived, and that was not known; a tool
ran; a draft was shown; more of a burst was waited for."""


async def test_a_kill_at_every_step_loses_nothing_and_repeats_only_what_it_must(
    tmp_path: Path,
) -> None:
    """GW-01, GW-02, GW-09: the promise, with two kills and an outage, in nine chats at once."""
    brain = Brain()
    async with open_model_api(default=brain) as model, open_telegram_api() as telegram:
        bot = {"bot_token": TOKEN, "api_base": telegram.url}
        write_talking(
            tmp_path,
            model.url,
            channels={"telegram": bot},
            agents={"helper": OPEN, "patient": {"dm": {"policy": "open"}}},
            routes=(
                {"match": {"chat_id": str(BURST)}, "agent": "patient"},
                {"match": {}, "agent": "helper"},
            ),
            policy="mode: dangerous\n",
        )
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until_listening(telegram)
            await everybody_waits_for_something(brain, telegram, tmp_path)
            await gateway.kill()
        others = (WAITS, TWICE, DONE, UNANSWERED, WORKS, DRAFTED, BURST, GROUP)
        repeated = telegram.hold(sends(UNSENT, "unsent 2"), carried_out=True)
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await repeated.wait()
            await until_said(tmp_path, *others)
            write(telegram, "in the last moment", who=WAITS)
            await gateway.kill()
        await telegram.close()
        write(telegram, "nobody hears me", who=WAITS)
        telegram.fail("getUpdates", 409, CONFLICT)
        telegram.fail("getUpdates", 500, f"failed: https://api.telegram.org/bot{TOKEN}/getUpdates")
        async with (
            gateway_process(tmp_path, imported=TELEGRAM) as gateway,
            gateway.client() as client,
        ):
            await until_state(client, "retrying")
            ready = await client.get("/readyz")
            await telegram.open()
            await until(lambda: len(read(telegram, WAITS)) == 3)
            telegram.fail("sendMessage", 429, "Too Many Requests: retry after 1", retry_after=1)
            write(telegram, "slow down", who=WAITS)
            await until(lambda: len(read(telegram, WAITS)) == 4)
            await until(lambda: len(read(telegram, UNSENT)) == 4)
            await until_state(client, "connected")
            ready_again = await client.get("/readyz")
            listed = (await client.get("/api/v1/channels")).text

        assert (ready.status_code, ready.json()["channels"]) == (503, ["telegram"])
        assert ready_again.status_code == 200
        assert "retry" not in json.loads(listed)["channels"][0]["state"]
        assert read(telegram, WAITS) == [
            "It took two tries.",
            "re: in the last moment",
            "re: nobody hears me",
            "re: slow down",
        ]
        assert read(telegram, TWICE) == ["Once."]
        assert read(telegram, DONE) == ["re: done"]
        assert starts(read(telegram, UNSENT)) == [f"unsent {n}" for n in (1, 2, 2, 3)]
        assert starts(read(telegram, UNANSWERED)) == [f"unanswered {n}" for n in (1, 1, 2, 3)]
        for chat, kills in ((UNSENT, 2), (UNANSWERED, 1)):
            labelled = [t for t in read(telegram, chat) if t.startswith(REPEAT)]
            assert len(labelled) == kills, "what may have been sent is sent again, and says so"
        assert read(telegram, WORKS) == ["I cannot tell whether it is done."]
        assert (home_of(tmp_path) / "ran").read_text() == "run\n", "a tool does not run twice"
        assert read(telegram, GROUP) == ["It came bit by bit."], "in the place of its preview"
        assert read(telegram, DRAFTED) == ["The draft is done."]
        assert read(telegram, BURST) == ["re: burst ends"]
        (burst,) = brain.about("burst ends")
        assert [m["content"] for m in burst if m["role"] == "user"] == [
            "burst begins",
            "burst ends",
        ]
        assert TOKEN not in listed
        check_secrets(tmp_path, TOKEN.partition(":")[2])


CONFLICT = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
    "running"
)


def home_of(folder: Path) -> Path:
    """Return where the tools of `helper` work."""
    return folder / ".everturn" / "files" / "helper"


async def everybody_waits_for_something(brain: Brain, telegram: TelegramApi, folder: Path) -> None:
    """Return when each chat is where its name says."""
    never, more = anyio.Event(), anyio.Event()
    first, rest = "This comes bit by bit, in pieces that take a while. ", "More of it. "
    brain.plan("wait", Answer(text="Lost.", hold={0: never}), Answer(text="It took two tries."))
    brain.plan("twice", Answer(text="Lost.", hold={0: never}), Answer(text="Once."))
    brain.plan("unsent", Answer(text=in_parts("unsent", 3, 3000)))
    brain.plan("unanswered", Answer(text=in_parts("unanswered", 3, 3000)))
    brain.plan(
        "work",
        calling("bash", command="echo run >> ran; sleep 60"),
        Answer(text="I cannot tell whether it is done."),
    )
    pieces = (first, rest, rest)
    brain.plan(
        "preview",
        Answer(pieces=pieces, hold={1: more, 2: never}),
        Answer(text="It came bit by bit."),
    )
    brain.plan("draft", Answer(pieces=pieces, hold={1: never}), Answer(text="The draft is done."))
    unsent = telegram.hold(sends(UNSENT, "unsent 2"))
    unanswered = telegram.hold(sends(UNANSWERED, "unanswered 1"), carried_out=True)
    edited = telegram.hold(sends(GROUP, first, "editMessageText"), carried_out=True)
    write(telegram, "wait", who=WAITS)
    write(telegram, "unsent", who=UNSENT)
    write(telegram, "unanswered", who=UNANSWERED)
    write(telegram, "work", who=WORKS)
    write(telegram, f"@{BOT} preview", chat=GROUP)
    write(telegram, "draft", who=DRAFTED)
    await until(lambda: read(telegram, GROUP))
    more.set()
    await edited.wait()  # so it is known which message the preview is
    await unsent.wait()
    await unanswered.wait()
    await until(lambda: DRAFTED in {chat for chat, *_ in telegram.drafts})
    await until(lambda: brain.about("wait"))
    await until((home_of(folder) / "ran").exists)
    write(telegram, "twice", who=TWICE)
    write(telegram, "done", who=DONE)
    write(telegram, "burst begins", who=BURST)
    write(telegram, "burst ends", who=BURST)
    unconfirmed = telegram.hold(confirms(telegram.updates[-1]["update_id"]))
    await until(lambda: brain.about("twice"))
    await until_said(folder, DONE)
    await unconfirmed.wait()
