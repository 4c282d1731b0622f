"""The body of an answered turn, which is written past the model that describes it."""

from __future__ import annotations

import json

from everturn_actors.model import Usage
from everturn_actors.service import TurnResult
from everturn_gateway.http.schemas.messages import ReplyBody


def test_a_reply_is_written_as_it_is_described() -> None:
    """What clients get is what the API's document says, field by field and in its order."""
    usage = Usage(
        input_tokens=1_000,
        output_tokens=20,
        cached_tokens=300,
        cache_written_tokens=4,
        cost_nanodollars=1_234_567,
    )
    result = TurnResult(
        session_id="s",
        turn=3,
        message_seq=17,
        outcome="answered",
        text='Grüße, "quoted" \u2028 \x7f 🙂',
        error="",
        usage=usage,
        refused=("bash: no", "write: by a person"),
    )

    written = ReplyBody.encoded(result)

    assert json.loads(written) == json.loads(ReplyBody.of(result).model_dump_json())
    assert list(json.loads(written)) == list(ReplyBody.model_fields)
    assert ReplyBody.model_validate_json(written) == ReplyBody.of(result)
