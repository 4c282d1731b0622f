"""`background_process`: commands that go on while the conversation does."""

from __future__ import annotations

from pathlib import Path
from typing import Final, assert_never

from anyio import to_thread

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.outside import one_source, together
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.arguments import parameters, read_arguments
from everturn_gateway.tools.confined import make_private
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.environment import CommandPlace, ToolEnvironment
from everturn_gateway.tools.processes.arguments import ProcessArguments, read_keys
from everturn_gateway.tools.processes.output import Output, text_of
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.records import read_pid
from everturn_gateway.tools.processes.table import Order, ProcessTable
from everturn_gateway.tools.processes.texts import lasting, name_of, outcome, row
from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.sandbox import HOME, Confinement, confine
from everturn_gateway.tools.shell.placing import place_of
from everturn_gateway.yaml_files import resolved

NAME: Final = "background_process"
WAIT_S: Final = 600.0  # what takes longer goes on in the background
_MARGIN_S: Final = 60.0  # of the call's deadline above that
GLANCE_S: Final = 0.3  # a command that cannot run at all ends at once; the call says so
_GLANCE_LINES: Final = 30
_SOURCE_CHARACTERS: Final = 100  # of a command, named as where a text is from
_TERMINAL: Final = "screen-256color"  # what tmux is to the programs in it
_OWN_TERMINAL: Final = "--new-session"

_DESCRIPTION: Final = (
    "Run commands in the background; a message comes when one ends, so do not poll. spawn gives a"
    " handle for: status, log, write (standard input), kill; with interactive also capture (the"
    " screen), send_keys, watch, unwatch. list shows all."
)


class BackgroundProcess:
    """Starts processes of one agent and deals with them.

    Implements `Tool`, `RunsCommands` and `PlacesCommands`. A conversation sees the processes that
    were started in it, and no others.
    """

    def __init__(
        self,
        environment: ToolEnvironment,
        table: ProcessTable,
        confinement: Confinement,
        max_processes: int,
        *,
        wait_s: float = WAIT_S,
        glance_s: float = GLANCE_S,
    ) -> None:
        """Let `max_processes` of the agent run at a time.

        A call waits for the end of one for `wait_s`, and where it need not wait, for `glance_s`.
        """
        self._environment = environment
        self._table = table
        self._confinement = confinement
        self._max_processes = max_processes
        self._wait_s, self._glance_s = wait_s, glance_s
        self.definition = ToolDefinition(
            name=NAME, description=_DESCRIPTION, parameters=parameters(ProcessArguments)
        )
        # A call may start something: it is not run twice. Safe but for the commands, which the
        # policy judges by themselves: see `command_of`.
        self.capabilities = ToolCapabilities(safe=True, timeout_s=wait_s + _MARGIN_S)

    def command_of(self, call: ToolCall) -> str | None:
        """Return the command that is started, or what is typed where a shell may read it."""
        try:
            asked = read_arguments(call, ProcessArguments)
        except ToolFailedError:  # the call itself fails of that
            return None
        match asked.action:
            case "spawn":
                return asked.command
            case "write":
                return asked.input or None
            case "send_keys":
                return asked.keys
            case _:
                return None

    def place_of(self, call: ToolCall) -> CommandPlace:
        """Return where the command would run: in the folder of the workspace that the call names.

        Raises:
            ToolFailedError: The arguments do not fit.
        """
        asked = read_arguments(call, ProcessArguments)
        folder = self._environment.files / (asked.workdir or ".")
        is_typed = asked.action in {"write", "send_keys"}
        return place_of(self._environment, self._confinement, folder, is_typed=is_typed)

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Do one action; return what the model should know of it.

        Raises:
            ToolFailedError: It cannot be done; the text says why.
        """
        asked = read_arguments(call, ProcessArguments)
        if asked.action == "list":
            return self._list(context)
        if asked.action == "spawn":
            return await self._spawn(asked, context)
        if asked.handle is None:
            msg = f"handle: {asked.action} needs the handle of a process; list shows them"
            raise ToolFailedError(msg)
        process = self._table.find(context.key, asked.handle)
        try:
            if asked.action in {"write", "send_keys"} and (sources := sources_behind(context)):
                await self._table.files.put_behind(process, sources)
            return await self._act(asked, process)
        except OSError as error:
            msg = f"{asked.action} failed: {error.strerror or error}"
            raise ToolFailedError(msg) from error

    async def _act(self, asked: ProcessArguments, process: Process) -> str | ToolOutput:
        """Do one action on a process of this conversation."""
        match asked.action:
            case "status":
                return await self._status(process)
            case "log":
                return await self._log(process, asked)
            case "kill":
                return await self._kill(process)
            case "write":
                return await self._write(process, asked)
            case "capture":
                return await self._capture(process)
            case "send_keys":
                return await self._send_keys(process, asked)
            case "watch":
                _needs_terminal(process, asked.action)
                await self._table.follower.watch(process, asked.interval_seconds)
                quiet = f"{asked.interval_seconds} s"
                return f"a message comes whenever its screen has stood still for {quiet}"
            case "unwatch":
                await self._table.follower.unwatch(process)
                return f"{process.record.handle} is not watched any more"
            case "spawn" | "list":
                raise AssertionError(asked.action)
            case _:
                assert_never(asked.action)

    # --- starting ---

    async def _spawn(self, asked: ProcessArguments, context: ToolContext) -> str | ToolOutput:
        """Start a process, and say by which handle it is known."""
        if asked.command is None:
            msg = "command: spawn needs one"
            raise ToolFailedError(msg)
        cwd = await to_thread.run_sync(self._folder, asked.workdir)
        argv = await confine(self._environment, self._confinement, asked.command, cwd=cwd)
        extra = {"TERM": _TERMINAL} if asked.interactive else None
        order = Order(
            agent=self._environment.agent,
            session_id=context.session_id,
            key=context.key,
            command=asked.command,
            argv=_in_terminal(argv, self._confinement) if asked.interactive else argv,
            cwd=cwd,
            environ=command_environ(self._environment, HOME, extra),
            has_home=self._confinement.sandbox == "bwrap",
            runs_as=self._confinement.run_as if self._confinement.sandbox == "plain" else "",
            label=asked.label,
            interactive=asked.interactive,
            takes_input=not asked.wait,
            timeout_s=asked.timeout_seconds,
            marks=self._environment.marks,
            outside=self._behind(asked.command, context),
            max_processes=self._max_processes,
        )
        process = await self._table.spawn(order)
        if await self._table.wait(process, self._wait_s if asked.wait else self._glance_s):
            return await self._ended(process, whole=asked.wait)
        return self._started(process, waited=asked.wait)

    def _behind(self, command: str, context: ToolContext) -> tuple[str, ...]:
        """Return the text from outside that is behind a command, whatever it opens."""
        sources = sources_behind(context)
        if not self._confinement.reaches_network:
            return sources
        words = f"what the background process {command[:_SOURCE_CHARACTERS]!r} wrote, with network"
        return together(sources, (one_source(words),))

    def _folder(self, workdir: str | None) -> Path:
        """Return the folder to run in. Blocking.

        Raises:
            ToolFailedError: It is not one of the workspace.
        """
        try:
            files = resolved(self._environment.files)
            folder = resolved(files / (workdir or "."))
        except OSError as error:
            msg = f"workdir: {workdir!r} cannot be used: {error.strerror or error}"
            raise ToolFailedError(msg) from error
        if not folder.is_relative_to(files):
            msg = f"workdir: {workdir!r} is outside of the workspace; give a folder in it"
            raise ToolFailedError(msg)
        if folder == files:
            make_private(files)
        if not folder.is_dir():
            msg = f"workdir: there is no folder {workdir!r} in the workspace"
            raise ToolFailedError(msg)
        return folder

    def _started(self, process: Process, *, waited: bool) -> str:
        record = process.record
        if waited:
            said = (
                f"{name_of(record)} still runs after {lasting(self._wait_s)} and goes on in the"
                " background; a message comes when it ends"
            )
        else:
            said = f"started {name_of(record)}; a message comes when it ends"
        if record.interactive:
            said += f"; people can join it: {self._table.tmux.attach_line(record.handle)}"
        return said

    async def _ended(self, process: Process, *, whole: bool) -> ToolOutput:
        record, ending = process.record, process.ending
        assert ending is not None, "it has ended"
        output = await self._table.output(process)
        lines = output.last(output.total + 1) if whole else output.last(_GLANCE_LINES)
        said = f"{name_of(record)} has ended: {outcome(record, ending)}"
        if len(lines) < len(output.lines):
            said += f"; its last {len(lines)} of {output.total} lines, read others with log"
        return self._told(
            process,
            f"{said}\n{text_of(lines) or '(it printed nothing)'}",
            is_error=ending.status != "completed",
        )

    # --- looking ---

    def _list(self, context: ToolContext) -> str:
        now = self._table.clock.now()
        rows = [
            row(each.record, each.ending, (now - each.record.began_at).total_seconds())
            for each in self._table.of(context.key)
        ]
        return "\n".join(rows) or "no processes in this conversation"

    async def _status(self, process: Process) -> str:
        record, now = process.record, self._table.clock.now()
        lines = [
            row(record, process.ending, (now - record.began_at).total_seconds()),
            f"command: {record.command}",
            f"folder: {record.workdir}",
            f"limit: {lasting(record.timeout_s)}",
        ]
        if process.ending is None:
            pid = await to_thread.run_sync(read_pid, process.folder)
            lines.append(f"process id: {pid or 'not known'}")
            if record.interactive:
                lines.append(f"join it: {self._table.tmux.attach_line(record.handle)}")
        return "\n".join(lines)

    async def _log(self, process: Process, asked: ProcessArguments) -> ToolOutput:
        output = await self._table.output(process)
        await self._table.files.look(process)
        if asked.offset is None:
            lines = output.last(asked.limit)
        else:
            lines = output.page(asked.offset, asked.limit)
        heading = _heading(output, process, asked.offset, tuple(line.number for line in lines))
        return self._told(process, f"{heading}\n{text_of(lines)}".rstrip("\n"))

    async def _capture(self, process: Process) -> ToolOutput:
        _needs_terminal(process, "capture")
        screen = await self._table.tmux.screen(process.record.handle)
        await self._table.files.look(process)
        return self._told(process, screen or "(the screen is empty)")

    def _told(self, process: Process, text: str, *, is_error: bool = False) -> ToolOutput:
        """Return what a process printed."""
        untrusted, source = process.record.untrusted, f"the output of {process.record.handle}"
        return ToolOutput(text=text, is_error=is_error, untrusted=untrusted, source=source)

    # --- dealing with it ---

    async def _kill(self, process: Process) -> str:
        record = process.record
        if process.ending is not None:
            return f"{record.handle} had ended before: {outcome(record, process.ending)}"
        ending = await self._table.kill(process)
        return f"{record.handle} has ended: {outcome(record, ending)}"

    async def _write(self, process: Process, asked: ProcessArguments) -> str:
        if asked.input is None and not asked.eof:
            msg = "input: write needs it, or eof"
            raise ToolFailedError(msg)
        _needs_life(process)
        record, text = process.record, asked.input or ""
        if record.interactive:
            # In a terminal the end of input is a key.
            await self._table.tmux.paste(record.handle, text + ("\x04" if asked.eof else ""))
            return "typed"
        await process.write(text.encode())
        if asked.eof:
            process.close_input()
        return "written" if not asked.eof else "written; its input is closed"

    async def _send_keys(self, process: Process, asked: ProcessArguments) -> str:
        if asked.keys is None:
            msg = "keys: send_keys needs them"
            raise ToolFailedError(msg)
        _needs_terminal(process, "send_keys")
        text, pressed = read_keys(asked.keys, press_enter=asked.press_enter)
        if text:
            await self._table.tmux.paste(process.record.handle, text)
        if pressed:
            await self._table.tmux.press(process.record.handle, pressed)
        what = [*(["the text"] if text else []), *pressed]
        return f"sent {', '.join(what)}"


def _needs_life(process: Process) -> None:
    if process.ending is not None:
        said = outcome(process.record, process.ending)
        msg = f"{process.record.handle} has ended: {said}; read what it printed with log"
        raise ToolFailedError(msg)


def _needs_terminal(process: Process, action: str) -> None:
    _needs_life(process)
    if not process.record.interactive:
        msg = f"{action} is for processes that were started with interactive"
        raise ToolFailedError(msg)


def _heading(output: Output, process: Process, offset: int | None, numbers: tuple[int, ...]) -> str:
    state = "running" if process.ending is None else outcome(process.record, process.ending)
    if not output.total:
        return f"({state}; nothing printed yet)" if process.ending is None else f"({state})"
    if not numbers:
        return f"({state}; {output.total} lines, none from {offset} on)"
    return f"({state}; lines {numbers[0]} to {numbers[-1]} of {output.total}, counted from 0)"


def _in_terminal(argv: tuple[str, ...], confinement: Confinement) -> tuple[str, ...]:
    """Return a command line that leaves a confined command its terminal.

    The sandbox takes the terminal away from what it runs, which could otherwise type into it for
    whoever reads it next. This one is the command's own and ends with it, and without it neither
    Ctrl-C nor job control works.
    """
    if confinement.sandbox != "bwrap" or _OWN_TERMINAL not in argv:
        return argv
    at = argv.index(_OWN_TERMINAL)
    return (*argv[:at], *argv[at + 1 :])
