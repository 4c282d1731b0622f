"""What is done now and then: to clean, export, erase, move in, upgrade; and pages to read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import Json, Yes, command
from everturn_gateway.cli.program import app
from everturn_gateway.commands.shared.options import Options


@command(app)
def clean(
    options: Options,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; say what would go, and why.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Remove what is older or more than sessions.keep allows; a gateway does it once a day."""
    return commands.maintenance.clean(options, dry_run=dry_run, as_json=as_json)


@command(app, "help")
def show_help(
    topic: Annotated[
        list[str] | None,
        typer.Argument(help="A command, a page, or words of a heading.", show_default=False),
    ] = None,
) -> int:
    """Show the documentation: of a command, a page of it, or what stands under a heading."""
    return commands.documentation.show_help(" ".join(topic or []))


@command(app, "docs")
def show_docs(
    *,
    port: Annotated[int, typer.Option(help="Serve them on this port; 0 = a free one.")] = 0,
    is_opened: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether a browser opens them.")
    ] = True,
) -> int:
    """Show the documentation in a browser, until Ctrl-C."""
    return commands.site.show_site(port=port, is_opened=is_opened)


@command(app)
def upgrade(
    options: Options,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; say what is new, and would change.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Tell what is new since the last version here, and write files of it anew, with a backup."""
    return commands.upgrade.upgrade(options, dry_run=dry_run, ask=not yes, as_json=as_json)


@command(app)
def export(
    options: Options,
    session: Annotated[
        str, typer.Argument(metavar="[SESSION]", help="Which; by default all.", show_default=False)
    ] = "",
    *,
    to: Annotated[
        Path, typer.Option(help="The folder they are written into.", metavar="DIR")
    ] = Path("export"),
    form: Annotated[
        Literal["markdown", "jsonl", "openai"],
        typer.Option("--format", help="For people, the events as they are, or OpenAI's messages."),
    ] = "markdown",
    media: Annotated[bool, typer.Option("--media", help="With the files of messages.")] = False,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Only those of this agent.")] = "",
    as_json: Json = False,
) -> int:
    """Write sessions into a folder, a file for each: all of them, one, or those of an agent."""
    return commands.exporting.export(
        options, session, to=to, form=form, media=media, agent=agent, as_json=as_json
    )


@command(app, "import")
def move_in(
    source: Annotated[
        Literal["duragent", "nanobot", "openclaw", "hermes", "picoclaw"],
        typer.Argument(metavar="PROGRAM", help="duragent, nanobot, openclaw, hermes or picoclaw."),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Its folder, such as ~/.nanobot.")],
    *,
    to: Annotated[
        Path, typer.Option(help="The folder that they move into.", metavar="DIR")
    ] = Path(),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; say what would move, and what not.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Take over agents, skills, memory, jobs, bots and conversations; nothing of theirs changes."""
    return commands.imports.move_in(source, path, to=to, dry_run=dry_run, as_json=as_json)


@command(app)
def erase(
    options: Options,
    person: Annotated[
        str,
        typer.Argument(
            metavar="PERSON",
            help="CHANNEL:ID, such as telegram:123456, or principal:NAME.",
            show_default=False,
        ),
    ],
    *,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Erase what a person said, in all sessions, with their files; it cannot be taken back."""
    return commands.maintenance.erase(options, person, ask=not yes, as_json=as_json)
