"""`everturn context apply`: what a policy makes of a transcript, without a model or a workspace."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from msgspec import Struct, structs
from msgspec.structs import replace
from pydantic.fields import FieldInfo

from everturn_actors.context.estimation.window import window_messages
from everturn_actors.context.estimation.windows import DEFAULT_WINDOW_TOKENS
from everturn_actors.context.policy import AnyPolicy, Applied, Limits, apply_policy
from everturn_actors.context.projection.projection import Change, size_tokens
from everturn_actors.context.projection.turns import flatten
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.json_values import as_object
from everturn_actors.model import AnyMessage, Disposition, ToolDefinition
from everturn_gateway.commands.context.transcript import (
    Json,
    Transcript,
    TranscriptError,
    message_text,
    read_json,
    read_tools,
    read_transcript,
    write_messages,
)
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.printing import print_json
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.plugins import PolicyPlugin, installed
from everturn_gateway.specs.context import unknown_number
from everturn_gateway.yaml_files import Document, FieldPath, Place, check, field_names

_SETTING = Path("--set")  # where a fault in a number stands
_KEPT = Change(disposition="kept", stage="")


class ApplyOptions(Struct, frozen=True, kw_only=True):
    """What `context apply` was told."""

    policy: str = ""
    compare: bool = False
    "All policies, as a table."
    window_tokens: int | None = None
    output_tokens: int | None = None
    system: Path | None = None
    tools: Path | None = None
    turn_start: int | None = None
    "Index of the message at which the running turn begins."
    settings: Sequence[str] = ()
    "`name=value`"


class _Given(Struct, frozen=True, kw_only=True):
    """A transcript and what stands beside it."""

    transcript: Transcript
    system: str
    "Given beside the transcript."
    tools: tuple[ToolDefinition, ...]
    turn_start: int | None
    limits: Limits


def apply(options: ApplyOptions) -> int:
    """Read a transcript from stdin, and print what a policy makes of it; return the exit code.

    Raises:
        TranscriptError: The transcript, a file or an option cannot be used.
        ConfigError: A number is not valid.
        ContextDoesNotFitError: The policy finds no request that fits.
    """
    if options.compare == bool(options.policy):
        names = ", ".join(installed().policies.names)
        msg = f"name one policy with --policy ({names}), or --compare them all"
        raise TranscriptError(msg)
    policies = _policies(options.policy, _settings(options.settings))
    given = _read(options)
    if options.compare:
        _print_table(given, policies)
        return EXIT_OK
    applied = _apply(policies[0], given)
    shown = {
        "messages": write_messages(given.transcript, applied, given.system),
        "report": report(given.transcript, applied, given.system),
    }
    print_json(shown)
    return EXIT_OK


def report(transcript: Transcript, applied: Applied, given_system: str) -> Json:
    """Return what a policy did, as JSON: tokens by region, and what became of each message."""
    window = applied.budget.window_tokens
    total = applied.total_tokens
    return {
        "policy": applied.policy.name,
        "window": window or None,
        "total": total,
        "fits": total <= window if window else None,
        "regions": _regions(transcript, applied, given_system),
        "omitted_messages": applied.projection.omitted_messages,
        "messages": list(_dispositions(transcript, applied)),
        "reductions": [
            {
                "stage": reduction.stage,
                "disposition": reduction.disposition,
                "messages": [seq - 1 for seq in reduction.seqs],
                "call_ids": list(reduction.call_ids),
                "tokens_before": reduction.tokens_before,
                "tokens_after": reduction.tokens_after,
            }
            for reduction in applied.reductions
        ],
        "stored": [
            {"message": stored.seq - 1, "path": stored.path, "characters": len(stored.text)}
            for stored in applied.projection.stored
        ],
        "repairs": [structs.asdict(repair) for repair in transcript.repairs],
        "notes": list(applied.projection.notes),
    }


def _regions(transcript: Transcript, applied: Applied, given_system: str) -> Json:
    projection, count, budget = applied.projection, applied.estimates, applied.budget
    plain = "\n\n".join(part for part in (given_system, transcript.system) if part)
    without = applied.policy.preamble(plain, projection.whole_summary, 0)
    summarised = replace(applied, preamble=without).preamble_tokens
    return {
        "system": count.text(plain),
        "summary": summarised - count.text(plain),
        "notice": applied.preamble_tokens - summarised,
        "history": size_tokens(projection, flatten(projection.blocks[: projection.current]), count),
        "turn": size_tokens(projection, flatten(projection.blocks[projection.current :]), count),
        "tools": budget.tools_tokens,
        "reserve": budget.reserve_tokens,
        "margin": budget.margin_tokens,
    }


def _dispositions(transcript: Transcript, applied: Applied) -> Iterator[Json]:
    """Yield what became of each message that was given."""
    estimator, projection = applied.estimates, applied.projection
    before = {message.seq: message for message in applied.given.messages}
    after = {message.seq: message for message in projection.messages}

    def cost(message: AnyMessage | None) -> int:
        return estimator.message(message, projection.media.get(message.seq, 0)) if message else 0

    for index, message in enumerate(transcript.messages):
        seq = index + 1
        changes = projection.changes.get(seq, _KEPT)
        if index < transcript.system_count:
            tokens = estimator.text(message_text(message))
            costs = (tokens, tokens)
        else:
            costs = (cost(before.get(seq)), cost(after.get(seq)))
        yield {
            "index": index,
            "role": message["role"],
            "disposition": changes.disposition,
            "stage": changes.stage,
            "tokens_before": costs[0],
            "tokens_after": costs[1],
        }


def _apply(policy: AnyPolicy, given: _Given) -> Applied:
    system = "\n\n".join(part for part in (given.system, given.transcript.system) if part)
    return apply_policy(
        policy,
        given.transcript.view(given.turn_start),
        given.limits,
        system=system,
        tools=given.tools,
    )


def _print_table(given: _Given, policies: Sequence[AnyPolicy]) -> None:
    """Print what policies make of a transcript, side by side."""
    dispositions: tuple[Disposition, ...] = (
        "shortened",
        "masked",
        "cleared",
        "evicted",
        "summarised",
        "dropped",
    )
    rows: list[tuple[str, ...]] = []
    for policy in policies:
        try:
            applied = _apply(policy, given)
        except ContextDoesNotFitError as error:
            rows.append((policy.name, *("-",) * (3 + len(dispositions)), "no", str(error)))
            continue
        projection = applied.projection
        counts = Counter(changes.disposition for changes in projection.changes.values())
        before = size_tokens(projection, applied.given.messages, applied.estimates)
        window = applied.budget.window_tokens
        fits = ("yes" if applied.total_tokens <= window else "no") if window else "unknown"
        rows.append(
            (
                policy.name,
                f"{len(projection.messages):,}",
                f"{before:,}",
                f"{applied.messages_tokens:,}",
                *(str(counts[disposition] or "-") for disposition in dispositions),
                fits,
                "; ".join(projection.notes),
            )
        )
    print_table(
        ("policy", "messages", "tokens before", "after", *dispositions, "fits", "notes"), rows
    )


def _policies(name: str, settings: Mapping[str, str]) -> list[AnyPolicy]:
    """Return the policy, or all, with these numbers; of all, each takes those that it has."""
    policies = {plugin.name: plugin for plugin in installed().policies.all()}
    if name and name not in policies:
        msg = f"there is no policy {name!r} here; there are: {', '.join(policies)}"
        raise TranscriptError(msg)
    chosen = [policies[name]] if name else list(policies.values())
    known = {number for plugin in chosen for number in field_names(plugin.settings)}
    faults = [
        Fault(
            file=_SETTING,
            field=number,
            message=unknown_number(chosen[0], number) if name else "is no number of any policy",
        )
        for number in settings
        if number not in known
    ]
    if faults:
        raise ConfigError(faults=faults)
    return [_tuned(plugin, settings) for plugin in chosen]


def _tuned(plugin: PolicyPlugin, settings: Mapping[str, str]) -> AnyPolicy:
    """Return the policy with those of the numbers that it has, checked as in an agent's file."""
    fields = plugin.settings.model_fields
    own = {name: text for name, text in settings.items() if name in fields}
    places: dict[FieldPath, Place] = {
        (name,): Place(line=0, written=text) for name, text in own.items()
    }
    data: dict[str, object] = {
        name: [each for each in text.split(",") if each] if _is_list(fields[name]) else text
        for name, text in own.items()
    }
    document = Document(file=_SETTING, text="", data=data, places=places)
    section, faults = check(document, plugin.settings)
    if section is None:
        raise ConfigError(faults=faults)
    return plugin.policy.with_numbers(section.numbers())


def _is_list(field: FieldInfo) -> bool:
    annotation: object = field.annotation
    return any(get_origin(each) in {list, tuple} for each in (annotation, *get_args(annotation)))


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return what is set, by the names of the numbers."""
    data: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(
                faults=[Fault(file=_SETTING, message=f"{pair!r} is not of the form name=value")]
            )
        data[name] = value
    return data


def _read(options: ApplyOptions) -> _Given:
    value = read_json(sys.stdin.buffer.read(), "the transcript")
    transcript = read_transcript(value)
    count = len(transcript.messages)
    if options.turn_start is not None and not 0 <= options.turn_start <= count:
        msg = f"--turn-start: there are {count} messages; give an index from 0 to {count}"
        raise TranscriptError(msg)
    beside = as_object(value)
    tools: Any = beside.get("tools") or []
    if options.tools is not None:
        tools = read_json(_file(options.tools), str(options.tools))
    return _Given(
        transcript=transcript,
        system=_prompt(options.system),
        tools=read_tools(tools),
        turn_start=options.turn_start,
        limits=Limits(
            window_tokens=options.window_tokens,
            output_tokens=options.output_tokens,
            window_messages=window_messages(options.window_tokens or DEFAULT_WINDOW_TOKENS),
        ),
    )


def _prompt(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return _file(path).decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        msg = f"{path}: byte {error.start + 1} is not UTF-8"
        raise TranscriptError(msg) from error


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise TranscriptError(msg) from error
