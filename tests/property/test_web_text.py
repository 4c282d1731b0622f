"""What web pages are made of: any bytes at all."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import orjson
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_gateway.tools.quoting import pages_of, quoted
from everturn_gateway.tools.web.addresses import reach_of
from everturn_gateway.tools.web.converter import clean, decode, kind_of, title_of
from everturn_gateway.tools.web.search_apis import Hit, SearchError, SearchSettings, api_for

texts = st.text(max_size=400)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["web", "results", "title", "url", "content", "error", "detail"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(text=texts, limit=st.integers(1, 60))
@examples(15)
def test_pages_put_together_are_the_text_and_none_is_too_large(text: str, limit: int) -> None:
    """A word lost between two pages is lost for good, and a page too large is cut by others."""
    pages = pages_of(text, limit)

    assert "".join(pages) == text
    assert pages
    for page in pages:
        assert len(page) <= max(4 * limit, 1)
        assert len(page) == 1 or text_units(page) <= limit * UNITS_PER_TOKEN


@given(text=texts, head=st.lists(st.text(alphabet="ab ", max_size=5), max_size=3))
def test_no_text_can_end_its_own_quote(text: str, head: list[str]) -> None:
    """A page that could would go on in the gateway's name."""
    answer = quoted(head, text)
    mark = answer.rsplit("</quote-", 1)[1].removesuffix(">")

    assert answer.count(f"</quote-{mark}>") == 1
    assert answer.endswith(f"<quote-{mark}>\n{text}\n</quote-{mark}>")


@given(body=st.binary(max_size=300), charset=st.text(max_size=12), sniff=st.booleans())
def test_any_bytes_become_text_without_control_characters(
    *, body: bytes, charset: str, sniff: bool
) -> None:
    """What arrives is never what it says, and a terminal obeys what it is shown."""
    text = clean(decode(body, charset, sniff=sniff))

    assert all(c in "\t\n" or (ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0) for c in text)
    text.encode()
    assert "\n" not in title_of(text)
    assert kind_of(body) in {"html", "text", "binary"}


@given(value=st.integers(0, 2**32 - 1))
def test_what_is_public_is_global_by_the_standard_library_too(value: int) -> None:
    """Two lists of special networks, made apart, should not disagree on what is open."""
    ip = IPv4Address(value)
    is_open = reach_of(ip) == "public"

    assert not is_open or (ip.is_global and not ip.is_multicast)
    mapped = ip_address(f"::ffff:{ip}")
    assert reach_of(mapped) == reach_of(ip)
    assert reach_of(ip_address(f"64:ff9b::{value >> 16:x}:{value & 0xFFFF:x}")) == reach_of(ip)


@given(value=st.integers(0, 2**128 - 1) | st.integers(0, 2**125 - 1).map(lambda v: v | 1 << 125))
def test_the_same_holds_for_the_longer_addresses(value: int) -> None:
    """There are more of them, and more kinds."""
    ip = IPv6Address(value)

    assert reach_of(ip) != "public" or ip.ipv4_mapped or (ip.is_global and not ip.is_multicast)


@given(answer=json_values, status=st.integers(300, 599))
def test_any_answer_of_a_search_provider_is_hits_or_a_clear_error(
    answer: object, status: int
) -> None:
    """An API changes without asking; the model should hear of it in words."""
    for provider in ("brave", "searxng", "tavily"):
        settings_ = SearchSettings(provider=provider, base_url="http://127.0.0.1:1")
        api = api_for(settings_, {})
        hits: tuple[Hit, ...] = ()
        with suppress(SearchError):  # and nothing else
            hits = api.hits(orjson.loads(orjson.dumps(answer)), 2)

        assert len(hits) <= 2
        assert api.provider in str(api.failure(status, answer, None))
