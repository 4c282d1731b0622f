"""`everturn upgrade`: what is new, and what of a workspace is written anew."""

from __future__ import annotations

from collections import Counter

from everturn_gateway.app import open_keyed, version
from everturn_gateway.app.upgrading import (
    Upgraded,
    UpgradePlan,
    plan_upgrade,
    upgrade_files,
)
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.installation.changelog import Release, read_changelog, since
from everturn_gateway.commands.installation.documentation import print_markdown
from everturn_gateway.commands.shared.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.questions import confirm
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.starts import read_runs

_SHOWN = 5


def upgrade(options: Options, *, dry_run: bool, ask: bool, as_json: bool) -> int:
    """Tell what is new since the version that ran here before, and bring the files up to date.

    The former files are kept in a folder of the workspace. Cut off in the middle, each session is
    as it was or as it will be, and the same command goes on.

    Args:
        options: Where the configuration is.
        dry_run: Change nothing.
        ask: Ask a person at a terminal before anything is changed.
        as_json: Print JSON.

    Returns:
        The exit code: 1 where a session could not be brought up to date, 2 where a later version
        wrote some.
    """
    config = load(options)

    async def main() -> int:
        before = await _ran_before(config)
        async with slow_progress("sessions looked at") as told:
            plan = await plan_upgrade(config, told)
        news = since(read_changelog(), before, version())
        if not as_json:
            _tell_news(news, before)
            _tell_plan(plan)
        done: Upgraded | None = None
        is_done = bool(plan.changes) and not dry_run and not plan.newer
        if is_done and ask and not as_json:
            is_done = await confirm(f"Write {len(plan.changes)} snapshots anew?")
        if is_done:
            async with slow_progress("sessions written anew") as told:
                done = await upgrade_files(config, plan, SystemClock().now(), told)
        if as_json:
            print_json(_as_json(news, before, plan, done))
        elif done is not None:
            _tell_done(done)
        for session_id, why in done.left if done else ():
            say(f"session {session_id} is as it was: {why}")
        if plan.newer:
            return EXIT_BAD_INPUT
        return EXIT_FAILED if done and done.left else EXIT_OK

    return run_async(main)


async def _ran_before(config: Config) -> str:
    """Return the version that ran on the workspace last; empty = none did, or nobody knows."""
    if config.store.type == "file" and not config.workspace.is_dir():
        return ""
    async with open_keyed(config, is_change=False) as keyed:
        runs = await read_runs(keyed)
    return runs[-1].version if runs else ""


def _tell_news(news: tuple[Release, ...], before: str) -> None:
    here = f"{before} ran here last" if before else "no version is known to have run here"
    if not news:
        print_line(f"Everturn {version()} is installed; {here}: nothing is new.")
        return
    print_line(f"Everturn {version()} is installed; {here}. New since then:")
    print_markdown("\n\n".join(f"## {each.version}\n\n{each.text}" for each in news))


def _tell_plan(plan: UpgradePlan) -> None:
    if not plan.is_in_files:
        print_line(
            "The store is no folder: it brings itself up to date when a gateway opens it. Back it"
            " up before."
        )
        return
    if plan.newer:
        shown = ", ".join(each.session_id for each in plan.newer[:_SHOWN])
        say(
            f"{len(plan.newer)} sessions were written by a later version, which has to be used for"
            f" them; nothing is changed: {shown}"
        )
    if not plan.changes:
        print_line(f"Nothing changes on disk: {plan.sessions} sessions are as this version writes.")
        return
    counts = Counter(each.format for each in plan.changes)
    for name, count in sorted(counts.items()):
        print_line(f"{count} of {plan.sessions} sessions have a snapshot of the format {name}.")
    print_line("They are written anew; the former files are kept in the workspace.")


def _tell_done(done: Upgraded) -> None:
    print_line(f"{len(done.done)} sessions are up to date; what was before is in {done.backup}")


def _as_json(
    news: tuple[Release, ...], before: str, plan: UpgradePlan, done: Upgraded | None
) -> dict[str, object]:
    def listed(pairs: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
        return [{"session_id": each, "detail": text} for each, text in pairs]

    return {
        "version": version(),
        "before": before or None,
        "news": [{"version": each.version, "text": each.text} for each in news],
        "sessions": plan.sessions,
        "changes": [
            {"session_id": each.session_id, "format": each.format} for each in plan.changes
        ],
        "newer": [{"session_id": each.session_id, "format": each.format} for each in plan.newer],
        "done": listed(done.done) if done else [],
        "left": listed(done.left) if done else [],
        "backup": str(done.backup) if done and done.backup else None,
    }
