"""The model API of the tests itself: what others build on has to be right."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import openai
from anyio.streams.buffered import BufferedByteReceiveStream
from support.model_api import Answer, open_model_api, refused
from support.patience import WAIT_S

TESTS = Path(__file__).parent.parent


async def test_it_answers_the_official_client_without_streaming() -> None:
    """Tests of the gateway's own HTTP use plain answers as well."""
    async with open_model_api() as api:
        api.script(Answer(text="Hello"), refused(404, "gone"))
        async with openai.AsyncOpenAI(
            base_url=api.url, api_key="k", max_retries=0, timeout=WAIT_S
        ) as client:
            completion = await client.chat.completions.create(
                model="fake-1", messages=[{"role": "user", "content": "Hi"}]
            )
            models = [model.id async for model in client.models.list()]

    assert completion.choices[0].message.content == "Hello"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 18
    assert models == ["fake-1"]
    assert api.requests[0].newest_text == "Hi"


async def test_as_a_process_it_prints_its_address_and_serves() -> None:
    """Load tests need it out of their own way."""
    async with await anyio.open_process(
        [sys.executable, "-m", "support.model_api", "--chunks", "3", "--delay-ms", "1"],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    ) as process:
        assert process.stdout is not None
        with anyio.fail_after(WAIT_S):
            lines = BufferedByteReceiveStream(process.stdout)
            url = (await lines.receive_until(b"\n", 200)).decode()
        async with openai.AsyncOpenAI(
            base_url=url, api_key="k", max_retries=0, timeout=WAIT_S
        ) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            pieces = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
        process.terminate()

    assert pieces[:3] == ["word0 ", "word1 ", "word2 "]
