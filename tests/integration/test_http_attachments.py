"""Files over HTTP: sent with a message, listed, fetched; and images of OpenAI's clients."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import openai
import pytest
from support.gateway import DEADLINE_S, HttpGateway, open_http_gateway
from support.one_gateway import on_one_gateway
from support.pictures import JPEG, body_of, picture, png
from support.tables import table

from everturn_actors.model import ModelRequest, Upload, UserMessage
from everturn_actors.state.validation import attachment_of
from everturn_gateway.config.settings import ServerConfig

CAT, DOG = picture(1, name="cat.png"), picture(2, name="dog.png")
PAGE = Upload(data=b"<script>alert(1)</script>", media_type="text/html", file_name='a"b;ü.html')

NO_FILES = ("0" * 64 + ".png", "events.jsonl", "..%2Fevents.jsonl", "%00")


def users(request: ModelRequest) -> list[tuple[str, list[bytes]]]:
    """Return the user messages of a request, each with the bytes that are shown with it."""
    return [
        (m.text, [request.media[a.name] for a in m.attachments if a.name in request.media])
        for m in request.messages
        if isinstance(m, UserMessage)
    ]


async def send(gateway: HttpGateway, path: str, body: dict[str, Any], key: str = "") -> Any:
    """Post a message and return the answer."""
    async with gateway.client() as client:
        return await client.post(path, json=body, headers={"Idempotency-Key": key} if key else {})


async def test_files_are_sent_listed_and_given_back_by_their_own_session(tmp_path: Path) -> None:
    """What a person sent can be looked at again, and is what they sent, as a download.

    A page that somebody sent must not run in the browser of who looks at the conversation. No other
    file is given away, and none by another session.
    """
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        path = f"/api/v1/sessions/{await gateway.session()}"
        body = {"content": "", "attachments": [body_of(CAT), body_of(PAGE)]}
        answered = await client.post(f"{path}/messages", json=body)
        listed = (await client.get(f"{path}/messages")).json()["messages"][0]
        fetched = [await client.get(each["url"]) for each in listed["attachments"]]
        request = gateway.provider.requests[0]
        known, names = attachment_of(CAT).name, [attachment_of(each).name for each in (CAT, PAGE)]
        others = (f"/api/v1/sessions/{await gateway.session()}", f"/api/v1/sessions/{'x' * 9}")
        nowhere = [
            *[f"{path}/media/{name}" for name in NO_FILES],
            *[f"{other}/media/{known}" for other in others],
        ]
        missing = {each: await client.get(each) for each in nowhere}

    assert answered.status_code == 200, answered.text
    assert listed["content"] == ""
    assert [(a["file_name"], a["media_type"], a["size_bytes"]) for a in listed["attachments"]] == [
        ("cat.png", "image/png", len(CAT.data)),
        ('a"b;ü.html', "text/html", 25),
    ]
    assert [each["url"] for each in listed["attachments"]] == [
        f"{path}/media/{name}" for name in names
    ]
    assert [answer.content for answer in fetched] == [CAT.data, PAGE.data]
    assert users(request) == [("", [CAT.data])]
    image, page = [answer.headers for answer in fetched]
    assert image["content-type"] == "image/png"
    assert page["content-type"] == "application/octet-stream"
    for headers in (image, page):
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in headers["content-security-policy"]
    assert page["content-disposition"].endswith("''a%22b%3B%C3%BC.html")
    for url, answer in missing.items():
        assert answer.status_code == 404, url
        assert answer.headers["content-type"] == "application/problem+json"


@on_one_gateway(
    ("change", "where"),
    [
        ({"data": "%%%%"}, "#/attachments/0/data: this is not base64"),
        ({"data": "QQ="}, "#/attachments/0/data: this is not base64"),
        ({"data": ""}, "attachment 1 ('cat.png') is empty"),
        ({"data": base64.b64encode(JPEG).decode()}, "begin as image/jpeg"),
        ({"media_type": "png"}, "#/attachments/0/media_type"),
        ({"file_name": "../x"}, "has a path as its name"),
        ({"url": "http://x"}, "#/attachments/0/url"),
    ],
)
async def test_a_bad_file_is_refused_by_place(
    gateway: HttpGateway, change: dict[str, str], where: str
) -> None:
    """The client learns which file it is, and nothing of the message is kept."""
    body = {"content": "see", "attachments": [{**body_of(CAT), **change}]}
    async with gateway.client() as client:
        path = f"/api/v1/sessions/{await gateway.session()}/messages"
        answer = await client.post(path, json=body)
        listed = (await client.get(path)).json()["messages"]

    assert answer.status_code == 422
    assert where in answer.json()["detail"]
    assert listed == []


async def test_only_messages_may_be_as_large_as_files(tmp_path: Path) -> None:
    """Three megabytes are a photograph on one route, and an attack on all others."""
    large = picture(3, padding_bytes=3_000_000)
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        path = f"/api/v1/sessions/{await gateway.session()}"
        taken = await client.post(
            f"{path}/messages", json={"content": "see", "attachments": [body_of(large)]}
        )
        other = await client.post(f"{path}/compact", json={"focus": "x" * 3_000_000})
        request = gateway.provider.requests[0]
    async with (
        open_http_gateway(tmp_path, server=ServerConfig(max_upload_bytes=2_000_000)) as gateway,
        gateway.client() as client,
    ):
        path = f"/api/v1/sessions/{await gateway.session()}"
        limited = await client.post(
            f"{path}/stream", json={"content": "see", "attachments": [body_of(large)]}
        )

    assert (taken.status_code, other.status_code, limited.status_code) == (200, 413, 413)
    assert limited.json()["limit_bytes"] == 2_000_000
    assert users(request) == [("see", [large.data])]


async def test_a_key_that_came_with_other_files_is_refused(tmp_path: Path) -> None:
    """The same words about another picture are another message."""
    async with open_http_gateway(tmp_path) as gateway:
        path = f"/api/v1/sessions/{await gateway.session()}/messages"
        one = {"content": "who?", "attachments": [body_of(CAT)]}
        two = {"content": "who?", "attachments": [body_of(DOG)]}
        answers = [await send(gateway, path, body, "key") for body in (one, one, two)]
        async with gateway.client() as client:
            listed = (await client.get(path)).json()["messages"]

    assert [answer.status_code for answer in answers] == [200, 200, 422]
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert answers[2].json()["type"].endswith("idempotency-key-reused")
    assert [message["role"] for message in listed] == ["user", "assistant"]


# --- as OpenAI's clients send them ---


def image_part(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    """Return an image as a part of a message."""
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def client_of(gateway: HttpGateway) -> openai.AsyncOpenAI:
    """Return OpenAI's own client."""
    return openai.AsyncOpenAI(
        base_url=f"{gateway.base_url}/v1", api_key="none", max_retries=0, timeout=DEADLINE_S
    )


@table("stateful", [False, True])
async def test_images_of_an_openai_client_reach_the_model(tmp_path: Path, stateful: bool) -> None:
    """Existing programs show pictures as they are used to."""
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "who?"}, image_part(CAT.data)]},
        {"role": "assistant", "content": "a cat"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}, image_part(DOG.data)]},
        {"role": "user", "content": [image_part(JPEG, "image/jpg")]},
    ]
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        extra: Any = {"user": "ann"} if stateful else {}
        await client.chat.completions.create(model="test", messages=messages, **extra)
        seen = users(gateway.provider.requests[0])

    if stateful:
        assert seen == [("", [JPEG])]
    else:
        assert seen == [("who?", [CAT.data]), ("and?", [DOG.data, JPEG])]


@on_one_gateway(
    ("part", "role", "why"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, "user", "fetches no"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}, "user", "in base64"),
        ({"type": "image_url", "image_url": "x"}, "user", "the field 'url'"),
        (image_part(b"<html>"), "user", "are no such image"),
        (image_part(png()), "system", "only parts of the type 'text'"),
    ],
)
async def test_an_image_that_cannot_be_taken_is_refused(
    gateway: HttpGateway, part: dict[str, Any], role: str, why: str
) -> None:
    """The gateway fetches nothing that a message names, and says what to send instead."""
    messages: Any = [{"role": role, "content": [part]}, {"role": "user", "content": "hi"}]
    async with client_of(gateway) as client:
        with pytest.raises(openai.BadRequestError, match=why):
            await client.chat.completions.create(model="test", messages=messages)

        assert gateway.provider.requests == []
