"""`everturn sessions`: list, search, show, export, retry, share, delete."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Mapping
from contextlib import aclosing

from msgspec import structs

from everturn_actors.model import Decision
from everturn_actors.ports import SessionSummary
from everturn_actors.state.serialization import utc_text
from everturn_channels.names import clean
from everturn_channels.terminal.client import Client, Said, Status
from everturn_channels.terminal.commands import describe
from everturn_channels.terminal.conversation import Answer, Conversation
from everturn_channels.terminal.reply import Piece, Style
from everturn_gateway.commands.clients import open_client
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.moments import minute_text
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done, print_json
from everturn_gateway.commands.shared.questions import confirm
from everturn_gateway.commands.shared.screens import stdout_screen
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.errors import GatewayError
from everturn_gateway.http.live.markdown import ExportFormat
from everturn_gateway.principals import is_principal_name

_PAGE = 100  # sessions asked for at once
_LOOK_BACK_EVENTS = 50  # per message that is wanted; a message rarely has more events around it


def list_sessions(options: Options, *, limit: int, as_json: bool) -> int:
    """Print the newest `limit` sessions; return the exit code."""
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            rows = await _newest(client, limit)
        if as_json:
            print_json([_summary(row) for row in rows])
        elif rows:
            print_table(
                ("session", "agent", "channel", "chat", "status", "last used"),
                [
                    (
                        row.session_id,
                        row.key.agent,
                        row.key.channel,
                        row.key.chat,
                        row.status,
                        minute_text(row.updated_at),
                    )
                    for row in rows
                ],
            )
        else:
            sys.stdout.write("no sessions yet\n")
        return EXIT_OK

    return run_async(main)


def search_sessions(
    options: Options, text: str, wanted: Mapping[str, str | int], *, as_json: bool
) -> int:
    """Print what was said that fits a question or words, the best first; return the exit code.

    Raises:
        GatewayError: There is no word to look for.
    """
    if not text.strip():
        msg = "there is nothing to look for: name some words"
        raise GatewayError(msg)
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            found = await client.history.search(text, **wanted)
        if as_json:
            print_json([{**structs.asdict(each), "at": utc_text(each.at)} for each in found])
        elif found:
            print_table(
                ("session", "event", "at", "who", "what"),
                [
                    (
                        each.session_id,
                        str(each.seq),
                        minute_text(each.at),
                        each.role,
                        clean(each.text),
                    )
                    for each in found
                ],
            )
        else:
            sys.stdout.write("nothing that was said holds any of these words\n")
        return EXIT_OK

    return run_async(main)


async def _newest(client: Client, limit: int) -> list[SessionSummary]:
    rows: list[SessionSummary] = []
    while len(rows) < limit:
        after = rows[-1].session_id if rows else ""
        page = await client.sessions(after=after, limit=min(_PAGE, limit - len(rows)))
        if not page:
            break
        rows += page
    return rows


def show_session(options: Options, session_id: str, *, last: int, as_json: bool) -> int:
    """Print how a session stands and its `last` messages; return the exit code."""
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            status = await client.status(session_id)
            messages = await _last_messages(client, status, last)
        if as_json:
            print_json(
                {
                    **structs.asdict(status),
                    "history": [
                        {**structs.asdict(m), "at": utc_text(m.at) if m.at else None}
                        for m in messages
                    ],
                }
            )
            return EXIT_OK
        screen = stdout_screen()
        screen.show([Piece(style="reply", text=f"{describe(status)}\n")])
        for message in messages:
            style: Style = "user" if message.role == "user" else "note"
            when = f", {minute_text(message.at)}" if message.at else ""
            head = f"\n{message.role}{when}"
            screen.show(
                [
                    Piece(style=style, text=head),
                    Piece(style="reply", text=f"{clean(message.text)}\n"),
                ]
            )
        return EXIT_OK

    return run_async(main)


def export_session(options: Options, session_id: str, *, form: ExportFormat) -> int:
    """Write a session out from its first event to its last; return the exit code."""
    config = load(options)

    async def main() -> int:
        async with (
            open_client(config, resume=False) as client,
            aclosing(client.history.export(session_id, form)) as pieces,
        ):
            async for piece in pieces:
                text = decoder.decode(piece)
                sys.stdout.write(clean(text) if form == "markdown" else text)
        return EXIT_OK

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return run_async(main)


async def _last_messages(client: Client, status: Status, last: int) -> list[Said]:
    """Return the newest `last` messages, oldest first."""
    if last == 0:
        return []
    found: list[Said] = []
    after = max(0, status.last_seq - last * _LOOK_BACK_EVENTS)
    while page := await client.history.messages(status.session_id, after=after):
        found = [*found, *page]
        spoken = [index for index, said in enumerate(found) if said.role != "gap"]
        if len(spoken) > last:  # what is missing before the oldest one shown is not asked for
            found = found[spoken[-last] :]
        after = page[-1].seq
    return found


def retry_session(options: Options, session_id: str, *, as_json: bool = False) -> int:
    """Ask the newest turn again, which failed, and print its answer; return the exit code."""
    config = load(options)

    async def main() -> int:
        found, screen = Answer(), stdout_screen()
        async with open_client(config) as client:
            conversation = Conversation(client, session_id=session_id)
            seq = await conversation.retry()
            async with aclosing(conversation.answer(seq)) as updates:
                async for update in updates:
                    found = found.after(update)
        if as_json:
            record = {"session_id": session_id, "outcome": found.outcome, "text": found.text}
            print_json({**record, "error": found.error})
            return EXIT_OK if found.outcome == "answered" else EXIT_FAILED
        if found.outcome != "answered":
            say(f"no answer: {clean(found.error) or found.outcome}")
            return EXIT_FAILED
        screen.show([Piece(style="reply", text=f"{clean(found.text)}\n")])
        return EXIT_OK

    return run_async(main)


def answer_approval(
    options: Options,
    session_id: str,
    call_id: str,
    *,
    choice: Decision,
    answer: str,
    as_json: bool = False,
) -> int:
    """Answer a call that waits for a person; return the exit code.

    Args:
        options: Where the configuration is.
        session_id: The session.
        call_id: The call; empty = the one that has waited longest.
        choice: What becomes of the call, where it is about a permission.
        answer: What the agent is told that asks something; empty = it is about a permission.
        as_json: Print JSON.
    """
    config = load(options)
    decision: Decision = "answer" if answer else choice

    async def main() -> int:
        async with open_client(config) as client:
            conversation = Conversation(client, session_id=session_id)
            approval = await conversation.decide(decision, call_id, answer=answer)
        said = {"deny": "not allowed", "answer": "answered"}
        what = said.get(decision, "allowed")
        always = f", and {approval.pattern} from now on" if decision == "allow_always" else ""
        print_done(
            f"{what}: call {approval.call_id}{always}",
            {
                "session_id": session_id,
                "call_id": approval.call_id,
                "decision": decision,
                "pattern": approval.pattern if decision == "allow_always" else None,
            },
            as_json=as_json,
        )
        return EXIT_OK

    return run_async(main)


def share_session(
    options: Options, session_id: str, name: str, *, is_withdrawn: bool, as_json: bool = False
) -> int:
    """Give a principal a session, or take it back; return the exit code."""
    if not is_principal_name(name):
        msg = (
            f"{name!r} cannot be the name of a principal; `everturn token list` has those there are"
        )
        raise GatewayError(msg)
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            shared_with = await client.share(session_id, name, is_withdrawn=is_withdrawn)
        text = f"{session_id} is shared with: {', '.join(shared_with) or 'nobody'}"
        record = {"session_id": session_id, "shared_with": list(shared_with)}
        print_done(text, record, as_json=as_json)
        return EXIT_OK

    return run_async(main)


def delete_session(options: Options, session_id: str, *, ask: bool, as_json: bool = False) -> int:
    """Remove a session; return the exit code."""
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=False) as client:
            status = await client.status(session_id)
            question = f"Delete session {session_id} with its {status.messages} messages?"
            if ask and not await confirm(question):
                sys.stdout.write("nothing was deleted\n")
                return EXIT_FAILED
            await client.delete(session_id)
        record = {"session_id": session_id, "deleted": True}
        print_done(f"deleted {session_id}", record, as_json=as_json)
        return EXIT_OK

    return run_async(main)


def _summary(row: SessionSummary) -> dict[str, object]:
    return {
        "session_id": row.session_id,
        "key": structs.asdict(row.key),
        "status": row.status,
        "created_at": utc_text(row.created_at),
        "updated_at": utc_text(row.updated_at),
        "principal": row.principal,
        "shared_with": row.shared_with,
    }
