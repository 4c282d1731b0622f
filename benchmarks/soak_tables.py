"""What a soak found, as tables; and the rule by which a process is flat."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from harness import p, show
from soak_audit import Audit, Finding
from soak_ledger import Ledger, Message, Sample
from soak_logs import read_log

FINDINGS: Final = "soak-findings.jsonl"
EVENTS_SHOWN: Final = 40  # of a session that a finding names
FINDINGS_SHOWN: Final = 5

MEASURES: Sequence[tuple[str, Callable[[Sample], float], float, float]] = (
    ("memory, MB", lambda s: s.rss_mb, 0.05, 6.0),
    ("file descriptors", lambda s: float(s.fds), 0.05, 10.0),
    ("threads", lambda s: float(s.threads), 0.0, 8.0),
)
"""What is measured, and by which share or amount, whichever is more, it may grow."""


def calm(ledger: Ledger) -> list[Sample]:
    """Return the looks at the process while it was left in peace and worked."""
    return [s for s in ledger.samples if s.phase == "calm"]


def flatness(ledger: Ledger) -> list[tuple[str, str]]:
    """Return what grew while the gateway was left in peace.

    A measure is flat when it is, at rest after the last part of the calm phase, not above what it
    was at rest after the part before by more than `MEASURES` allows. While sessions are at work
    each keeps its newest events; what the allocator took for them once it keeps.
    """
    if len(ledger.rests) < 2:
        return []
    first, last = ledger.rests[-2:]
    return [
        (name, f"{measure(first):.1f} -> {measure(last):.1f}")
        for name, measure, share, amount in MEASURES
        if measure(last) - measure(first) > max(measure(first) * share, amount)
    ]


def slope_per_minute(samples: Sequence[Sample], measure: Callable[[Sample], float]) -> float:
    """Return the slope of the line through the samples (least squares)."""
    at = [s.at_s / 60 for s in samples]
    values = [measure(s) for s in samples]
    at_mean, mean = sum(at) / len(at), sum(values) / len(values)
    spread = sum((t - at_mean) ** 2 for t in at)
    return sum((t - at_mean) * (v - mean) for t, v in zip(at, values, strict=True)) / (spread or 1)


def show_all(ledger: Ledger, found: Audit) -> None:
    """Print all tables."""
    _show_messages(ledger, found)
    _show_lives(ledger)
    show("faults", ("fault", "times"), sorted(ledger.faults.items()))
    rows = sorted((name, count) for name, count in found.counts.items() if count)
    show("counted, and allowed", ("what", "how many"), rows)
    _show_growth(ledger)


def _show_messages(ledger: Ledger, found: Audit) -> None:
    what = Counter(f.marker and (ledger.messages[f.marker].kind, _word(f)) for f in found.findings)
    rows: list[list[object]] = []
    for kind in dict.fromkeys(m.kind for m in ledger.messages.values()):
        sent = [m for m in ledger.messages.values() if m.kind == kind]
        row: list[object] = [kind, len({m.chat for m in sent}), len(sent)]
        row += [what[kind, word] for word in ("lost", "doubled", "other")]
        rows.append([*row, *_latency(sent, faults=False), *_latency(sent, faults=True)])
    columns = ["sent by", "talks", "messages", "lost", "doubled", "other"]
    columns += ["p50 s", "p95 s", "p50 s, faults", "p95 s, faults"]
    show(f"{len(ledger.messages):,} messages", columns, rows)


def _word(finding: Finding) -> str:
    word = finding.what.partition(":")[0]
    return word if word in {"lost", "doubled"} else "other"


def _latency(sent: Sequence[Message], *, faults: bool) -> tuple[object, object]:
    took = [
        m.answered_s - m.sent_s
        for m in sent
        if m.answered_s is not None and (m.phase == "faults") == faults
    ]
    return (p(took, 0.5), p(took, 0.95)) if took else ("-", "-")


def _show_lives(ledger: Ledger) -> None:
    rows: list[tuple[object, ...]] = []
    for end, count in sorted(Counter(life.end for life in ledger.lives).items()):
        lives = [life for life in ledger.lives if life.end == end]
        ready = [life.ready_s for life in lives if life.ready_s is not None]
        spans = [
            (life.ended_at - life.began_at).total_seconds()
            for life in lives
            if life.ended_at is not None
        ]
        times = (p(ready, 0.5), max(ready)) if ready else ("-", "-")
        rows.append((end, count, p(spans, 0.5), max(spans), *times))
    columns = ("ended by", "times", "life p50 s", "longest s", "ready p50 s", "slowest s")
    show(f"{len(ledger.lives)} lives of the gateway", columns, rows)


def _show_growth(ledger: Ledger) -> None:
    samples = calm(ledger)
    if len(ledger.rests) < 2 or not samples:
        return
    grown = {name for name, _ in flatness(ledger)}
    rows: list[tuple[object, ...]] = []
    for name, measure, _, _ in MEASURES:
        ends = [measure([s for s in ledger.samples if s.life == n][-1]) for n in _lives(ledger)]
        slope = slope_per_minute(samples, measure)
        rests = [measure(each) for each in ledger.rests]
        judged = "no" if name in grown else "yes"
        rows.append((name, measure(ledger.samples[0]), max(ends), slope, *rests, judged))
    at_rest = (f"at rest {n}" for n, _ in enumerate(ledger.rests, 1))
    columns = ("measure", "first look", "highest end", "a minute", *at_rest)
    took = samples[-1].at_s - samples[0].at_s
    show(f"growth over {took:.0f} s of calm, at rest after each part", (*columns, "flat"), rows)


def _lives(ledger: Ledger) -> list[int]:
    return sorted({s.life for s in ledger.samples})


def show_findings(found: Audit, folder: Path) -> None:
    """Print what must not be, with the events of the sessions concerned; write down all of it."""
    if not found.findings:
        print("nothing lost, nothing doubled, nothing grown")
        return
    show("FOUND", ("what", "times"), sorted(Counter(f.what for f in found.findings).items()))
    lines = (json.dumps(asdict(finding)) + "\n" for finding in found.findings)
    (folder / FINDINGS).write_text("".join(lines))
    shown: set[str] = set()
    for finding in found.findings[:FINDINGS_SHOWN]:
        print(f"\n{finding.what}  {finding.marker}  {finding.session}\n  {finding.detail[:400]}")
        home = folder / ".everturn" / "sessions" / finding.session
        if finding.session and finding.session not in shown:
            shown.add(finding.session)
            events = read_log(home).events
            at = next((n for n, e in enumerate(events) if finding.marker in json.dumps(e)), 0)
            for event in events[at : at + EVENTS_SHOWN]:
                print("   ", json.dumps(event)[:240])
