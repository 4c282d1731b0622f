"""`everturn context show`, `everturn context explain`, `everturn compact`: a session's context."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct, structs

from everturn_actors.context.past.explain import Explained, Explanation
from everturn_actors.state.reports import explanation_record, report_record
from everturn_channels.names import clean
from everturn_channels.terminal.gauge import show_compacted
from everturn_gateway.commands.clients import open_client
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json
from everturn_gateway.commands.shared.screens import stdout_screen
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table

_GONE = ("dropped", "summarised")


def show(options: Options, session_id: str, *, as_json: bool) -> int:
    """Print what stands in a session's context; return the exit code.

    Raises:
        UnknownSessionError: There is no such session.
        ContextDoesNotFitError: No request would fit.
    """
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            report = await client.contexts.report(session_id)
        if as_json:
            print_json(report_record(report))
        else:
            stdout_screen().show_context(report)
        return EXIT_OK

    return run_async(main)


def explain(options: Options, session_id: str, seq: int, *, as_json: bool) -> int:
    """Print why a past request looked as it did; return the exit code.

    Raises:
        UnknownSessionError: There is no such session.
        UnknownRequestError: No request was sent there, or it cannot be made again.
    """
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            explanation = await client.contexts.explain(session_id, seq)
        if as_json:
            print_json(explanation_record(explanation))
        else:
            _print_explanation(explanation)
        return EXIT_OK

    return run_async(main)


def compact(options: Options, session_id: str, *, focus: str, as_json: bool) -> int:
    """Have older turns of a session summarised, and print what came of it; return the exit code.

    Raises:
        UnknownSessionError: There is no such session.
        SessionEndedError: It has ended.
    """
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            compacted = await client.contexts.compact(session_id, focus)
        if as_json:
            print_json(structs.asdict(compacted))
        else:
            sys.stdout.write(f"{show_compacted(compacted)}\n")
        return EXIT_OK

    return run_async(main)


def _print_explanation(explanation: Explanation) -> None:
    answered = explanation.replied_seq
    place = f"turn {explanation.turn}, step {explanation.step}, asked at event"
    facts = [
        ("request", f"{place} {explanation.started_seq}"),
        ("answer", f"event {answered}" if answered else "none"),
        ("model", f"{explanation.model}, policy {explanation.policy}"),
        ("verdict", f"{explanation.verdict}: {explanation.why}"),
        ("prefix", f"{explanation.prefix or '-'} now, {explanation.sent_prefix or '-'} then"),
        ("tokens", _tokens(explanation)),
    ]
    sys.stdout.writelines(f"{name:<10}{clean(text)}\n" for name, text in facts)
    sys.stdout.write("\n")
    print_table(
        ("events", "messages", "role", "disposition", "stage", "tokens", "shown", "by event"),
        [row.cells() for row in _rows(explanation.messages)],
        right=("messages", "tokens", "shown", "by event"),
    )


def _tokens(explanation: Explanation) -> str:
    usage = explanation.reported
    told = f"{usage.input_tokens:,} reported" if usage.input_tokens else "none reported"
    return f"{explanation.estimated_tokens:,} estimated today, {told}"


class _Row(Struct, frozen=True):
    """Messages that follow each other and had the same disposition."""

    messages: Sequence[Explained]

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        first, last = self.messages[0], self.messages[-1]
        seqs = f"{first.seq}" if first is last else f"{first.seq}-{last.seq}"
        roles = dict.fromkeys(message.role for message in self.messages)
        return (
            seqs,
            f"{len(self.messages):,}",
            ", ".join(roles),
            first.disposition,
            first.stage or "-",
            f"{sum(message.tokens_before for message in self.messages):,}",
            f"{sum(message.tokens_after for message in self.messages):,}",
            str(first.by_seq or "-"),
        )


def _rows(messages: Sequence[Explained]) -> Iterator[_Row]:
    """Yield a row for each message that is shown, and one for all in a row that are not."""

    def same(message: Explained) -> tuple[str, str, int, int]:
        alone = 0 if message.disposition in _GONE else message.seq
        return message.disposition, message.stage, message.by_seq, alone

    for _, group in groupby(messages, key=same):
        yield _Row(tuple(group))
