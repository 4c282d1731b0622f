"""What becomes of a session in which a person's words are erased. Pure.

Erased are the texts that the person wrote, the files that came with them, what they answered to
questions and called the session; their id, wherever it stands; their words where somebody quoted
them whole, and the lines of replies that quote a part; every summary made, and the sound of every
reply spoken, after they spoke; and what the model was shown besides: notes, their pinned messages,
and quotes that hold one of theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from everturn_actors.codec import Codec, dump
from everturn_actors.events import (
    AmbientStored,
    Announced,
    Body,
    CallFinished,
    Edited,
    Event,
    Labelled,
    ModelReplied,
    NotesShown,
    OlderQuoted,
    Pinned,
    Received,
    Spoken,
    Transcribed,
)
from everturn_actors.ids import is_made_name
from everturn_actors.json_values import as_object, is_list, is_object
from everturn_actors.model import Attachment
from everturn_actors.state.serialization import from_record, to_record
from everturn_actors.state.session_state import SessionState
from everturn_gateway.tools.memory.people import folded

ERASED: Final = "[erased]"
ERASED_SUMMARY: Final = "[erased: this summary told of words that were erased]"
NOBODY: Final = "erased"
_PHRASE: Final = 12  # characters: what is shorter is said by everybody
_NAMED: Final = re.compile(r"\A\[([^\]\n]{1,200})\] ?")
_LABEL: Final = re.compile(r"^\[[^\n]*\]\s*$", re.MULTILINE)
_SAVED: Final = re.compile(r"^\[file [^\n]{1,300} saved as ([^\n\]]{1,500})\]", re.MULTILINE)
_QUOTED: Final = re.compile(r"“([^”]*)”")  # as questions of the gateway quote
_WHO: Final = ("sender", "by")
_WORDS: Final = ("text", "answer", "title")
_STATE: Final = Codec[SessionState](SessionState)


class Person(Struct, frozen=True):
    """Whose words are erased."""

    channel: str
    "The name of a channel; empty = a principal, whatever the channel."
    sender: str
    "Their id on it, or the name of the principal."

    def __str__(self) -> str:
        return f"{self.channel or 'principal'}:{self.sender}"


class Traces(Struct):
    """What a person left in one session."""

    seqs: set[int] = field(default_factory=set[int])
    "Of their messages."
    others: set[str] = field(default_factory=set[str])
    "Who else spoke."
    phrases: set[str] = field(default_factory=set[str])
    names: set[str] = field(default_factory=set[str])
    media: set[str] = field(default_factory=set[str])
    saved: set[str] = field(default_factory=set[str])
    "Files that were put into the agent's workspace."
    made: set[str] = field(default_factory=set[str])
    "Files that turns made and something names, whoever was there."
    titles: set[str] = field(default_factory=set[str])
    "What they called the session."

    def see(self, event: Event, person: Person) -> None:
        """Take note of an event."""
        self.made.update(each.name for each in _made_in(event.body))
        match event.body:
            case Received() | AmbientStored() | Announced() as body:
                if body.sender == person.sender:
                    files = body.attachments if isinstance(body, Received) else ()
                    self._own(event.seq, body.text, files)
                elif body.sender:
                    self.others.add(body.sender)
            case Edited(received=received, text=text) if received in self.seqs:
                self._own(event.seq, text, ())
            case Transcribed(message=message) as body if message in self.seqs:
                # No message of its own: it has the sender of the one that it is a part of.
                self.phrases.update(each for each in body.readings if len(each) >= _PHRASE)
            case Spoken(attachments=attached) | ModelReplied(images=attached) if self.seqs:
                self.media.update(each.name for each in attached)  # nothing can be cut out of it
            case OlderQuoted(quoted=quoted, text=text) if self.seqs.intersection(quoted):
                self.phrases.add(text)
            case Pinned(message=message, text=text) if message in self.seqs:
                self.phrases.add(text)
            case NotesShown(text=text) if self.seqs and text:
                self.phrases.add(text)  # what was noted may follow from what they said
            case Labelled(labels=labels, by=by) if by == person.sender and labels.title:
                self.titles.add(labels.title)
            case _:
                pass

    def see_state(self, state: SessionState) -> None:
        """Take note of what a snapshot names, as the events may be gone."""
        results = (r for turn in state.held_turns for step in turn.steps for r in step.results)
        shown = (file for each in results for file in each.attachments)
        pending = (file for each in state.outbox for file in each.attachments)
        self.made.update(each.name for each in (*shown, *pending))

    def _own(self, seq: int, text: str, files: Iterable[Attachment]) -> None:
        self.seqs.add(seq)
        self.media.update(each.name for each in files)
        self.saved.update(_SAVED.findall(text))
        named = _NAMED.match(text)
        if named is not None:
            self.names.add(named[1])
        plain = _NAMED.sub("", text)
        parts = {text, plain, *_LABEL.split(plain)}
        self.phrases.update(each.strip() for each in parts if len(each.strip()) >= _PHRASE)


def _made_in(body: Body) -> tuple[Attachment, ...]:
    match body:
        case CallFinished(attachments=files, images=images):
            return (*files, *images)
        case Spoken(attachments=files) | ModelReplied(images=files):
            return files
        case _:
            return ()


class Scrubbing(Struct, frozen=True):
    """`Rewriting` of a session without what a person said. The same twice is the same once."""

    person: Person
    traces: Traces

    def event(self, event: Event) -> Event:
        """See `Rewriting.event`."""
        record = to_record(event)
        is_own = event.seq in self.traces.seqs
        if record.get("type") == "summarised" and self._is_after(event.seq):
            record["text"] = ERASED_SUMMARY
            record.pop("opaque", None)  # the provider's own form of it tells the same
        if record.get("type") == "context_reduced" and record.get("note"):
            record["note"] = ERASED if self._is_after(event.seq) else record["note"]
        return from_record(as_object(self._scrubbed(record, is_own=is_own)))

    def state(self, state: SessionState) -> SessionState:
        """See `Rewriting.state`."""
        record = dump(state)
        reductions = record.get("reductions")
        if is_object(reductions) and self.traces.seqs:
            summary = reductions.get("summary")
            if is_object(summary):
                summary["text"] = ERASED_SUMMARY
                summary.pop("opaque", None)
            if reductions.get("note"):
                reductions["note"] = ERASED
        labels = record.get("labels")
        if is_object(labels) and state.labels.title in self.traces.titles:
            labels["title"] = ""
        return _STATE.load(self._scrubbed(record, is_own=False))

    def keeps_media(self, name: str) -> bool:
        """See `Rewriting.keeps_media`."""
        if is_made_name(name) and name not in self.traces.made:
            return False  # left by a turn that ended before its event: nobody knows what it shows
        return name not in self.traces.media

    def keeps_result(self, text: str) -> bool:
        """See `Rewriting.keeps_result`."""
        return not any(phrase in text for phrase in self.traces.phrases)

    def _is_after(self, seq: int) -> bool:
        return any(own < seq for own in self.traces.seqs)

    def _scrubbed(self, value: object, *, is_own: bool) -> object:
        if isinstance(value, str):
            return self._without_quotes(value)
        if is_list(value):
            return [self._scrubbed(each, is_own=is_own) for each in value]
        if not is_object(value):
            return value
        is_own = is_own or any(value.get(each) == self.person.sender for each in _WHO)
        scrubbed: dict[str, object] = {}
        for name, each in value.items():
            if name in _WHO and each == self.person.sender:
                scrubbed[name] = NOBODY
            elif is_own and name in _WORDS and isinstance(each, str) and each:
                scrubbed[name] = "" if name == "title" else ERASED
            elif is_own and name == "attachments":
                scrubbed[name] = []
            elif is_own and name == "file_name":
                scrubbed[name] = ""
            elif name == "arguments" and isinstance(each, str):
                scrubbed[name] = self._arguments(each)
            else:
                scrubbed[name] = self._scrubbed(each, is_own=is_own)
        return scrubbed

    def _arguments(self, text: str) -> str:
        """Return the arguments of a call without values that are a part of what they said."""
        if not self.traces.phrases:
            return text
        try:
            value = json.loads(text)
        except ValueError:
            return self._without_quotes(text)
        scrubbed = self._without_parts(value)
        return text if scrubbed == value else json.dumps(scrubbed, ensure_ascii=False)

    def _without_parts(self, value: object) -> object:
        if isinstance(value, str):
            return ERASED if self._is_part(value) else self._without_quotes(value)
        if is_list(value):
            return [self._without_parts(each) for each in value]
        if not is_object(value):
            return value
        return {name: self._without_parts(each) for name, each in value.items()}

    def _is_part(self, text: str) -> bool:
        plain = folded(text)
        return len(plain) >= _PHRASE and any(plain in folded(own) for own in self.traces.phrases)

    def _without_quotes(self, text: str) -> str:
        for phrase in sorted(self.traces.phrases, key=len, reverse=True):
            if phrase in text:
                text = text.replace(phrase, ERASED)
        if "“" in text:
            text = _QUOTED.sub(lambda m: f"“{ERASED}”" if self._is_part(m[1]) else m[0], text)
        for name in self.traces.names:
            if f"[in reply to {name}" in text:
                quote = rf"\[in reply to {re.escape(name)}: \"[^\n]*\"\]"
                text = re.sub(quote, f"[in reply to {NOBODY}]", text)
        return text
