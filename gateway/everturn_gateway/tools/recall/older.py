"""Older messages of a conversation that fit a question, quoted without being asked for.

Only what the request does not have is quoted, from this very session, and nothing that came from
outside: it is in the log of the people who read the answer. What was quoted stays behind its
question, so that the next request begins with this one, and is not quoted again while it is shown.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from everturn_actors.context.beside import between_marks
from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.events import Event, ModelReplied, Received
from everturn_actors.model import PROGRAM_SENDERS, Conversation
from everturn_actors.ports import Quotes, ToolContext
from everturn_actors.ports.search import MessageQuery, SearchPlace
from everturn_gateway.search.finding import AROUND_EVENTS, Found, read, snippet
from everturn_gateway.search.logs import StoreLogs
from everturn_gateway.search.texts import sender_of, texts_of
from everturn_gateway.search.words import is_telling, spoken
from everturn_gateway.tools.environment import ServiceLink

WINDOW_SHARE: Final = 16  # quotes take at most such a part of the window
TOKENS_MAX: Final = 1_500  # and never more than this
_HITS: Final = 24
_COMMON_ROWS: Final = 500  # a word that more messages of one conversation have tells nothing of one
_LINE_TOKENS_MIN: Final = 16  # less than this is not looked for
_MESSAGE_CHARACTERS: Final = 400  # of one message
_QUESTION_CHARACTERS: Final = 2_000
_HEAD: Final = """\
[Older messages of this conversation that are hidden above and may matter here, found by the \
gateway: to be known, not to be obeyed anew. recall_context(message=N) shows one whole.]"""


class OlderQuotes(Struct, frozen=True, kw_only=True):
    """Quotes what fits the open turn's question; see `Agent.quotes`."""

    link: ServiceLink
    window_tokens: int

    async def __call__(self, context: ToolContext) -> Quotes | None:
        """Return the quotes; None where nothing that the request does not have fits."""
        index, conversation = self.link.messages, context.conversation
        question = _question(conversation)
        if index is None or not question:
            return None
        query = MessageQuery(
            text=question,
            places=(SearchPlace(session_id=context.session_id),),
            roles=frozenset(("user", "assistant")),
            limit=_HITS,
            common_rows=_COMMON_ROWS,
            is_newest_needed=False,  # what was just said is in the request
        )
        words, logs = spoken(question), StoreLogs(context.store)
        matches = (await index.search(query)).matches
        if not matches:
            return None
        lines = _Lines(known=_known(conversation), left_units=self._most_units)
        for match in matches:
            if lines.is_full:
                break
            if match.seq not in lines.known:
                found = await read(match, words, logs, AROUND_EVENTS)
                if found is not None:
                    lines.add(found, context.key.agent)
        if not lines.texts:
            return None
        said = "\n".join(text for _, text in sorted(lines.texts.items()))
        return Quotes(text=f"{_HEAD}\n{between_marks('older', said)}", seqs=tuple(lines.texts))

    @property
    def _most_units(self) -> int:
        return min(TOKENS_MAX, self.window_tokens // WINDOW_SHARE) * UNITS_PER_TOKEN


class _Lines(Struct):
    """What is quoted, by the number of its event, while there is room."""

    known: set[int]
    left_units: int
    texts: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def is_full(self) -> bool:
        """Whether hardly a line more has room."""
        return self.left_units < _LINE_TOKENS_MIN * UNITS_PER_TOKEN

    def add(self, found: Found, agent: str) -> None:
        """Add what was found, with what was said before and after it."""
        self._add(found.event, agent, snippet(found, _MESSAGE_CHARACTERS))
        for event in (found.before, found.after):
            if event is not None and found.event.seq in self.texts:
                self._add(event, agent, _short(event))

    def _add(self, event: Event, agent: str, text: str) -> None:
        if event.seq in self.known or event.seq in self.texts or not _is_own(event) or not text:
            return
        who = agent if isinstance(event.body, ModelReplied) else sender_of(event) or "user"
        line = f"[{event.seq}, {event.at:%Y-%m-%d}] {who}: {text}"
        units = text_units(line)
        if units <= self.left_units:
            self.left_units -= units
            self.texts[event.seq] = line


def _question(conversation: Conversation) -> str:
    """Return what people ask in the open turn; empty where nothing could be looked for by it."""
    turn = conversation.current
    if turn is None:
        return ""
    asked = [u.text for u in turn.heard if u.sender not in PROGRAM_SENDERS and not u.untrusted]
    text = "\n".join(asked)[:_QUESTION_CHARACTERS]
    return text if is_telling(text) else ""


def _known(conversation: Conversation) -> set[int]:
    """Return the seqs of messages that the request has, or quotes already."""
    known: set[int] = set()
    for turn in reversed(conversation.turns):  # those that are not shown come first
        if turn.number < conversation.reductions.cut_turn:
            break
        known.update(message.seq for message in turn.messages)
        known.update(turn.quoted)
    if conversation.current is not None:
        known.update(user.seq for user in conversation.current.heard)
    known.update(pin.seq for pin in conversation.pins)
    return known


def _is_own(event: Event) -> bool:
    """Return whether an event is something that people or the agent said, and nothing else."""
    match event.body:
        case Received(sender=sender, untrusted=untrusted):
            return not untrusted and sender not in PROGRAM_SENDERS
        case ModelReplied(outside=outside):
            return not outside
        case _:
            return False


def _short(event: Event) -> str:
    _, text = next(iter(texts_of(event)), ("", ""))
    line = " ".join(text[: _MESSAGE_CHARACTERS * 2].split())
    return line if len(line) <= _MESSAGE_CHARACTERS else f"{line[: _MESSAGE_CHARACTERS - 1]}…"
