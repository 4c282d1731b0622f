"""The command itself: what is found, planned, written, and told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from everturn_actors.errors import CoreError
from everturn_actors.model import ConversationKey, Reply, Turn, UserMessage
from everturn_actors.model.turns import Step
from everturn_actors.service.stateless import History
from everturn_channels.names import clean
from everturn_gateway.app import open_gateway
from everturn_gateway.app.gateway import Gateway
from everturn_gateway.commands.agents import check_agents
from everturn_gateway.commands.moving_in.found import Found, FoundConversation, Source
from everturn_gateway.commands.moving_in.sources import read
from everturn_gateway.commands.moving_in.writing import Places, plan, write
from everturn_gateway.commands.scaffold import AGENTS_FOLDER, CONFIG_NAME, WORKSPACE_FOLDER
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.private_environ import process_environ

_SENDER = "imported"


def move_in(source: Source, path: Path, *, to: Path, dry_run: bool, as_json: bool) -> int:
    """Take over what another program keeps of agents; return the exit code.

    Args:
        source: The program.
        path: Its folder; nothing in it is changed.
        to: The folder of ours, which need not be there.
        dry_run: Only say what would be written.
        as_json: Print JSON.

    Raises:
        GatewayError: The folder is not what it is said to be, a gateway runs on `to`, or something
            cannot be written.
    """
    found = read(source, path.absolute())
    for secret in (*found.bots.values(), *found.keys.values()):
        crash_log.secrets.add(secret)
    folder = to.absolute()
    config_options = Options(config=folder / CONFIG_NAME, workspace=None, agents_dir=None)
    places = _places(folder, config_options)
    steps = plan(found, places)
    conversations = 0
    if not dry_run:
        run_async(lambda: _check(places))
        write(found, places)
        found.left += _faults(found, places, load(config_options))
        if found.conversations:
            conversations = run_async(lambda: _write_conversations(found, config_options))
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "dry_run": dry_run,
                "steps": [{"what": what, "where": str(where)} for what, where in steps],
                "conversations": conversations,
                "left": found.left,
            }
        )
        return EXIT_OK
    for what, where in steps:
        print_line(f"{what:<32}  {clean(str(where))}")
    for line in found.left:
        print_line(f"left: {clean(line)}")
    if dry_run:
        print_line(f"\n{len(steps)} things would move into {folder}; nothing was changed")
        return EXIT_OK
    print_line(f"\n{len(steps)} things moved into {folder}; {path} is as it was")
    print_line(f"next: cd {folder} && everturn setup --check && everturn chat")
    if found.bots:
        print_line(
            "two programs cannot answer as one bot: stop the old one before `everturn serve`"
        )
    return EXIT_OK


def _places(folder: Path, options: Options) -> Places:
    """Return where things go: as the configuration says that is there.

    Raises:
        GatewayError: It has a fault, which is told before anything is written.
    """
    if not (folder / CONFIG_NAME).exists():
        return Places(
            folder=folder, agents=folder / AGENTS_FOLDER, workspace=folder / WORKSPACE_FOLDER
        )
    config = load(options)
    return Places(folder=folder, agents=config.agents_dir, workspace=config.workspace)


def _faults(found: Found, places: Places, config: Config) -> list[str]:
    """Return what is wrong with the agents that moved in, as they were there."""
    if not found.agents:
        return []
    _, faults = check_agents(config)
    folders = [places.agents / agent.name for agent in found.agents]
    return [f"{fault}; mend it" for fault in faults if any(map(fault.file.is_relative_to, folders))]


async def _check(places: Places) -> None:
    running = await find_running(places.workspace)
    if running is not None:
        msg = (
            f"a gateway runs on {places.folder} (process {running.pid}): stop it, and import again"
        )
        raise GatewayError(msg)


async def _write_conversations(found: Found, options: Options) -> int:
    """Begin a session with each conversation; return how many there are now."""
    config = load(options)
    done = 0
    async with (
        slow_progress("conversations") as told,
        open_gateway(config, environ=process_environ(), watch=False, resume=False) as gateway,
    ):
        for number, conversation in enumerate(found.conversations, 1):
            try:
                done += await _begin(gateway, conversation)
            except (CoreError, GatewayError) as error:
                found.left.append(
                    f"the conversation {conversation.channel}:{conversation.chat}: {error}"
                )
            told(number, len(found.conversations))
    return done


async def _begin(gateway: Gateway, conversation: FoundConversation) -> bool:
    key = ConversationKey(
        channel=conversation.channel, chat=conversation.chat, agent=conversation.agent
    )
    if await gateway.service.conversations.current(key):
        msg = "it goes on here already"
        raise GatewayError(msg)
    turns = turns_of(conversation.messages)
    await gateway.service.branches.begin(key, told=History(turns=turns))
    return True


def turns_of(messages: Sequence[tuple[str, str]]) -> tuple[Turn, ...]:
    """Return what was said as turns: what people said, and what the agent answered.

    >>> [len(turn.users) for turn in turns_of([("user", "a"), ("user", "b"), ("assistant", "c")])]
    [2]
    """
    turns: list[Turn] = []
    users: list[UserMessage] = []
    for role, text in messages:
        if role == "user":
            users.append(UserMessage(text=text, sender=_SENDER))
            continue
        step = Step(reply=Reply(text=text))
        if users or not turns:
            users = users or [UserMessage(text="(the agent began)", sender=_SENDER)]
            turns.append(Turn(number=len(turns) + 1, users=tuple(users), steps=(step,)))
            users = []
        else:
            turns[-1] = replace(turns[-1], steps=(*turns[-1].steps, step))
    if users:
        turns.append(Turn(number=len(turns) + 1, users=tuple(users)))
    return tuple(turns)
