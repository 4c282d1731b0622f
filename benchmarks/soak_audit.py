"""The audit of a soak: what was sent against every log, request, reply and witness.

It takes what the senders know (`soak_ledger`), what the platforms show and what stands on disk
(`soak_logs`), and believes none of them: each fact has to be there in all places, and once.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from soak_ledger import AGENT, LABEL, TOKEN, WITNESS, Ledger, Message
from soak_logs import Log, doubts, interrupted_calls, open_turns, read_logs, where_received

INTERRUPTED: Final = "interrupted by a restart"
OVERTAKEN: Final = "not run: a new message came first"
INSTANT_CHARACTERS: Final = len("2026-11-22T14:46:17.934554Z")
LOSS_S: Final = 60  # so long after an answer was cut off its chunk may be found in doubt
PREVIEW_S: Final = 5  # so long after a platform took a preview its number is on disk
_CHATS: Final = ("telegram", "discord")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message of the bot, as a platform shows it at the end."""

    number: int
    text: str

    @property
    def is_labelled(self) -> bool:
        """Whether it says itself that it may be a repeat."""
        return self.text.startswith(LABEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that must not be."""

    what: str
    "Which promise it breaks, in few words; findings are counted by it."
    marker: str = ""
    session: str = ""
    detail: str = ""


@dataclass(slots=True)
class Audit:
    """What was found."""

    findings: list[Finding] = field(default_factory=list[Finding])
    counts: Counter[str] = field(default_factory=Counter[str])
    "What is allowed, and is shown all the same."

    def fault(self, what: str, marker: str = "", session: str = "", detail: object = "") -> None:
        """Note something that must not be."""
        finding = Finding(what=what, marker=marker, session=session, detail=str(detail))
        self.findings.append(finding)


def audit(ledger: Ledger, shown: Mapping[tuple[str, str], Sequence[Shown]], folder: Path) -> Audit:
    """Hold everything against everything.

    Args:
        ledger: What senders and servers noted.
        shown: The bot's messages by platform and chat, oldest first.
        folder: That of the gateway, which is stopped.
    """
    found = Audit()
    logs = read_logs(folder)
    _check_logs(found, logs)
    _check_messages(found, ledger, logs)
    _check_doubts(found, ledger, logs)
    _check_platforms(found, ledger, logs, shown)
    _check_witness(found, ledger, logs, folder)
    _check_jobs(found, ledger, logs, shown, folder)
    for problem in ledger.problems:
        found.fault("a client saw what it must not see", detail=problem)
    return found


def _check_logs(found: Audit, logs: Sequence[Log]) -> None:
    """Every log is whole and every turn ended once."""
    for log in logs:
        for fault in log.faults:
            found.fault("a log is not whole", session=log.session, detail=fault)
        for turn in open_turns(log):
            found.fault("a turn did not end once", session=log.session, detail=f"turn {turn}")
        for event in log.of("discarded", "session_ended"):
            found.fault("messages were dropped", session=log.session, detail=event)
        found.counts["events"] += len(log.events)
        found.counts["events in log and archive, alike"] += log.overlaps
        found.counts["replies that broke off and were asked for again"] += sum(
            1 for _ in log.of("reply_broken")
        )
    found.counts["sessions"] = len(logs)


def _check_messages(found: Audit, ledger: Ledger, logs: Sequence[Log]) -> None:
    """Every message was received once, read by one turn, and answered by it."""
    received = where_received(logs)
    for marker in received.keys() - ledger.messages.keys():
        found.fault("a message nobody sent", marker, received[marker][0][0].session)
    for marker, message in ledger.messages.items():
        places = received.get(marker, [])
        if not places:
            if message.is_certain:
                found.fault("lost: no log has it", marker, detail=message.text)
            else:
                found.counts["commands that were killed before their message was taken"] += 1
            continue
        log, seq = places[0]
        if len(places) > 1:
            where = [(log.session, seq) for log, seq in places]
            found.fault("doubled: received more than once", marker, log.session, where)
        turns = log.turns_of(seq)
        if len(turns) != 1:
            found.fault("read by other than one turn", marker, log.session, turns)
            continue
        if log.outcomes(turns[0]) != ["answered"]:
            ends = [e for e in log.of("turn_finished") if e["turn"] == turns[0]]
            found.fault("lost: its turn was not answered", marker, log.session, ends)
        elif Counter(log.tokens()) & Counter(message.tokens) != Counter(message.tokens):
            found.fault("lost: no reply in the log names it", marker, log.session)
        _check_told(found, message, log)


def _check_told(found: Audit, message: Message, log: Log) -> None:
    """What a client was told is the answer, whole, and the same each time."""
    if message.kind.startswith(_CHATS) or not message.is_certain:
        return
    if not message.answers:
        found.fault("lost: its client has no answer", message.marker, log.session)
    for answer in message.answers:
        said = TOKEN.findall(answer)
        if [t for t in said if t in message.tokens] != message.tokens:
            found.fault("lost: its client was told something else", message.marker, "", answer)
    if len({" ".join(answer.split()) for answer in message.answers}) > 1:
        found.fault("the same key, another answer", message.marker, log.session, message.answers)


def _check_doubts(found: Audit, ledger: Ledger, logs: Sequence[Log]) -> None:
    """A message to people is in doubt only where its answer was lost; none is sent once known."""
    ends = [life.ended_at for life in ledger.lives if life.ended_at is not None]
    losses: dict[str, list[datetime]] = defaultdict(list)
    for at, chat in ledger.lost_answers:
        losses[chat].append(at)
    for log in logs:
        found_here, faults = doubts(log)
        for fault in faults:
            found.fault("a message to people went wrong", session=log.session, detail=fault)
        for doubt in found_here:
            if doubt.is_cut_short:
                why = any(doubt.sending_at <= end <= doubt.unknown_at for end in ends)
            else:
                since = doubt.sending_at - timedelta(seconds=LOSS_S)
                why = any(since <= at <= doubt.unknown_at for at in losses[log.chat])
            if not why:
                found.fault("in doubt without a reason", session=log.session, detail=doubt)
            found.counts["messages to people: in doubt"] += 1


def _check_platforms(
    found: Audit,
    ledger: Ledger,
    logs: Sequence[Log],
    shown: Mapping[tuple[str, str], Sequence[Shown]],
) -> None:
    """Every part of every reply is on its platform, in order, and once unless it is labelled."""
    sent_to: dict[str, list[Message]] = defaultdict(list)
    for message in ledger.messages.values():
        if message.kind.startswith(_CHATS):
            sent_to[message.chat].append(message)
    by_chat = {(log.channel, log.chat): log for log in logs}
    for (channel, chat), texts in shown.items():
        log = by_chat.get((channel, chat))
        if log is None or chat not in sent_to:
            continue
        _check_chat(found, ledger, log, texts, sent_to.pop(chat))
    for messages in sent_to.values():
        for message in messages:
            found.fault("lost: its chat shows no answer at all", message.marker)


def _check_chat(
    found: Audit, ledger: Ledger, log: Log, texts: Sequence[Shown], messages: Sequence[Message]
) -> None:
    in_doubt = len(doubts(log)[0]) + _previews_in_doubt(log)
    plain: Counter[str] = Counter()
    labelled: Counter[str] = Counter()
    order: dict[str, None] = {}
    repeated = {token for e in texts if e.is_labelled for token in TOKEN.findall(e.text)}
    # The end of a long reply, shown as it came: the label stands at the reply's beginning.
    told_of = {token.partition("-")[0] for token in repeated}
    known = _known_numbers(log)
    for each in texts:
        tokens = TOKEN.findall(each.text)
        is_page = each.text.startswith("…") and {t.partition("-")[0] for t in tokens} <= told_of
        is_told = is_page or not tokens or bool(repeated & {*tokens})
        if str(each.number) not in known and is_told and _is_left_behind(ledger, log, each):
            found.counts["messages that stayed though their answer was lost"] += 1
            continue
        if not tokens:
            found.fault("a line nobody expects", session=log.session, detail=each.text)
        (labelled if each.is_labelled else plain).update(tokens)
        found.counts[f"{log.channel}: messages to people"] += 1
        found.counts[f"{log.channel}: labelled as a possible repeat"] += each.is_labelled
        order |= dict.fromkeys(tokens)
    for message in messages:
        for token in message.tokens:
            if not plain[token] + labelled[token]:
                found.fault("lost: a part of its reply was not shown", message.marker, log.session)
                break
        # each loss of an answer may cost one more repeat, which says so
        if any(plain[t] > 1 or labelled[t] > max(in_doubt, 1) for t in message.tokens):
            where = [e for e in texts if message.marker in e.text]
            found.fault("doubled: shown twice without a label", message.marker, log.session, where)
    if sum(each.is_labelled for each in texts) > in_doubt:
        found.fault("a label without a doubt", session=log.session)
    if [*order] != [*dict.fromkeys(log.tokens())]:
        found.fault("shown in another order than said", session=log.session)


def _known_numbers(log: Log) -> set[str]:
    """Return what the log says that its messages are called on their platform."""
    events = log.of("chunk_marked", "preview_sent")
    return {str(e.get("platform_id", "")).rpartition(":")[2] for e in events}


def _previews_in_doubt(log: Log) -> int:
    """Return of how many previews the log does not say whether they arrived."""
    marks: dict[tuple[int, int], str] = {}
    for event in log.of("preview_sent"):
        marks[event["turn"], event["step"]] = event.get("mark", "sent")
    return sum(mark == "sending" for mark in marks.values())


def _is_left_behind(ledger: Ledger, log: Log, shown: Shown) -> bool:
    """Whether the outcome of a message was lost with the process, or with the platform's answer.

    It is there all the same: a part that was sent once more, a preview beside its reply, or the
    beginning of a reply that broke off. What has words of a reply is followed by a labelled one.
    """
    at = ledger.shown_at.get((log.channel, str(shown.number)))
    if at is None or shown.is_labelled:
        return False
    ends = [life.ended_at for life in ledger.lives if life.ended_at is not None]
    lost = [when for when, chat in ledger.lost_answers if chat == log.chat]
    soon, since = at + timedelta(seconds=PREVIEW_S), at - timedelta(seconds=PREVIEW_S)
    return any(at <= end <= soon for end in ends) or any(since <= each <= soon for each in lost)


def _check_witness(found: Audit, ledger: Ledger, logs: Sequence[Log], folder: Path) -> None:
    """A tool had its effect once, or not at all where the call was reported as interrupted."""
    path = folder / ".everturn" / "files" / AGENT / WITNESS
    effects = Counter(path.read_text().split() if path.exists() else ())
    results = interrupted_calls(logs)
    for marker, message in ledger.messages.items():
        if not message.uses_tool or marker not in results:
            continue
        found.counts["calls of the tool"] += 1
        was_interrupted = INTERRUPTED in results[marker]
        was_overtaken = results[marker].startswith(OVERTAKEN)
        found.counts["calls reported as interrupted"] += was_interrupted
        found.counts["calls reported as overtaken by a message"] += was_overtaken
        if effects[marker] > 1:
            found.fault("doubled: its tool ran twice", marker, detail=effects[marker])
        if effects[marker] and was_overtaken:
            found.fault("a tool ran that was reported as not run", marker)
        if not (effects[marker] or was_interrupted or was_overtaken):
            found.fault("lost: its tool did not run", marker, detail=results[marker])
    for marker in effects.keys() - results.keys():
        found.fault("a tool ran that no log names", marker)


def _check_jobs(
    found: Audit,
    ledger: Ledger,
    logs: Sequence[Log],
    shown: Mapping[tuple[str, str], Sequence[Shown]],
    folder: Path,
) -> None:
    """Every run was begun, finished, and said once."""
    for job, (channel, chat) in ledger.jobs.items():
        path = folder / ".everturn" / "schedules" / "runs" / f"{job}.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        kept = records[0]["job_state"] if records[0]["kind"] == "kept" else {}
        recent = kept.get("recent", ())  # a long log is shortened
        over = [run["scheduled_at"] for run in recent if run["outcome"] != "misfired"]
        still_open = [run["scheduled_at"] for run in kept.get("open", ())]  # `ran` counts them too
        began = {*over, *still_open}
        began |= {r["scheduled_at"] for r in records if r["kind"] == "began"}
        finished = Counter(
            [*over, *(r["scheduled_at"] for r in records if r["kind"] == "finished")]
        )
        if began != finished.keys() or any(n > 1 for n in finished.values()):
            found.fault("a run did not end once", detail=(job, began ^ finished.keys()))
        keys = Counter(
            event.get("idempotency_key", "")
            for log in logs
            for event in log.of("announced", "received")
            if event.get("idempotency_key", "").startswith(f"schedule:{job}:")
        )
        found.counts["runs of scheduled jobs"] += len(began)
        taken = {key.removeprefix(f"schedule:{job}:")[:INSTANT_CHARACTERS] for key in keys}
        if kept:  # what was shortened away was compared by nobody: the sessions still know it
            taken = {
                scheduled_at for scheduled_at in taken if scheduled_at >= min(began, default="")
            }
        if taken != began or any(n > 1 for n in keys.values()):
            found.fault("a run was not taken once", detail=(job, len(began), keys))
        if (channel, chat) in shown:
            said = [e.is_labelled for e in shown[channel, chat]]
            begun = len(began) if not kept else kept["ran"] + len(began - {*over, *still_open})
            if not said.count(False) <= begun <= len(said):
                found.fault("a run was not said once", detail=(job, len(began), said))
