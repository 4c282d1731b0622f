"""Secrets in an agent's file stay in the file."""

from __future__ import annotations

from support.tables import table

from everturn_gateway.http.masking import MASK, masked


@table(
    "name",
    [
        "api_key",
        "apiKey",
        "API-KEY",
        "token",
        "bot_token",
        "password",
        "client_secret",
        "secret",
        "webhook",
    ],
)
def test_a_literal_secret_is_masked_wherever_it_stands(name: str) -> None:
    """A key that somebody wrote into the file is not read out to every client."""
    document = {"spec": {"tools": [{"type": "cli", "env": {name: "sk-123"}}]}}

    assert masked(document) == {"spec": {"tools": [{"type": "cli", "env": {name: MASK}}]}}


def test_what_is_no_secret_is_shown() -> None:
    """Whoever looks at an agent has to see how it is set up."""
    # A variable is shown and its default is not. `${NAME}` says where the secret is, not what it
    # is; a default beside it may be one.
    document = {"api_key": "${KEY}", "token": "${KEY:-sk-123}", "password": "x${KEY}"}

    assert masked(document) == {"api_key": "${KEY}", "token": MASK, "password": MASK}

    # What only sounds like a secret is shown. Limits in tokens and empty fields are no secrets.
    limits = {
        "max_tokens": "4096",
        "max_history_tokens": 20_000,
        "token": "",
        "secret": None,
        "name": "token",
        "description": "my password is secret",
    }

    assert masked(limits) == limits
