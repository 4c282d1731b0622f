"""A gateway that is killed while it talks on Matrix, on whichever homeserver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
from support.matrix_people import Person
from support.model_api import open_model_api
from support.process import gateway_process
from support.talking import OPEN, Brain, until, until_state, write_talking

_LOOK_S = 0.05
_SOON_S = 60.0


async def talk_through_kills(
    folder: Path, url: str, bot: tuple[str, str], ann: Person, questions: int
) -> Sequence[str]:
    """Ask question after question, and kill the gateway at each; return what ann sees in the end.

    It is killed as soon as a question was written, while the model is asked, or once the reply is
    there, in turns.

    Args:
        folder: Of the gateway.
        url: Of the homeserver.
        bot: The account and its password.
        ann: Who asks, in an encrypted room that she opens.
        questions: How many.
    """
    brain = Brain()
    async with open_model_api(default=brain) as model:
        user, password = bot
        section = {"homeserver": url, "user": user, "password": password, "streaming": False}
        write_talking(folder, model.url, channels={"matrix": section}, agents={"helper": OPEN})
        async with gateway_process(folder, imported=_MATRIX) as gateway:
            async with gateway.client() as client:
                await until_state(client, "connected")
            room = await ann.create_room(user, is_encrypted=True)
            await _until(partial(_is_in, ann, room, user))
            await ann.write(room, "question 0")
            await _until(partial(_has, ann, room, user, "question 0"))
            await gateway.kill()
        for number in range(1, questions):
            text = f"question {number}"
            async with gateway_process(folder, imported=_MATRIX) as gateway:
                if number % 3 == 1:  # also what is written while nobody listens is answered
                    await ann.write(room, text)
                else:
                    async with gateway.client() as client:
                        await until_state(client, "connected")
                    await ann.write(room, text)
                    if number % 3:
                        await until(partial(brain.about, text))
                    else:
                        await _until(partial(_has, ann, room, user, text))
                await gateway.kill()
        async with gateway_process(folder, imported=_MATRIX):
            for number in range(questions):
                await _until(partial(_has, ann, room, user, f"question {number}"))
    return [str(content["body"]) for content in await ann.messages(room, user)]


_MATRIX = ("everturn_channels.matrix",)


async def _is_in(ann: Person, room: str, user: str) -> bool:
    found = await ann.ask("GET", f"/rooms/{room}/joined_members")
    return user in found["joined"]


async def _has(ann: Person, room: str, user: str, text: str) -> bool:
    said = await ann.messages(room, user)
    return any(text == str(content["body"]).removeprefix("re: ") for content in said)


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so on the homeserver, which does not tell by itself."""
    with anyio.fail_after(_SOON_S):
        while not await is_so():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(_LOOK_S)
