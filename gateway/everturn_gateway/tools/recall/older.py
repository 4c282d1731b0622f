"""Older messages of a conversation that fit a question, quoted without being asked for.

Only what the request does not have is quoted, from this very session, and nothing that came from
outside: it is in the log of the people who read the answer. What was quoted stays behind its
question, so that the next request begins with this one, and is not quoted again while it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from everturn_actors.context.beside import between_marks
from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.events import Event, ModelReplied, Received
from everturn_actors.model import PROGRAM_SENDERS, Conversation
from everturn_actors.ports import Quotes, ToolContext
from everturn_actors.ports.search import MessageQuery, SearchPlace
from everturn_gateway.search.finding import AROUND_EVENTS, Found, read_together, snippet
from everturn_gateway.search.logs import StoreLogs
from everturn_gateway.search.texts import sender_of, texts_of
from everturn_gateway.search.words import is_telling, spoken
from everturn_gateway.tools.environment import ServiceLink

_COMMON_ROWS: Final = 500  # a word that more messages of one conversation have tells nothing of one
WINDOW_SHARE: Final = 8  # quotes take at most such a part of the window
TOKENS_MAX: Final = 2_000  # and never more than this
_HITS: Final = 32
# What stands beside a match is often what is meant: an answer more often than a question. And what
# stands beside several matches fits better than each of them.
_AFTER: Final = 0.8
_BEFORE: Final = 0.5
_FIRST: Final = 20  # ranks in which the weight of a match falls to a half
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
        matches = (await index.search(query)).matches
        if not matches:
            return None
        lines = _Lines(known=_known(conversation), left_units=self._most_units)
        hidden = [match for match in matches if match.seq not in lines.known]
        words, logs = spoken(question), StoreLogs(context.store)
        found = await read_together(hidden, words, logs, AROUND_EVENTS, with_ambient=False)
        for event, text in _ranked(found):
            lines.add(event, context.key.agent, text)
        if not lines.texts:
            return None
        said = "\n".join(lines.by_day())
        return Quotes(text=f"{_HEAD}\n{between_marks('older', said)}", seqs=tuple(lines.texts))

    @property
    def _most_units(self) -> int:
        return min(TOKENS_MAX, self.window_tokens // WINDOW_SHARE) * UNITS_PER_TOKEN


class _Lines(Struct):
    """What is quoted, by the number of its event, while there is room."""

    known: set[int]
    left_units: int
    texts: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    "The day, and what was said; the best match first."

    def add(self, event: Event, agent: str, text: str) -> None:
        """Add a message, unless the request has it, or others than people and the agent said it."""
        if event.seq in self.known or not _is_own(event) or not text:
            return
        who = agent if isinstance(event.body, ModelReplied) else sender_of(event) or "user"
        day, line = f"{event.at:%Y-%m-%d}:", f"[{event.seq}] {who}: {text}"
        units = text_units(f"{line}\n")
        if all(day != each for each, _ in self.texts.values()):
            units += text_units(f"{day}\n")
        if units <= self.left_units:
            self.left_units -= units
            self.texts[event.seq] = day, line

    def by_day(self) -> Iterator[str]:
        """Yield the lines, the oldest first, each day before what was said then."""
        before = ""
        for _, (day, line) in sorted(self.texts.items()):
            if day != before:
                yield day
            before = day
            yield line


def _ranked(found: Sequence[Found]) -> list[tuple[Event, str]]:
    """Return messages that fit, and those beside them, the best first, in the words to quote. Pure.

    Args:
        found: What the index found, the best first, with the messages before and after each.
    """
    weights, texts = dict[int, float](), dict[int, tuple[Event, str]]()
    for rank, each in enumerate(found):
        weight = 1 / (_FIRST + rank)
        texts[each.event.seq] = each.event, snippet(each, _MESSAGE_CHARACTERS)
        for event, share in ((each.event, 1.0), (each.before, _BEFORE), (each.after, _AFTER)):
            if event is not None:
                weights[event.seq] = weights.get(event.seq, 0.0) + share * weight
                texts.setdefault(event.seq, (event, _short(event)))
    best = sorted(weights, key=lambda seq: -weights[seq])
    return [texts[seq] for seq in best]


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
    cut = conversation.reductions.cut_turn
    shown = [turn for turn in conversation.turns if turn.number >= cut]
    steps = [step for turn in shown for step in turn.steps]
    # One kind after the other: to put a thousand turns in order takes five times as long.
    known = {user.seq for turn in shown for user in turn.users}
    known.update(user.seq for turn in shown for each in turn.steered for user in each.users)
    known.update(step.reply.seq for step in steps)
    known.update(result.seq for step in steps for result in step.results)
    known.update(seq for turn in shown for seq in turn.quoted)
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
