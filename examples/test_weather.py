"""Tests of your own: a tool held to its contract, and a conversation with a scripted model.

Try it: `python -m pytest examples/test_weather.py`.
"""

from __future__ import annotations

import anyio

import everturn
from everturn import testing


@everturn.tool(read_only=True)
def weather(city: str) -> str:
    """Tell how the weather is."""
    return f"It is sunny in {city}."


class TestWeather(testing.ToolContract):
    """All that every tool owes."""

    good = '{"city": "Graz"}'
    bad = (*testing.ToolContract.bad, "{}", '{"town": "Graz"}')

    def make_tool(self) -> everturn.Tool:
        """Return the tool that is tried."""
        return weather


def test_the_model_is_told_of_the_weather() -> None:
    """The script stands for the model; all else is what runs in production."""
    model = testing.ScriptedProvider(
        everturn.Reply(
            calls=(everturn.ToolCall(call_id="1", name="weather", arguments='{"city": "Graz"}'),),
            stop_reason="tool_calls",
        ),
        "Take no umbrella.",
    )

    async def ask() -> str:
        agent = everturn.Agent(name="guide", model=model, tools=[weather])
        async with everturn.open_gateway(agent) as gateway:
            return (await gateway.ask("guide", "Do I need an umbrella?")).text

    assert anyio.run(ask) == "Take no umbrella."
    assert model.requests[1].messages[-1].text == "It is sunny in Graz."
