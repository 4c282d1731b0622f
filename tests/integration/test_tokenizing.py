"""Prompts counted by the model's own tokenizer, whose file the agent names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
import orjson
import pytest
from support.answers import Answer
from support.model_api import open_model_api
from support.provider_kinds import KEYS, LOOK, OPENAI, ignore, request

from everturn_actors.model import Attachment, Notice, Reply, ToolCall, ToolResult, UserMessage
from everturn_actors.ports import PromptCounter
from everturn_gateway.providers import open_providers
from everturn_gateway.providers.errors import ProviderConfigError

FILE = "tokenizer.json"
WORDS = ("[UNK]", "yes", "no")


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer whose tokens are words and signs."""
    model = {
        "type": "WordLevel",
        "vocab": {w: n for n, w in enumerate(WORDS)},
        "unk_token": "[UNK]",
    }
    fields = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    whole: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": model,
        **dict.fromkeys(fields),
    }
    (folder / FILE).write_bytes(orjson.dumps(whole))


async def test_a_prompt_is_counted_here_as_the_provider_counts_it(tmp_path: Path) -> None:
    """What stands around the texts is that of the last report; what is new counts exactly."""
    write_tokenizer(tmp_path)
    asked = UserMessage(text="yes no " * 500)
    calling = Reply(text="yes", calls=(ToolCall(call_id="c", name="look", arguments="{}"),))
    result = ToolResult(call_id="c", name="look", text="no " * 300)
    async with open_model_api() as api, open_providers(environ=KEYS, models_dir=tmp_path) as made:
        spec = OPENAI.spec(api, tokenizer=FILE)
        provider = await anyio.to_thread.run_sync(made.make, spec, tmp_path)
        assert isinstance(provider, PromptCounter)
        # Nothing was reported yet: the system prompt's three signs, the words, four a message.
        assert await provider.count_tokens(request(asked)) == 3 + 1_000 + 4
        before = request(asked, tools=(LOOK,))
        api.script(Answer(text="All right.", input_tokens=1_234))
        await provider.complete(before, ignore)
        assert await provider.count_tokens(before) == 1_234
        longer = request(asked, calling, result, tools=(LOOK,))
        # A reply of one word and a call of three tokens, 300 words, and four for each message.
        assert await provider.count_tokens(longer) == 1_234 + (4 + 1 + 2) + (4 + 300)
        # What is not text, or what its provider alone can read, is for the provider to count.
        picture = Attachment(name="a.png", media_type="image/png", size_bytes=3)
        shown = UserMessage(text="yes", attachments=(picture,))
        assert await provider.count_tokens(request(shown, media={"a.png": b"png"})) is None
        hidden = Notice(text="yes", opaque="enc-1")
        assert await provider.count_tokens(request(hidden, asked)) is None
        assert not any("tokens" in each.path for each in api.asked), "and no server was asked"


async def test_a_tokenizer_that_cannot_be_used_is_told_and_costs_no_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is missing fails where the agent is loaded; one that is none, when it counts."""
    async with open_model_api() as api, open_providers(environ=KEYS, models_dir=tmp_path) as made:
        spec = OPENAI.spec(api, tokenizer=FILE)
        with pytest.raises(ProviderConfigError, match=f"spec.model.tokenizer: .*{FILE}"):
            await anyio.to_thread.run_sync(made.make, spec, tmp_path)
        (tmp_path / FILE).write_text("{}")
        provider = await anyio.to_thread.run_sync(made.make, spec, tmp_path)
        assert isinstance(provider, PromptCounter)
        for _ in range(2):
            assert await provider.count_tokens(request()) is None
        assert (await provider.complete(request(), ignore)).text == "All right."
    (told,) = [each for each in caplog.records if each.message == "a tokenizer cannot be used"]
    assert f"{FILE} is no tokenizer.json" in vars(told)["reason"]
