"""The pure parts of MCP: names, lists, results, lines, settings."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.mcp.errors import McpAnswerError
from everturn_gateway.tools.mcp.listing import (
    DESCRIPTION_CHARACTERS,
    TOOLS_MOST,
    RemoteDefinition,
    listing_of,
    shortened,
)
from everturn_gateway.tools.mcp.names import exposed_names
from everturn_gateway.tools.mcp.results import BLOCKS_MOST, result_text
from everturn_gateway.tools.mcp.transports.lines import (
    FloodError,
    Lines,
    Oversized,
    holds_too_much,
    text_marks,
)

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
SETTINGS = McpServerSettings(name="s", command="x")


# --- names ---


def test_a_name_that_fits_stays_and_is_no_other_tools() -> None:
    """People allow tools by their names."""
    # A name that fits stays as it is. It is what people write into policies, and what the model
    # reads in the server's own texts.
    assert exposed_names([("github", "create_issue")]) == {
        ("github", "create_issue"): "github_create_issue"
    }

    # Of two that would be called alike the exact one keeps its name. A tool must not take another's
    # name, and with it what people allowed the other to do.
    names = exposed_names([("a", "b.c"), ("a", "b_c"), ("a_b", "c")], taken=["a_x"])

    assert names["a", "b_c"] == "a_b_c"
    assert names["a", "b.c"].startswith("a_b_c_")
    assert names["a_b", "c"].startswith("a_b_c_")
    assert len(set(names.values())) == 3

    # No tool of a server takes the name of another tool of the agent. A server called `read` with a
    # tool `file` is not the agent's `read_file`.
    names = exposed_names([("read", "file")], taken=["read_file"])

    assert re.fullmatch(r"read_file_[0-9a-f]{8}", names["read", "file"])


@given(
    pairs=st.lists(st.tuples(st.text(max_size=40), st.text(max_size=80)), max_size=12),
    taken=st.sets(st.sampled_from(["a_b", "_", "a__b"])),
    seed=st.randoms(use_true_random=False),
)
def test_names_fit_are_all_different_and_do_not_depend_on_the_order(
    pairs: list[tuple[str, str]], taken: set[str], seed: random.Random
) -> None:
    """A list in another order would otherwise change the prompt, or mix up two tools."""
    names = exposed_names(pairs, taken=taken)
    shuffled = list(pairs)
    seed.shuffle(shuffled)

    assert names.keys() == set(pairs)
    assert all(NAME.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(names)
    assert taken.isdisjoint(names.values())
    assert exposed_names(shuffled, taken=taken) == names


# --- lists ---


def definitions(*names: str, size: int = 0) -> list[RemoteDefinition]:
    """Return tools of these names."""
    parameters = {"type": "object", "description": "x" * size}
    return [RemoteDefinition(name=name, parameters=parameters) for name in names]


def test_only_what_is_included_is_offered_in_few_words() -> None:
    """All of it stands in every request."""
    # Only what is included is offered and a pattern without a tool is told. A typing error in
    # `include` would otherwise leave a tool out without a word.
    settings = McpServerSettings(name="s", command="x", include=("get_*", "make", "delet"))
    listing = listing_of(definitions("make", "get_b", "delete", "get_a", "maker"), settings)

    assert [tool.name for tool in listing.tools] == ["get_a", "get_b", "make"]
    assert listing.faults == ("include names 'delet', and the server has no such tool",)

    # A description is bounded and holds no control characters. It stands in every request; what
    # cannot be seen in it cannot be judged by a person either.
    assert shortened(" Gets\tit.\x00\u202e\nThen more. ") == "Gets it.  \nThen more."
    assert len(shortened("word " * 1000)) <= DESCRIPTION_CHARACTERS
    assert shortened("word " * 1000).endswith("word wor…")


@table("size", [0, 1500])
def test_a_server_has_so_many_tools_and_no_more(size: int) -> None:
    """Every definition stands in every request; a thousand would fill the model's window."""
    names = [f"t{number:04}" for number in range(1000)]
    listing = listing_of(definitions(*names, size=size), SETTINGS)
    kept = len(listing.tools)

    assert [tool.name for tool in listing.tools] == names[:kept]
    assert kept == (63 if size else TOOLS_MOST)  # 63 of 1,550 bytes are 96 KiB
    assert listing.faults[0].startswith(f"{1000 - kept} tools are left out, '{names[kept]}'")


# --- results ---


@table(
    "content",
    [
        "text",
        [5],
        [{"type": "text"}],
        [{"type": "image", "data": 3}],
        [{"type": "resource", "resource": {"uri": "x"}}],
        [{"type": None}],
    ],
)
def test_what_is_no_result_is_refused(content: object) -> None:
    """Half a result that looks whole would mislead the model."""
    with pytest.raises(McpAnswerError, match="does not follow the protocol: content"):
        result_text({"content": content})


def test_a_result_is_text_that_a_model_can_read() -> None:
    """Once, and not without end."""
    # Structured content stands in for text that is missing and no other. Servers send both; the
    # model needs one.
    text = {"type": "text", "text": "21 degrees"}
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD"}
    structured = {"degrees": 21}

    assert result_text({"content": [text], "structuredContent": structured}) == "21 degrees"
    assert result_text({"content": [image], "structuredContent": structured}) == (
        '[image 1 (image/png, 3 bytes)]\n{"degrees":21}'
    )
    assert result_text({"structuredContent": [1]}) == "[1]"
    assert result_text({"content": [], "isError": True}) == "it failed, and does not say why"

    # A result of very many parts is cut. Each part is looked at on the event loop.
    parts = [{"type": "text", "text": "x"}] * (BLOCKS_MOST + 5)

    assert result_text({"content": parts}).endswith("x\n[and 5 more parts, which are not shown]")


# --- lines ---


@given(
    lines=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=8),
    sizes=st.lists(st.integers(1, 20), max_size=40),
)
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], sizes: list[int]) -> None:
    """A pipe hands over what it has, not what was written at once."""
    data = b"".join(line + b"\n" for line in lines)
    cutter, found = Lines(limit_bytes=20), list[bytes | Oversized]()
    for size in sizes:
        found += cutter.feed(data[:size])
        data = data[size:]
    found += cutter.feed(data)

    assert len(found) == len(lines)
    for line, each in zip(lines, found, strict=True):
        if len(line) <= 20:
            assert each == line
        else:
            assert isinstance(each, Oversized)
            assert line.endswith(each.tail)
            assert each.head.startswith(line[:21])


@table(
    "line",
    [
        b'{"jsonrpc":"2.0","id":17,"result":{"content":"%s"}}',
        b'{"id": 17, "jsonrpc": "2.0", "result": {"id": 3, "content": "%s"}}',
        b'{"result":{"id":3,"content":"%s"},"jsonrpc":"2.0","id":17}',
        b'{"result":{"content":"%s"}, "id": 17 , "jsonrpc" : "2.0" }',
    ],
)
def test_the_request_of_a_line_that_is_too_long_is_known(line: bytes) -> None:
    """Who waits for it is told at once; the official packages put the id first, or last."""
    cutter = Lines(limit_bytes=1000)
    (found,) = cutter.feed(line % (b"x" * 5000) + b"\n")

    assert isinstance(found, Oversized)
    assert found.request_id == 17


def test_a_line_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that writes for ever would otherwise keep its connection, and be read for ever."""
    monkeypatch.setattr("everturn_gateway.tools.mcp.transports.lines.FLOOD_BYTES", 10_000)
    cutter = Lines(limit_bytes=100)

    with pytest.raises(FloodError):
        for _ in range(11):
            cutter.feed(b"x" * 1000)


def test_quotes_in_a_text_are_no_texts() -> None:
    """A text of a megabyte of JSON is one text, and quick to read."""
    text = rb'{"text": "[{\"a\": \"b\"}, {\"a\": \"b\"}]"}'

    assert text_marks(text) == 4
    assert not holds_too_much(text * 10_000)
    assert holds_too_much(b'["a", "b"]' * 30_000)


# --- settings ---


def test_a_server_is_a_program_or_an_address_and_keeps_its_secrets() -> None:
    """Logs show all of it but these."""
    # A server is a program or an address. Both, or neither, would leave open which of the two it
    # is.
    for command, url in (("", ""), ("x", "http://x")):
        with pytest.raises(ValueError, match="needs either a command or a url"):
            McpServerSettings(name="s", command=command, url=url)

    # Secrets are what a name tells to be one. They must not be read in a log; what is no secret
    # must stay readable there.
    settings = McpServerSettings(
        name="s",
        url="https://user:pa55word@host/mcp?api_key=q-1234&team=blue",
        headers={"Authorization": "Bearer k-1234", "Accept-Language": "en"},
        env={"DB_PASSWORD": "d-1234", "LOG_LEVEL": "debug", "EMPTY_TOKEN": ""},
    )

    assert set(settings.secrets()) == {"Bearer k-1234", "k-1234", "d-1234", "q-1234", "pa55word"}
    assert "k-1234" not in repr(settings)
    assert "d-1234" not in repr(settings)
    assert "pa55word" not in repr(settings)
