"""The HTTP API inside a FastAPI application, and a route of its own beside it.

Try it: `EVERTURN_API_TOKEN=change-me python examples/mounted_in_fastapi.py`, and then
`curl localhost:8000/greeting/ann`, or with the token what stands in `docs/http-api.md`, below
`/agents`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request

import everturn

AGENT = everturn.Agent(name="greeter", instructions="You greet people.", model="builtin/echo")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Keep the gateway open for as long as the application runs."""
    async with everturn.open_gateway(AGENT) as gateway:
        app.state.gateway = gateway
        # Without a token only those open it that `everturn token create` makes.
        api = await gateway.asgi(token=os.environ.get("EVERTURN_API_TOKEN", ""))
        app.mount("/agents", api)
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/greeting/{person}")
async def greeting(person: str, request: Request) -> dict[str, str]:
    """Greet somebody, in a conversation of their own."""
    gateway: everturn.Gateway = request.app.state.gateway
    answer = await gateway.ask("greeter", f"I am {person}.", conversation=person, sender=person)
    return {"text": answer.text}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=8000)
