"""The OpenAPI document against the running gateway: what it promises is what is answered."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import jsonschema
import pytest
from fastapi.routing import APIRoute
from support.examples import LONG_RUN
from support.gateway import open_http_gateway
from support.tables import table

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.asgi import create_app

SUPPORT = Path(__file__).parents[1] / "support"
# By day edges of what each field may hold, a dozen requests a route; at night all edges, and
# random ones, too.
PHASES = "examples,coverage,fuzzing" if LONG_RUN else "examples,coverage"
EXAMPLES = LONG_RUN // 20 or 1  # of each kind for each route
SEED = 20_261_121  # the same examples on every run


@pytest.mark.long
@pytest.mark.timeout(0 if LONG_RUN else 400)
async def test_answers_are_those_that_the_document_promises(tmp_path: Path) -> None:
    """A client that is generated from the document must never meet an answer it does not know."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        await client.get("/openapi.json")  # made now, as its reader waits for ten seconds only
        run = await anyio.run_process(
            [
                *(sys.executable, "-m", "schemathesis.cli"),
                *("--config-file", str(SUPPORT / "schemathesis.toml")),
                *("run", f"{gateway.base_url}/openapi.json"),
                *("--phases", PHASES, "--max-examples", str(EXAMPLES)),
                *("--seed", str(SEED), "--continue-on-failure", "--suppress-health-check", "all"),
            ],
            check=False,
            cwd=tmp_path,
            env={
                **os.environ,
                "GATEWAY_URL": gateway.base_url,
                "PYTHONPATH": str(SUPPORT.parent),
                "SCHEMATHESIS_HOOKS": "support.schema_hooks",
            },
        )
    report = run.stdout.decode()

    assert run.returncode == 0, report + run.stderr.decode()
    # The hooks may leave nothing out.
    found = re.search(r"(\d+) selected / (\d+) total", report)
    assert found is not None
    assert found[1] == found[2]


@table("token", ["", "user-token"])
async def test_the_document_is_valid_and_asks_for_a_token_where_the_server_does(
    tmp_path: Path, token: str
) -> None:
    """A generated client sends a token where one is needed, and knows for which scope."""
    server = ServerConfig(api_token=token)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        app = await anyio.to_thread.run_sync(create_app(gateway).api)
        document = await anyio.to_thread.run_sync(app.openapi)
    agents, live = document["paths"]["/api/v1/agents"]["get"], document["paths"]["/livez"]["get"]

    optional: list[dict[str, list[str]]] = [] if token else [{}]  # on this machine
    assert {"401", "403", "429"} <= agents["responses"].keys()
    assert agents["security"] == [*optional, {"token": ["read"]}]
    assert live["security"] == optional
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"

    # Every reference in it leads somewhere, and every route is in it with its own name.
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    schemas = document["components"]["schemas"]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert all(operation["summary"] and operation["tags"] for operation in operations)
    assert "HTTPValidationError" not in schemas
    assert _references(document) <= {f"#/components/schemas/{name}" for name in schemas}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def _references(node: object) -> set[str]:
    match node:
        case {"$ref": str() as reference}:
            return {reference}
        case dict():
            return set().union(*map(_references, node.values()))
        case list():
            return set().union(*map(_references, node))
        case _:
            return set()


async def test_the_docs_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """The page works in a closed network, and tells no other server who reads it."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        page = await client.get("/docs")
        app = await anyio.to_thread.run_sync(create_app(gateway).api)
        routes = [r for r in app.routes if isinstance(r, APIRoute)]
        untold = [route.path for route in routes if not route.include_in_schema]

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert set(untold) == {"/mcp", "/openapi.json", "/docs", "/console/login"}
