"""The Bot API on loopback, held against what Telegram's documentation says of the real one.

Sources: https://core.telegram.org/bots/api#getupdates and #making-requests, read 2026-11.
"""

from __future__ import annotations

from typing import Any

import aiohttp
from support.telegram_api import ANN, TelegramApi, open_telegram_api


async def _ask(api: TelegramApi, method: str, **params: object) -> dict[str, Any]:
    url = f"{api.url}/bot{api.token}/{method}"
    fields = {name: str(value) for name, value in params.items()}
    async with aiohttp.ClientSession() as session, session.post(url, data=fields) as response:
        answer: dict[str, Any] = await response.json()
        return answer


async def test_updates_are_forgotten_once_a_higher_offset_was_asked_for() -> None:
    """Confirmed by an offset above them, or by a negative one; at most 100 at a time."""
    async with open_telegram_api() as api:
        for number in range(120):
            api.say(str(number))
        first = await _ask(api, "getUpdates")
        again = await _ask(api, "getUpdates", limit=2)
        last = first["result"][-1]["update_id"]
        after = await _ask(api, "getUpdates", offset=last + 1)
        end = await _ask(api, "getUpdates", offset=-1)
        info = await _ask(api, "getWebhookInfo")

    assert len(first["result"]) == 100
    assert [u["message"]["text"] for u in again["result"]] == ["0", "1"]
    assert len(after["result"]) == 20
    assert [u["message"]["text"] for u in end["result"]] == ["119"]
    assert info["result"]["pending_update_count"] == 1


async def test_refusals_have_the_documented_form() -> None:
    """Not ok, error_code and description; parameters where they help."""
    async with open_telegram_api() as api:
        api.chat(ANN)
        await _ask(api, "setWebhook", url="https://bot.example")
        conflict = await _ask(api, "getUpdates")
        insecure = await _ask(api, "setWebhook", url="http://bot.example")
        api.fail("sendMessage", 429, "Too Many Requests: retry after 3", retry_after=3)
        flood = await _ask(api, "sendMessage", chat_id=ANN, text="x")
        long = await _ask(api, "sendMessage", chat_id=ANN, text="🔥" * 2049)
        fits = await _ask(api, "sendMessage", chat_id=ANN, text="🔥" * 2048)
        unknown = await _ask(api, "noSuchMethod")

    assert (conflict["ok"], conflict["error_code"]) == (False, 409)
    assert "webhook is active" in conflict["description"]
    assert "HTTPS" in insecure["description"]
    assert flood["parameters"] == {"retry_after": 3}
    assert long["description"] == "Bad Request: message is too long"
    assert fits["result"]["message_id"]
    assert unknown["error_code"] == 404
