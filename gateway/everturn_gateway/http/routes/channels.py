"""The chat channels: their status, where their platforms deliver, and who is let in."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Final, Protocol

import anyio
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from everturn_channels.access.pairing import PairingError, UnknownCodeError
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_gateway.config.channels import WEBHOOK_PATH
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import problems
from everturn_gateway.http.ports import HasChannels, HasConfig
from everturn_gateway.http.problems import ProblemError, problem, status_problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.channels import (
    ChannelBody,
    ChannelList,
    CheckedChannelBody,
    PairedBody,
    PairingCode,
    PairingList,
    PairingRequestBody,
)
from everturn_gateway.http.schemas.health import StatusBody

_NAME_CHARACTERS: Final = 100
_SENDER_CHARACTERS: Final = 256
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_LARGE_BYTES: Final = 1024 * 1024
_LARGE_AT_ONCE: Final = 8
"Bodies over that size are read at a time, as anybody may send them; others wait."
_REFUSALS: Final = {
    400: "the platform sends no such body",
    401: "the secret token or the signature is missing or wrong",
    403: "the secret token is missing or wrong",
    503: "the channel takes no messages now; deliver again",
}


class Host(HasChannels, HasConfig, Protocol):
    """The parts of the gateway that are used here."""


def channels_router(gateway: Host) -> APIRouter:
    """Return the routes of channels."""
    router = APIRouter(tags=["channels"])
    checking = anyio.Lock()

    @router.get("/api/v1/channels", response_model=ChannelList)
    async def list_channels() -> Response:
        """Tell the status of each channel."""
        statuses = gateway.channels.statuses()
        return answer(ChannelList(channels=tuple(map(ChannelBody.of, statuses))))

    _add_webhooks(router, gateway)

    @router.post(
        "/api/v1/admin/channels/{name}/check",
        response_model=CheckedChannelBody,
        responses=problems(404),
        tags=["administration"],
    )
    async def check_channel(
        name: Annotated[str, Path(description="Of the channel.", max_length=_NAME_CHARACTERS)],
    ) -> Response:
        """Log in on a channel anew, and look whether it is set up as it has to be.

        Nothing is sent to anybody, and nothing is taken from the bot that runs. One look at a time.
        """
        async with checking:
            found = await gateway.channels.check(name)
        if found is None:
            raise ProblemError(problem("unknown-channel", f"there is no channel {name!r}"))
        return answer(CheckedChannelBody(ok=not found.has_problem, lines=found.lines))

    return router


def _add_webhooks(router: APIRouter, gateway: Host) -> None:
    """Add the routes where platforms deliver."""
    large = anyio.Semaphore(_LARGE_AT_ONCE)

    async def read(request: Request) -> bytes:
        length = request.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) <= _LARGE_BYTES:
            return await request.body()
        async with large:
            return await request.body()

    @router.post(
        WEBHOOK_PATH,
        response_model=StatusBody,
        responses=problems(400, 401, 404),
        openapi_extra={
            "requestBody": {
                "description": "What the platform says: an update of Telegram, an event of Slack.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            }
        },
    )
    async def take_webhook(
        request: Request,
        name: Annotated[str, Path(description="Of the channel.", max_length=_NAME_CHARACTERS)],
    ) -> Response:
        """Take what a platform delivers; needs no token but the channel's own secret.

        It stands in a header: of Telegram, `X-Telegram-Bot-Api-Secret-Token`. Slack and Meta sign
        with it, `X-Slack-Signature` and `X-Hub-Signature-256`, and are answered with what they ask
        for. Answers 200 when it is on disk.
        """
        # Before the body is read: whoever likes may come here, and would fill the memory.
        admitted = gateway.channels.admits_webhook(name, request.headers)
        taken = None if admitted is None else DeliveryAnswer(status=_UNAUTHORIZED)
        if admitted:
            body = await read(request)
            taken = await gateway.channels.take_webhook(name, request.headers, body)
        return _answered(name, taken)

    @router.get(
        WEBHOOK_PATH,
        responses=problems(400, 401, 404),
        response_class=Response,
    )
    async def answer_webhook_challenge(
        request: Request,
        name: Annotated[str, Path(description="Of the channel.", max_length=_NAME_CHARACTERS)],
    ) -> Response:
        """Answer a platform that tries the address before it delivers there.

        Meta (WhatsApp) shows `hub.verify_token` and wants `hub.challenge` back.
        """
        return _answered(name, gateway.channels.answer_challenge(name, request.query_params))


def _answered(name: str, taken: DeliveryAnswer | None) -> Response:
    """Return what a platform is answered.

    Raises:
        ProblemError: It was not taken, or nobody takes it.
    """
    if taken is None:
        raise ProblemError(problem("unknown-channel", f"no channel {name!r} takes deliveries here"))
    if taken.status != _OK:
        detail = _REFUSALS.get(taken.status, "the delivery was not taken")
        raise ProblemError(status_problem(taken.status, detail))
    if taken.body is not None:
        return Response(taken.body, media_type=taken.media_type if taken.body else None)
    return answer(StatusBody(status="ok"))


def pairing_router(gateway: Host) -> APIRouter:
    """Return the routes of pairing."""
    router = APIRouter(prefix="/api/v1", tags=["channels"])
    pairing = gateway.pairing

    def platform(channel: str) -> str:
        found = (each.platform for each in gateway.config.channels if each.name == channel)
        return next(found, "")

    @router.get("/pairing", response_model=PairingList, responses=problems(507))
    async def list_pairing() -> Response:
        """List who asks to be let in on a channel, and who was."""
        with _answering_problems():
            waiting, approved = await pairing.pending(), await pairing.approved()
        return answer(
            PairingList(
                waiting=tuple(PairingRequestBody.of(e, platform(e.channel)) for e in waiting),
                approved=tuple(PairedBody.of(e, platform(e.channel)) for e in approved),
            )
        )

    @router.post(
        "/admin/pairing/approve",
        response_model=PairingRequestBody,
        responses=problems(404, 507),
        tags=["administration"],
    )
    async def approve_pairing(body: PairingCode, caller: CallerOf) -> Response:
        """Let the person with a code talk to the agents of their channel; the same twice is fine.

        Answers when that is durable.
        """
        with _answering_problems():
            found = await pairing.approve(body.code, by=f"http:{caller.name}")
        return answer(PairingRequestBody.of(found, platform(found.channel)))

    @router.post(
        "/admin/pairing/deny",
        response_model=PairingRequestBody,
        responses=problems(404, 507),
        tags=["administration"],
    )
    async def deny_pairing(body: PairingCode) -> Response:
        """Turn the person with a code away: until it expires they are given no other one."""
        with _answering_problems():
            found = await pairing.deny(body.code)
        return answer(PairingRequestBody.of(found, platform(found.channel)))

    @router.delete(
        "/admin/pairing/{channel}/{sender}",
        status_code=204,
        responses=problems(404, 507),
        tags=["administration"],
    )
    async def remove_pairing(
        channel: Annotated[str, Path(description="Its name.", max_length=_NAME_CHARACTERS)],
        sender: Annotated[
            str, Path(description="The platform's id of them.", max_length=_SENDER_CHARACTERS)
        ],
    ) -> Response:
        """Take back that somebody was let in."""
        with _answering_problems():
            was_in = await pairing.revoke(channel, sender)
        if not was_in:
            detail = f"{sender!r} was not let in on {channel!r}"
            raise ProblemError(problem("unknown-pairing", detail))
        return Response(status_code=204)

    return router


@contextmanager
def _answering_problems() -> Generator[None]:
    """Answer with a problem where a code is not valid, or the lists cannot be used.

    Raises:
        ProblemError: The answer.
    """
    try:
        yield
    except UnknownCodeError as error:
        raise ProblemError(problem("unknown-pairing", str(error))) from error
    except PairingError as error:
        raise ProblemError(problem("not-written", str(error))) from error
