"""Slack by the installed command: what people see, whatever becomes of the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support.model_api import open_model_api
from support.process import gateway_process
from support.slack_api import ANN, APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, signed
from support.slack_kills import talk_through_kills, until_answered
from support.slack_methods import open_slack_api
from support.talking import OPEN, Brain, check_secrets, until, until_state, write_talking


async def test_a_chat_is_answered_once_through_kills(tmp_path: Path) -> None:
    """Nothing lost, nothing doubled, and no token in the log."""
    (tmp_path / "gateway").mkdir()
    async with open_slack_api() as api:
        seen = await talk_through_kills(tmp_path / "gateway", api, questions=3)

    assert seen == [f"re: question {number}" for number in range(3)]
    for token in (BOT_TOKEN, APP_TOKEN):
        check_secrets(tmp_path / "gateway", token)


async def test_slack_delivers_to_an_address_of_the_gateway(tmp_path: Path) -> None:
    """Signed, or it is turned away; the challenge by which Slack tries the address is answered."""
    brain = Brain()
    async with open_slack_api() as api, open_model_api(default=brain) as model:
        chat = api.add_channel("DANN00001", ANN, name="")
        section = {"bot_token": BOT_TOKEN, "api_base": f"{api.url}/api", "mode": "events"}
        section |= {"signing_secret": SIGNING_SECRET}
        write_talking(tmp_path, model.url, channels={"slack": section}, agents={"helper": OPEN})
        async with (
            gateway_process(tmp_path, imported=("everturn_channels.slack",)) as gateway,
            gateway.client() as client,
        ):
            await until_state(client, "connected")

            async def deliver(headers: Mapping[str, str], body: bytes) -> int:
                path = "/channels/slack/webhook"
                answer = await client.post(path, content=body, headers=dict(headers))
                answers.append((answer.status_code, answer.text))
                return answer.status_code

            answers: list[tuple[int, str]] = []
            body = b'{"type": "url_verification", "challenge": "3eZbrw1a"}'
            await deliver({}, body)
            await deliver({"X-Slack-Signature": "v0=1"}, body)
            await deliver(signed(body), body)
            api.deliver = deliver
            await api.say(chat, "hello")
            await until_answered(api, chat, "hello")
            await until(lambda: not api.pending)

    assert [status for status, _ in answers] == [401, 401, 200, *[200] * (len(answers) - 3)]
    assert answers[2][1] == '{"challenge":"3eZbrw1a"}'
    assert answers[3][1] == ""
    assert api.shown(chat) == ["re: hello"]
    check_secrets(tmp_path, SIGNING_SECRET)
