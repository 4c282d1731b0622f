"""What a summary is made of, how a model is asked for one, and what stands in when none answers.

Pure. A summary takes the place of whole finished turns, together with the summary before it. The
model gets them as data, between tags whose names depend on all of it: nobody who took part could
have known them, so nothing that was said can end the data and speak from outside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from hashlib import sha256
from math import ceil
from textwrap import indent
from typing import Final

from msgspec import Struct

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.context.projection.markers import without_notices
from everturn_actors.context.summary_prompts import FORM, LIVE, SYSTEM
from everturn_actors.context.transcripts import (
    INDENT,
    markdown,
    one_line,
    quoted,
    shortened,
    speaker,
    transcript,
    without_middle,
)
from everturn_actors.errors import ModelTransientError
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    ModelRequest,
    Notice,
    Reply,
    Summary,
    Turn,
    UserMessage,
)
from everturn_actors.outside import summarised
from everturn_actors.spec import ModelSpec

DIGEST_CHARACTERS: Final = 8_000  # of a whole digest
SUMMARY_CHARACTERS: Final = 12_000  # twice what is asked for; the rest of a longer one goes
FOCUS_CHARACTERS: Final = 2_000
DIGEST_HEADING: Final = "[No model summarised what follows: it is how each message began.]"

_ABSURD_CHARACTERS = 4 * SUMMARY_CHARACTERS  # whatever that is, it is no summary
_CUT = "\n[the summary was longer and is cut here]"
_SUMMARY_TOKENS = 1_500
_OUTPUT_TOKENS = 4_096  # more than a summary needs: some models think aloud first
_TEMPERATURE = 0.3
_INPUT_PERCENT = 40  # of the window, that what was said may take
_INPUT_FLOOR_TOKENS = 128  # are sent however small the window is; the provider may refuse
_MARGIN_DIVISOR = 10  # a tenth of the window pays for what the estimate misses
_PART_DIVISOR = 4  # a quarter is the most for the reply, and for the summary before
_NOTE_CHARACTERS = 1_000
_LINE_CHARACTERS, _LINE_DIVISOR, _LINE_CHARACTERS_MAX = 200, 10, 1_000  # of a message in a digest
_HEAD_DIVISOR = 4  # where messages are left out of a digest, a quarter of the rest is before that
_OMITTED_CHARACTERS = 60
_TORN_CHARACTERS = 300  # a shorter piece of a line is not worth keeping
_THOUGHTS = (("<think>", "</think>"), ("<thinking>", "</thinking>"))

_KEPT_CHARACTERS = 200  # of the first message that stays, by which the model knows the place


class SummaryTask(Struct, frozen=True, kw_only=True):
    """What a summary is to be made of."""

    turns: tuple[Turn, ...]
    "Finished turns that no summary tells of yet, oldest first, at least one."
    previous: Summary | None = None
    "The summary so far, which the new one carries on."
    focus: str = ""
    "What a person asked to keep above all."
    note: str = ""
    "What the summary has to tell besides: what left in an emergency."
    compaction: ModelRequest | None = None
    "The request that has the provider itself put a summary in their place; None = it does not."
    live: ModelRequest | None = None
    "The request that asks for it behind the conversation as it was sent; None = as data alone."

    @property
    def last_turn(self) -> int:
        """The newest turn that the new summary tells of."""
        return self.turns[-1].number

    @property
    def messages(self) -> int:
        """How many messages the new summary stands for, those of the previous one included."""
        before = self.previous.messages if self.previous else 0
        return before + sum(turn.size_messages for turn in self.turns)

    @property
    def outside(self) -> tuple[str, ...]:
        """The text from outside that stands in it, by source: the summary may repeat it."""
        return summarised(self.turns, self.previous)


def summary_task(
    conversation: Conversation, *, older_turns: int, focus: str = ""
) -> SummaryTask | None:
    """Return what a summary of the oldest turns is to be made of; None where there is nothing.

    Args:
        conversation: As it stands. Turns that no request shows any more and no summary tells of
            yet are part of the task.
        older_turns: The summary is of the first so many of `conversation.turns`; those that the
            summary before tells of are passed over.
        focus: What a person asked to keep above all.
    """
    reductions = conversation.reductions
    told = reductions.summary.last_turn if reductions.summary else 0
    older = conversation.turns[: max(older_turns, 0)]
    turns = tuple(turn for turn in older if turn.number > told)
    if not turns:
        return None
    return SummaryTask(
        turns=turns,
        previous=reductions.summary,
        focus=focus.strip()[:FOCUS_CHARACTERS],
        note=reductions.note,
    )


# --- asking a model ---


def summary_request(
    task: SummaryTask,
    *,
    model: ModelSpec,
    window_tokens: int,
    scale: float = 1.0,
    halvings: int = 0,
) -> ModelRequest:
    """Return the request that asks a model for the summary.

    What was said takes at most two fifths of the window, and no more than the rest leaves; of a
    longer one the first quarter and the last three quarters of that stay. The previous summary
    stands in full, unless it takes more than a quarter of the window. Takes time in proportion to
    what is summarised: for a long conversation not on the event loop.

    Args:
        task: What is to be summarised.
        model: Who is asked.
        window_tokens: Its window.
        scale: Tokens of this model for one of the estimate.
        halvings: How often a provider found the request too long: what was said is halved so
            often.
    """
    part_tokens = max(window_tokens // _PART_DIVISOR, 1)
    output = min(_OUTPUT_TOKENS, part_tokens, model.max_output_tokens or _OUTPUT_TOKENS)
    text = task.previous.text if task.previous else ""
    previous = without_middle(text, _units(part_tokens, scale))
    said = transcript(task.turns)
    boundary = _boundary(previous, said)
    form = FORM.format(tokens=max(min(_SUMMARY_TOKENS, output * 3 // 4), 1))
    system = SYSTEM.format(boundary=boundary, form=form)
    instruction = _instruction(task)
    fixed = ceil(sum(map(text_units, (system, previous, instruction))) * scale / UNITS_PER_TOKEN)
    free = window_tokens - output - window_tokens // _MARGIN_DIVISOR - fixed
    allowed = max(min(window_tokens * _INPUT_PERCENT // 100, free), _INPUT_FLOOR_TOKENS)
    limit = min(_units(allowed, scale), text_units(said)) >> halvings
    parts = [_fenced("earlier-summary", boundary, previous)] if previous else []
    parts += [_fenced("conversation", boundary, without_middle(said, limit)), instruction]
    return ModelRequest(
        in_background=True,
        model=model.name,
        system=system,
        messages=(UserMessage(text="\n\n".join(parts)),),
        max_output_tokens=output,
        temperature=None if model.temperature is None else min(model.temperature, _TEMPERATURE),
    )


def live_request(
    task: SummaryTask,
    sent: ModelRequest,
    first_kept: UserMessage | None,
    *,
    output_tokens: int,
) -> ModelRequest:
    """Return the request that asks for a summary at the end of what the model was sent last.

    A provider's cache serves all of it but the instruction. What was said stands there as it was
    said and not as data: only for conversations in which nothing from outside is shown.

    Args:
        task: What is to be summarised.
        sent: The conversation as the next request would have it.
        first_kept: The question from which on messages stay as they are; None = none do.
        output_tokens: How much room there is for the reply.
    """
    upto = "here"
    if first_kept is not None:
        begin = one_line(first_kept.text)[:_KEPT_CHARACTERS]
        upto = f"the message that begins so, which stays as it is like all behind it:\n{begin}"
    instruction = LIVE.format(
        upto=upto,
        form=FORM.format(tokens=max(min(_SUMMARY_TOKENS, output_tokens * 3 // 4), 1)),
        instruction=_instruction(task),
    )
    return dataclasses.replace(
        sent,
        messages=(*sent.messages, UserMessage(text=instruction)),
        max_output_tokens=min(_OUTPUT_TOKENS, output_tokens),
        in_background=True,
    )


def compaction_request(
    task: SummaryTask, sent: ModelRequest, first_kept: UserMessage | None, *, output_tokens: int
) -> ModelRequest | None:
    """Return the request that has a provider put a summary of its own in the place of turns.

    It is the beginning of what the model was sent last, so that the provider's cache serves it, and
    ends before the first message that stays; see `live_request`. None where that cannot tell all
    that it has to: turns that are not shown, and what a person asked to keep above all.
    """
    if task.focus or any(_remarks(task)):
        return None
    seqs = [message.seq for message in sent.messages]
    if task.turns[0].users[0].seq not in seqs or (first_kept and first_kept.seq not in seqs):
        return None
    end = len(seqs) if first_kept is None else seqs.index(first_kept.seq)
    messages = sent.messages[:end]
    if task.previous is not None and not task.previous.opaque:
        # It stands in the prompt, of which nothing stays: what it tells has to be told again.
        messages = (Notice(text=task.previous.text), *messages)
    return dataclasses.replace(
        sent,
        messages=messages,
        max_output_tokens=min(_OUTPUT_TOKENS, output_tokens),
        compacts=True,
        in_background=True,
    )


def check_summary(text: str) -> str:
    """Return the summary in what a model gave, trimmed, without what it thought aloud first.

    Raises:
        ModelTransientError: It is empty, or far too long to be one.
    """
    if len(text) > _ABSURD_CHARACTERS:
        msg = f"the model gave {len(text):,} characters, which is no summary"
        raise ModelTransientError(msg)
    for begin, end in _THOUGHTS:
        text = _without_thoughts(text, begin, end)
    text = without_notices(text.strip())
    if not text:
        msg = "the model gave an empty summary"
        raise ModelTransientError(msg)
    if len(text) <= SUMMARY_CHARACTERS:
        return text
    return text[: SUMMARY_CHARACTERS - len(_CUT)].rstrip() + _CUT


def with_remarks(task: SummaryTask, text: str) -> str:
    """Return the text of a model's summary, and what it has to tell besides, word for word."""
    return "\n\n".join((text, *(remark for remark in _remarks(task) if remark not in text)))


def _instruction(task: SummaryTask) -> str:
    """Return what stands after the data. What a person asked for is trusted."""
    focus = f"Keep above all what concerns this:\n{indent(task.focus, INDENT)}\n\n"
    return f"{focus if task.focus else ''}Write the summary now."


def _boundary(*data: str) -> str:
    """Return a name that stands nowhere in `data`; the same data give the same one."""
    joined = "\n".join(data)
    made = sha256(joined.encode("utf-8", "surrogatepass"))
    while (name := made.hexdigest()[:16]) in joined:
        made.update(b"\n")
    return name


def _fenced(name: str, boundary: str, text: str) -> str:
    return f"<{name}-{boundary}>\n{text}\n</{name}-{boundary}>"


def _units(tokens: int, scale: float) -> int:
    return int(tokens * UNITS_PER_TOKEN / scale)


def _without_thoughts(text: str, begin: str, end: str) -> str:
    """Return `text` without the blocks of reasoning that it begins with.

    Later ones are what the summary tells of. Some templates write the beginning themselves: then
    only the end is there, and a line ends with it.
    """
    if begin not in text:
        return text.rpartition(f"{end}\n")[2]
    while (text := text.lstrip()).startswith(begin):
        text = text.partition(end)[2]
    return text


# --- without a model ---


def digest(task: SummaryTask) -> str:
    """Return the summary that needs no model: the one before, and how each message began.

    At most `DIGEST_CHARACTERS`. Where that is too little, the newest part of the earlier summary
    stays, and the middle of the messages goes, with their number.
    """
    remarks = tuple(_remarks(task))
    room = DIGEST_CHARACTERS - sum(len(part) + 2 for part in ("", *remarks, DIGEST_HEADING))
    lines = [line for turn in task.turns for line in _lines(turn)]
    before = ""
    if task.previous:
        left = room - sum(len(line) + 1 for line in lines)
        before = _newest(task.previous.text, max(left, room // 2))
    heading = "" if DIGEST_HEADING in before else DIGEST_HEADING
    said = "\n".join(_some(lines, room - len(before)))
    return "\n\n".join(part for part in (before, *remarks, heading, said) if part)


def _remarks(task: SummaryTask) -> Iterator[str]:
    """Yield what a summary has to tell and cannot know."""
    told = task.previous.last_turn if task.previous else 0
    first = task.turns[0].number
    if first > told + 1:
        which = f"turn {told + 1}" if first == told + 2 else f"turns {told + 1} to {first - 1}"
        yield f"[This summary does not tell of {which}: no longer held when it was made.]"
    if task.note:
        yield task.note[-_NOTE_CHARACTERS:]


def _lines(turn: Turn) -> list[str]:
    """Return one line for each message of a turn."""
    lines = [_line(message) for message in turn.messages]
    if turn.outcome != "answered":
        lines[-1] += f" ({turn.outcome})"
    return lines


def _line(message: AnyMessage) -> str:
    text = (message.as_text if isinstance(message, UserMessage) else message.text).strip()
    keep = min(max(_LINE_CHARACTERS, len(text) // _LINE_DIVISOR), _LINE_CHARACTERS_MAX)
    said = without_notices(" ".join(text[:keep].split()))
    line = f"{speaker(message)}: {said}{'...' if len(text) > keep else ''}"
    if isinstance(message, Reply) and message.calls:
        calls = ", ".join(one_line(call.name) for call in message.calls)
        line += f" (calls {shortened(calls, _LINE_CHARACTERS)})"
    return line


def _newest(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    marker = "[... the beginning of the earlier summary is left out ...]\n"
    tail = text[-(limit - len(marker)) :]
    torn, ended, rest = tail.partition("\n")
    return marker + (rest if ended and len(torn) <= _TORN_CHARACTERS else tail)


def _some(lines: Sequence[str], room: int) -> Sequence[str]:
    """Return the lines that fit, from both ends, around the number of those that do not."""
    if sum(len(line) + 1 for line in lines) <= room:
        return lines
    room -= _OMITTED_CHARACTERS
    first = _how_many(lines, room // _HEAD_DIVISOR)
    last = len(lines) - _how_many(lines[:first:-1], room - room // _HEAD_DIVISOR)
    return [*lines[:first], f"[... {last - first} messages left out ...]", *lines[last:]]


def _how_many(lines: Sequence[str], room: int) -> int:
    for count, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return count
    return len(lines)


# --- what was summarised, to be read ---


def covered_text(task: SummaryTask) -> str:
    """Return the turns of the task as Markdown, whole: for where the log does not keep them.

    It holds the summary before and the name of that one's file, so that all of them can be found
    from the newest. Takes time in proportion to its length.
    """
    parts = [f"# Turns {task.turns[0].number} to {task.last_turn}"]
    if task.previous:
        where = f", in `{task.previous.path}`" if task.previous.path else ""
        parts.append(f"Before these: turns up to {task.previous.last_turn}{where}. Their summary:")
        parts.append(quoted(task.previous.text))
    return "\n\n".join((*parts, markdown(task.turns))) + "\n"
