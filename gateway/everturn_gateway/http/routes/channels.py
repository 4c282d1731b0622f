"""The chat channels: how they fare, and where their platforms deliver."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from everturn_gateway.config.channels import WEBHOOK_PATH
from everturn_gateway.http.openapi import problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import ProblemError, problem, status_problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.channels import ChannelBody, ChannelList
from everturn_gateway.http.schemas.health import StatusBody

_OK: Final = 200
_UNAUTHORIZED: Final = 401
_REFUSALS: Final = {
    400: "the platform sends no such body",
    401: "the secret token is missing or wrong",
    403: "the secret token is missing or wrong",
    503: "the channel takes no messages now; deliver again",
}


def channels_router(gateway: Gateway) -> APIRouter:
    """Return the routes of channels."""
    router = APIRouter(tags=["channels"])

    @router.get("/api/v1/channels", response_model=ChannelList)
    async def list_channels() -> Response:
        """Tell how each channel fares."""
        statuses = gateway.channels.statuses()
        return answer(ChannelList(channels=tuple(map(ChannelBody.of, statuses))))

    @router.post(
        WEBHOOK_PATH,
        response_model=StatusBody,
        responses=problems(400, 401, 404),
        openapi_extra={
            "requestBody": {
                "description": "What the platform says: of Telegram, an update of the Bot API.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            }
        },
    )
    async def take_webhook(
        request: Request,
        name: Annotated[str, Path(description="Of the channel.", max_length=100)],
    ) -> Response:
        """Take what a platform delivers; needs no token but the channel's own secret.

        It stands in a header: of Telegram, `X-Telegram-Bot-Api-Secret-Token`.
        Answers 200 when it is on disk.
        """
        # Before the body is read: whoever likes may come here, and would fill the memory.
        admitted = gateway.channels.admits_webhook(name, request.headers)
        status: int | None = None if admitted is None else _UNAUTHORIZED
        if admitted:
            status = await gateway.channels.take_webhook(
                name, request.headers, await request.body()
            )
        if status is None:
            raise ProblemError(
                problem("unknown-channel", f"no channel {name!r} takes deliveries here")
            )
        if status != _OK:
            detail = _REFUSALS.get(status, "the delivery was not taken")
            raise ProblemError(status_problem(status, detail))
        return answer(StatusBody(status="ok"))

    return router
