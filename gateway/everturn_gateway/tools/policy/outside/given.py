"""Which addresses a model was given, word for word, and which it made up itself.

An address can carry what a conversation says: a page that the model obeys has it ask for
`https://somebody.example/?what-it-knows`. One that stood in the message of a person, in what the
agent's owner wrote, or in a result carries nothing but the choice of it. So addresses are compared
whole, and one that the model wrote before it stood anywhere else is its own, whoever repeats it.
"""

from __future__ import annotations

import html
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from math import log2
from typing import Final

from msgspec import Struct, field

from everturn_actors.json_values import is_list, is_object
from everturn_actors.model import (
    Conversation,
    OpenTurn,
    Reply,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
    remember,
)
from everturn_gateway.late_loading import late_pattern
from everturn_gateway.tools.conversations import is_person
from everturn_gateway.tools.policy.outside.cleaning import without_colours, without_hidden
from everturn_gateway.tools.policy.subjects import arguments_of
from everturn_gateway.tools.web import FETCH, SEARCH

SESSIONS: Final = 32  # whose addresses are held; those of others are found again when needed
MODEL_WORDS: Final = frozenset(
    ("delegate", "recall", "recall_context", "reflect", "schedule", "session")
)
"Tools whose results, where they are marked, may hold what a model wrote under that mark."
_FROM_THE_WEB: Final = frozenset((FETCH, SEARCH))
"Tools that repeat no argument in what they mark as text from outside."
TEXT_CHARACTERS: Final = 200_000  # of one message; an address that stands behind it was not given
ADDRESSES_MOST: Final = 5_000  # of one message
_ADDRESS_CHARACTERS: Final = 4_200  # no longer one is fetched
_AFTER_MOST: Final = 8  # characters that may be of the text around an address
_FOUND: Final = "addresses"
_ADDRESS = late_pattern(r"https?://[^\s<>\"`{}|\\^\x00-\x1f\x7f]+", re.IGNORECASE)
_WHOLE = late_pattern(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[\w.-]+?)\.?(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>[/?][^\s#\\]*)?(?:#\S*)?",
    re.IGNORECASE,
)
_BARE = late_pattern(
    r"(?<![\w@./:-])(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+[^\W\d_]{2,24}"
    r"(?::[0-9]{1,5})?(?:[/?][^\s<>\"`]*)?"
)
"An address as people write it, without `https://`."
_AFTER: Final = ".,;:!?)]}>*_~'\""
"What may follow an address in a text and not belong to it."
_ESCAPED = late_pattern(r"\\([_*~()\[\]&=#.-])")
_PORTS: Final = {"http": "80", "https": "443"}


def address_key(text: str) -> str | None:
    """Return an address in the form in which it is compared; None for what is none.

    What does not reach a server differently is left out: the scheme, the case of the host, a port
    that goes without saying, the fragment. Of the rest each character counts.

    >>> address_key("HTTPS://Docs.Example:443/a?b=C#top")
    'docs.example/a?b=C'
    """
    found = _WHOLE.fullmatch(text.strip())
    if found is None:
        return None
    port = found["port"] or ""
    if port == _PORTS[found["scheme"].lower()]:
        port = ""
    rest = found["rest"] or "/"
    rest = rest if rest.startswith("/") else f"/{rest}"
    return f"{found['host'].lower()}{port and f':{port}'}{rest}"


def addresses_in(text: str, *, bare: bool = False) -> frozenset[str]:
    """Return the addresses that stand in a text, as `address_key` writes them.

    Where it is not plain what belongs to one (a bracket, a full stop), both readings count. JSON,
    HTML and Markdown may write one with escapes.

    Args:
        text: object text.
        bare: Whether `example.org/a` without a scheme is one: people write so.
    """
    text = text[:TEXT_CHARACTERS]
    if "\\" in text:
        text = f"{text}\n{_unescaped(text)}"
    found = list(_ADDRESS.findall(text))
    if bare:
        found += [f"https://{each}" for each in _BARE.findall(text)]
    keys: set[str] = set()
    for address in found[:ADDRESSES_MOST]:
        for reading in _readings(address):
            if key := address_key(reading):
                keys.add(key)
    return frozenset(keys)


def _unescaped(text: str) -> str:
    plain = text.replace("\\/", "/").replace("\\u0026", "&").replace("\\u003d", "=")
    return _ESCAPED.sub(r"\1", plain)


def _readings(address: str) -> Iterable[str]:
    address = address[:_ADDRESS_CHARACTERS]
    yield address
    before, quote, _ = address.partition("'")
    if quote:
        yield from _readings(before)
    if "&" in address and (plain := html.unescape(address)) != address:
        yield plain
    for _ in range(_AFTER_MOST):
        if address[-1] not in _AFTER:
            return
        address = address[:-1]
        yield address


class Given(Struct):
    """The addresses of one conversation, as far as it was read."""

    first: frozenset[str] = frozenset()
    "Those that the owner of the agent wrote."
    known: set[str] = field(default_factory=set[str])
    "Those that were given."
    own: set[str] = field(default_factory=set[str])
    "Those that the model wrote before they were given: its own, whoever repeats them."
    _told: tuple[str, ...] = ()
    "Its own once more, to be compared with beginnings."
    _turn: int = 0
    "The newest turn that was read, perhaps in part."
    _steps: int = 0
    "How many of its steps were read."

    def __contains__(self, key: str) -> bool:
        return key in self.known or key in self.first

    @property
    def bits(self) -> float:
        """How much the choice of one of them can tell, in bits; the scheme is one of them."""
        return log2(max(len(self.known) + len(self.first), 1)) + 1

    def read(self, conversation: Conversation) -> None:
        """Take in what came since: a turn costs what is new in it."""
        for turn in conversation.turns:
            if turn.number >= self._turn:
                self._read(turn)
        if conversation.current is not None:
            self._read(conversation.current)

    def _read(self, turn: Turn | OpenTurn) -> None:
        if turn.number > self._turn:
            self._turn, self._steps = turn.number, 0
        for user in turn.heard:
            self._take(user)
        for step in turn.steps[self._steps :]:
            self._take(step.reply)
            for result in step.results:
                self._take(result)
        self._steps = len(turn.steps)

    def add_own(self, reply: Reply) -> None:
        """Take note of what the reply of the open step holds: its results may repeat it."""
        self._take(reply)

    def _take(self, message: UserMessage | Reply | ToolResult) -> None:
        found = remember(message, _FOUND, lambda: _found(message))
        if isinstance(message, Reply):
            self.own |= found - self.known - self.first
            self._told = tuple(self.own)
        elif _repeats_nothing(message):
            self.known |= found
        elif found:
            # Whatever a tool writes behind what it repeats: it still carries that.
            told = self._told
            self.known |= {key for key in found - self.own if not key.startswith(told)}


def _repeats_nothing(message: UserMessage | ToolResult) -> bool:
    """Return whether no word of the model can stand in a message as somebody else's.

    Most tools may repeat what they were called with, and programs tell of what the model began.
    """
    if isinstance(message, UserMessage):
        return is_person(message.sender)
    return message.untrusted and message.name in _FROM_THE_WEB


def _found(message: UserMessage | Reply | ToolResult) -> frozenset[str]:
    """Return the addresses of a message that count: given ones, or the model's own."""
    match message:
        case Reply(text=text, reasoning=thought, calls=calls):
            said = (text, thought, *(part for call in calls for part in _written(call)))
            return frozenset[str]().union(*map(_told, said))
        case UserMessage(text=text, untrusted=False):
            return addresses_in(text, bare=True)
        case ToolResult(text=text, untrusted=untrusted, name=name, is_error=is_error):
            is_from_web = untrusted and name in _FROM_THE_WEB
            # What failed says little but what it was called with.
            is_own = (untrusted and name in MODEL_WORDS) or (is_error and not is_from_web)
            return frozenset() if is_own else addresses_in(text)
        case _:
            return frozenset()


def _told(text: str) -> frozenset[str]:
    """Return the addresses of a text of the model's, also as it reads once it is repeated.

    What is taken out of results would make another address of one that it stands in.
    """
    found = addresses_in(text, bare=True)
    plain = without_hidden(without_colours(text))
    return found if plain == text else found | addresses_in(plain, bare=True)


def _written(call: ToolCall) -> Iterable[str]:
    """Yield the arguments of a call as they are written, and as they are read."""
    yield call.arguments
    left: list[object] = [arguments_of(call)]
    while left:
        part = left.pop()
        if isinstance(part, str):
            yield part
        elif is_object(part):
            left += [*part.keys(), *part.values()]
        elif is_list(part):
            left += part


class GivenAddresses:
    """The addresses of the conversations of one agent; each is read once.

    Nothing depends on what is held here: a conversation that is not is read anew.
    """

    def __init__(self, owner_texts: Iterable[str] = ()) -> None:
        """Begin; `owner_texts` are those of the agent's owner, in which addresses may stand."""
        every = (addresses_in(text, bare=True) for text in owner_texts)
        self._owners = frozenset[str]().union(*every)
        self._held: OrderedDict[str, Given] = OrderedDict()
        self._one = threading.Lock()

    def of(self, session_id: str, conversation: Conversation) -> Given:
        """Return what the model of a conversation was given until it wrote its open step.

        Takes time in proportion to what is new in the conversation. May be called from threads.
        """
        with self._one:
            return self._of(session_id, conversation)

    def _of(self, session_id: str, conversation: Conversation) -> Given:
        given = self._held.get(session_id)
        if given is None:
            given = self._held[session_id] = Given(self._owners)
        self._held.move_to_end(session_id)
        while len(self._held) > SESSIONS:
            self._held.popitem(last=False)
        given.read(conversation)
        step = conversation.current.step if conversation.current else None
        if step is not None and step.reply is not None:
            given.add_own(step.reply)
        return given


def fetches_before(call: ToolCall, conversation: Conversation, fetch: str) -> int:
    """Return how many pages were asked for since a person spoke, `call` included.

    Turns that a program began grant nothing anew. Further pages of the text that was asked for last
    are free: nobody is asked for them.
    """
    replies: list[Reply] = []
    current = conversation.current
    if current is None:
        return 1
    if not _hears_a_person(current):
        for turn in reversed(conversation.turns):
            replies = [*(step.reply for step in turn.steps), *replies]
            if _hears_a_person(turn):
                break
    replies += [step.reply for step in current.steps]
    asked = [each for reply in replies for each in reply.calls if each.name == fetch]
    reply = current.step.reply if current.step is not None else None
    for each in reply.calls if reply is not None else ():
        if each.name == fetch:
            asked.append(each)
        if each.call_id == call.call_id:
            break
    count, before = 0, ""
    for each in asked:
        address, is_further = _asked(each)
        count += address != before or not is_further
        before = address
    return count


def _hears_a_person(turn: Turn | OpenTurn) -> bool:
    return any(not user.ambient and is_person(user.sender) for user in turn.heard)


def _asked(call: ToolCall) -> tuple[str, bool]:
    """Return which address a call asks for, and whether for a further page of its text."""
    arguments = arguments_of(call)
    page = arguments.get("page", 1)
    return str(arguments.get("url", "")), isinstance(page, int) and page > 1
