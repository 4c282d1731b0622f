"""A model of your own: here a list of answers, where an API would be called."""

from __future__ import annotations

from collections.abc import Callable

import anyio

import everturn

ANSWERS = {
    "open": "We are open from nine to five.",
    "price": "Tea is two euros.",
}


class Answers(everturn.Provider):
    """Answers by the first word that it knows."""

    async def complete(
        self, request: everturn.ModelRequest, on_text: Callable[[str], None]
    ) -> everturn.Reply:
        """Return the answer, handed on word by word as a model would."""
        question = request.messages[-1].text.lower()
        if "crash" in question:
            # Shown to people, logged, and tried again: an outage is waited out.
            raise everturn.ModelRefusedError("that is not answered here")  # noqa: EM101, TRY003
        found = (answer for word, answer in ANSWERS.items() if word in question)
        text = next(found, "I do not know.")
        for word in text.split(" "):
            await anyio.lowlevel.checkpoint()
            on_text(word if word == text.split(" ")[0] else f" {word}")
        return everturn.Reply(text=text, model="answers-1")


AGENT = everturn.Agent(name="shop", model=Answers())


async def main() -> None:
    """Ask what it knows, what it does not, and what it refuses."""
    async with everturn.open_gateway(AGENT) as gateway:
        for question in ("When are you open?", "Who are you?"):
            print((await gateway.ask("shop", question)).text)
        try:
            await gateway.ask("shop", "Will you crash?")
        except everturn.TurnFailedError as error:
            print(f"no answer: {error}")


if __name__ == "__main__":
    anyio.run(main)
