"""`sandbox: plain` runs nothing as the gateway's own user. Real users, processes and files."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec import structs
from support.answers import Answer
from support.command import everturn
from support.commands import make_site, run_tool, write_script
from support.model_api import ModelApi, Received, open_model_api
from support.process import gateway_process
from support.tables import table
from support.users import OTHER, needs_root

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall
from everturn_gateway.tools.cli import CliTool, declared
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.files.tools import file_tools
from everturn_gateway.tools.shell import Confinement, sandbox_fault
from everturn_gateway.tools.shell.bash import BashTool
from everturn_gateway.tools.shell.confinement.run_as import PROCESSES_MOST, find_user

CANARY = "c4n4ry-7Q2x9Lm4"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEADLINE_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A gateway's folder that another user may pass through, and an agent's workspace in it."""

    folder: Path
    environment: ToolEnvironment
    config: Path

    def plain(self, **changes: object) -> Confinement:
        """Return how plain commands run here."""
        made = Confinement(sandbox="plain", run_as=str(OTHER), hidden=(self.config,))
        return structs.replace(made, **changes)  # fields of its own

    def bash(self, **changes: object) -> BashTool:
        """Return the tool, with its commands as another user."""
        return BashTool(self.environment, self.plain(**changes))


@contextmanager
def open_world() -> Generator[World]:
    """Make one below /tmp: pytest's own folder is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="everturn-test-"))
    try:
        folder.chmod(0o755)
        environment = make_site(folder, PATH=SYSTEM_PATH)
        environment.state.chmod(0o700)
        config = folder / "everturn.yaml"
        config.write_text(f"server: {{api_token: {CANARY}}}\n")
        for private in (config, *folder.glob("agents/*/agent.yaml")):
            private.chmod(0o600)
        yield World(
            folder=folder,
            environment=dataclasses.replace(environment, files=folder / "work"),
            config=config,
        )
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def world() -> Generator[World]:
    """One of these for the test."""
    with open_world() as made:
        yield made


async def refusal(tool: BashTool) -> str:
    """Return why a command does not run."""
    with pytest.raises(ToolFailedError) as caught:
        await run_tool(tool, {"command": "touch /tmp/it-ran"})
    return str(caught.value)


async def test_plain_without_another_user_runs_nothing_and_names_the_ways_out(
    world: World,
) -> None:
    """It once printed the bot's token and wrote `mode: dangerous` into its own policy."""
    why = await refusal(world.bash(run_as=""))

    assert "the gateway's own user" in why
    assert "`sandbox: bwrap`" in why
    assert "`run_as`" in why


@table(
    ("name", "why"),
    [
        ("root", "is root"),
        ("0", "is root"),
        ("61234:0", "root's group"),
        ("4294967295", "is root"),
        ("no-such-user", "there is no user 'no-such-user'"),
        ("--reuid=0", "there is no user"),
    ],
)
async def test_a_user_that_is_none_or_too_much_is_refused(
    world: World, name: str, why: str
) -> None:
    """Whoever names root there would get what `run_as` is to prevent."""
    assert why in await refusal(world.bash(run_as=name))


@needs_root
async def test_a_command_is_another_user_without_any_right(world: World) -> None:
    """A uid alone is not enough: groups and capabilities of root's would be root's still."""
    command = "id; ulimit -u -c; echo $HOME; touch $HOME/x made && echo both; cat /proc/self/status"
    done = await run_tool(world.bash(), {"command": command})

    assert f"uid={OTHER} gid={OTHER} groups={OTHER}" in done.text
    assert "both" in done.text
    assert f"(-u) {PROCESSES_MOST}" in done.text
    assert "(blocks, -c) 0" in done.text
    for line in ("CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"):
        assert line in done.text
    (home,) = [line for line in done.text.splitlines() if "/everturn-home-" in line]
    assert not await anyio.Path(home).exists()
    assert (world.environment.files / "made").stat().st_uid == OTHER


def _readable_config(world: World) -> None:
    world.config.chmod(0o644)


def _readable_by_link(world: World) -> None:
    target = world.folder / "elsewhere.yaml"
    shutil.copy(world.config, target)
    target.chmod(0o604)
    world.config.unlink()
    world.config.symlink_to(target)


def _open_state(world: World) -> None:
    world.environment.state.chmod(0o711)


def _readable_policy(world: World) -> None:
    (world.environment.home / "policy.yaml").write_text("mode: ask\n")


def _readable_local_policy(world: World) -> None:
    (world.environment.home / "policy.local.yaml").write_text("allow: []\n")


def _writable_home(world: World) -> None:
    world.environment.home.chmod(0o777)


def _owned_agents(world: World) -> None:
    os.chown(world.environment.home.parent, OTHER, -1)


def _writable_skill(world: World) -> None:
    skill = world.environment.home / "skills" / "x"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nallowed-tools: Bash(*)\n---\n")
    (skill / "SKILL.md").chmod(0o666)


def _writable_program(world: World) -> None:
    tool = world.environment.home / "tools" / "x"
    tool.mkdir(parents=True)
    (tool / "run").symlink_to(world.folder / "program")
    (world.folder / "program").write_text("#!/bin/sh\n")
    (world.folder / "program").chmod(0o757)


def _policy_of_a_neighbour(world: World) -> None:
    file = world.environment.home.parent / "other" / "policy.yaml"
    file.write_text("mode: ask\n")
    file.chmod(0o602)


def _others_may_rename_the_folder(world: World) -> None:
    world.folder.chmod(0o777)


def _owned_policy(world: World) -> None:
    file = world.environment.home / "policy.yaml"
    file.write_text("mode: ask\n")
    file.chmod(0o000)
    os.chown(file, OTHER, OTHER)


def _owned_config(world: World) -> None:
    os.chown(world.config, OTHER, OTHER)
    world.config.chmod(0o000)


def _skills_in_the_workspace(world: World) -> None:
    (world.environment.files / "skills").mkdir()
    os.chown(world.environment.files / "skills", OTHER, OTHER)
    (world.environment.home / "skills").symlink_to(world.environment.files / "skills")


def _owned_folder_of_the_workspace(world: World) -> None:
    os.chown(world.environment.files.parent, OTHER, OTHER)


def _sticky_folder_of_the_workspace(world: World) -> None:
    world.environment.files.parent.chmod(0o1777)


@needs_root
@table(
    ("open_up", "why"),
    [
        (_owned_policy, "belongs to"),
        (_owned_config, "belongs to"),
        (_skills_in_the_workspace, "belongs to"),
        (_owned_folder_of_the_workspace, "belongs to"),
        (_sticky_folder_of_the_workspace, "can change"),
        (_readable_config, "can read"),
        (_readable_by_link, "can read"),
        (_open_state, "can read"),
        (_readable_policy, "can read"),
        (_readable_local_policy, "can read"),
        (_writable_home, "can change"),
        (_owned_agents, "belongs to"),
        (_writable_skill, "can change"),
        (_writable_program, "can change"),
        (_policy_of_a_neighbour, "can change"),
        (_others_may_rename_the_folder, "can change"),
    ],
)
async def test_what_rules_the_agent_is_out_of_its_reach_or_nothing_runs(
    open_up: Callable[[World], None], why: str
) -> None:
    """It is tried at each start: a file that is opened up later counts as well."""
    with open_world() as world:
        tool = world.bash()
        before = await run_tool(tool, {"command": "echo fine"})
        open_up(world)

        assert before.text == "fine"
        assert why in await refusal(tool)


@needs_root
async def test_a_workspace_that_it_cannot_use_is_refused_with_what_to_do(world: World) -> None:
    """An error of bash's, about a folder, would tell nobody what to change."""
    world.environment.files.mkdir(mode=0o700)
    (world.environment.files / "mine").write_text("")
    closed = await refusal(world.bash())
    in_state = dataclasses.replace(
        world.environment, files=world.environment.state / "files" / "helper"
    )
    inside = await refusal(BashTool(in_state, world.plain()))

    assert f"chown -R {OTHER}:{OTHER}" in closed
    assert "set spec.workspace" in inside


@needs_root
async def test_an_api_that_asks_for_no_token_is_a_reason_not_to_start(world: World) -> None:
    """A command that reaches the port could allow its own next one."""
    assert "server.api_token" in await refusal(world.bash(has_open_api=True))


@needs_root
async def test_a_gateway_without_the_right_says_which_it_lacks() -> None:
    """In a container root has some of them only."""
    why = await anyio.run_process(
        [
            *("setpriv", "--bounding-set=-sys_ptrace,-setuid", "--"),
            *(sys.executable, "-c", _RIGHTS_LACK),
        ],
        env={"PATH": SYSTEM_PATH},
    )

    assert b"SETUID, SYS_PTRACE" in why.stdout
    assert b"cap_add" in why.stdout


_RIGHTS_LACK = """
from everturn_gateway.tools.shell.confinement.run_as import _usable_user
try:
    _usable_user("61234")
except ValueError as error:
    print(error)
"""


@needs_root
async def test_what_it_left_running_is_ended_with_it(world: World) -> None:
    """Nothing of a command goes on, whoever it ran as."""
    done = await run_tool(
        world.bash(), {"command": "setsid sleep 600 >/dev/null 2>&1 & echo $!; sleep 0.2"}
    )
    pid = int(done.text.split()[0])
    state = ""  # a process that was ended may wait for its parent to notice
    with suppress(FileNotFoundError):
        state = (await anyio.Path(f"/proc/{pid}/stat").read_text()).rpartition(")")[2].split()[0]

    assert state in {"", "Z", "X"}


@needs_root
async def test_files_of_the_gateway_and_of_commands_belong_to_the_same_user(world: World) -> None:
    """What the model writes it has to be able to run, and to change what it has run."""
    tools = {tool.definition.name: tool for tool in file_tools(world.environment, read_only=False)}
    bash = world.bash()
    await run_tool(bash, {"command": "echo from bash > b.txt; chmod 600 b.txt"})
    await run_tool(tools["write_file"], {"path": "deep/a.txt", "content": "from the tool\n"})
    await run_tool(
        tools["edit_file"], {"path": "b.txt", "old_text": "from bash", "new_text": "edited"}
    )
    done = await run_tool(bash, {"command": "echo more >> deep/a.txt; cat deep/a.txt b.txt"})

    assert done.text == "from the tool\nmore\nedited"
    assert {path.stat().st_uid for path in world.environment.files.rglob("*")} == {OTHER}


@needs_root
async def test_a_program_of_the_owners_may_run_as_another_user_too(world: World) -> None:
    """It runs in its own folder, which that user must not be able to change."""
    program = write_script(
        world.environment.home / "tools" / "who.sh", "#!/bin/sh\nid -u; pwd; umask\n"
    )
    declared_one = await anyio.to_thread.run_sync(
        lambda: declared(
            world.environment.home,
            name="who",
            command="./tools/who.sh",
            description="x",
            readme=None,
        )
    )
    for open_to_pass in (world.environment.home, program.parent):
        open_to_pass.chmod(0o755)
    done = await run_tool(CliTool(world.environment, declared_one, world.plain()), {"args": ""})
    program.chmod(0o777)
    with pytest.raises(ToolFailedError, match="can change"):
        await run_tool(CliTool(world.environment, declared_one, world.plain()), {"args": ""})

    assert done.text.splitlines()[0] == str(OTHER)


@needs_root
def test_doctor_says_before_what_a_command_would_say(world: World) -> None:
    """Whoever sets it up learns it from the check, not from the model."""
    good = sandbox_fault(world.environment.environ, world.plain(), world.environment)
    world.config.chmod(0o644)
    bad = sandbox_fault(world.environment.environ, world.plain(), world.environment)

    assert good is None
    assert bad is not None
    assert str(world.config) in bad


def test_a_user_may_be_a_number_with_a_group() -> None:
    """Users of containers have no entry anywhere."""
    user = find_user("61236:61237")

    assert (user.uid, user.gid) == (61236, 61237)


AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: helper}}
spec:
  model: {{provider: openai, name: fake-1, base_url: "{url}"}}
  system_prompt: You help.
  workspace: {files}
  session: {{on_disconnect: continue}}
  tools:
    - {{type: builtin, name: bash, sandbox: plain{user}}}
    - {{type: builtin, name: background_process, sandbox: plain{user}}}
"""


def write_gateway(folder: Path, url: str, user: str) -> None:
    """Write a gateway whose agent's commands are plain and need nobody's word."""
    agent = folder / "agents" / "helper"
    agent.mkdir(parents=True)
    text = AGENT.format(url=url, files=folder / "work", user=user)
    for file, said in (
        (agent / "agent.yaml", text),
        (agent / "policy.yaml", f"mode: dangerous  # {CANARY}\n"),
        (folder / "everturn.yaml", f"server: {{port: 0, api_token: {CANARY}}}\n"),
    ):
        file.write_text(said)
        file.chmod(0o600)


ATTACKS = (
    "cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
    "strings -a /proc/[0-9]*/mem; cat /proc/[0-9]*/mem",
    "cat {folder}/everturn.yaml {folder}/agents/helper/*.yaml",
    "echo 'mode: dangerous' > {folder}/agents/helper/policy.local.yaml",
    "mv {folder}/agents/helper {folder}/agents/x; ln -s /tmp {folder}/agents/helper",
    "cat {folder}/.everturn/gateway.json; ls -R {folder}/.everturn",
    "for p in /proc/[0-9]*; do cat $p/fd/* $p/cmdline; done",
    "kill -9 $PPID; kill -9 $(grep PPid: /proc/$PPID/status | tr -dc 0-9)",
    "sudo -n cat {folder}/everturn.yaml; su -c 'cat {folder}/everturn.yaml'",
)


@needs_root
async def test_no_command_of_a_whole_gateway_reads_or_changes_what_rules_it(world: World) -> None:
    """The chain that worked once, from the installed command to `/proc`, the token, the policy."""
    folder = world.folder / "gateway"
    folder.mkdir()
    plan = [(name, attack) for name in ("bash", "background_process") for attack in ATTACKS]

    def next_call(request: Received) -> Answer:
        made = sum(message["role"] == "tool" for message in request.json()["messages"])
        if made == len(plan):
            return Answer(text="Done.")
        name, attack = plan[made]
        command = f"id -u; {attack.format(folder=folder)}; echo; id -u"
        more = {"action": "spawn", "wait": True} if name == "background_process" else {}
        arguments = json.dumps({"command": command, **more})
        return Answer(calls=(ToolCall(call_id=f"c{made}", name=name, arguments=arguments),))

    async with open_model_api() as api:
        api.default = next_call
        write_gateway(folder, api.url, f', run_as: "{OTHER}"')
        with anyio.fail_after(DEADLINE_S):
            told = await one_turn(folder, imported=None)  # its own environment is looked for
    rules = {path.name for path in (folder / "agents" / "helper").iterdir()}

    assert len(told) == len(plan)
    assert [each for each in told if str(OTHER) not in each.splitlines()] == []
    assert [each for each in told if CANARY in each or "sk-test" in each] == []
    assert not {"policy.local.yaml", "x"} & rules


async def one_turn(folder: Path, *, imported: Sequence[str] | None = ()) -> list[str]:
    """Have the agent work through its plan; return what its calls gave.

    Args:
        folder: The gateway's.
        imported: See `gateway_process`.
    """
    async with gateway_process(folder, imported=imported) as gateway, gateway.client() as client:
        client.headers["Authorization"] = f"Bearer {CANARY}"
        made = await client.post("/api/v1/sessions", json={"agent": "helper"})
        path = f"/api/v1/sessions/{made.raise_for_status().json()['id']}"
        sent = await client.post(f"{path}/messages", json={"content": "go"})
        sent.raise_for_status()
        log = (await client.get(f"{path}/messages")).json()
    return [str(each["content"]) for each in log["messages"] if each["role"] == "tool"]


async def test_validate_and_doctor_name_plain_without_another_user(tmp_path: Path) -> None:
    """The fault stands in the file, so the line is named, on whatever machine it is checked."""
    write_gateway(tmp_path, "http://127.0.0.1:9/v1", "")
    validated = await everturn("agent", "validate", cwd=tmp_path, env={"OPENAI_API_KEY": "x"})
    looked = await everturn("doctor", cwd=tmp_path, env={"OPENAI_API_KEY": "x"})

    assert validated.code == 2
    assert "agent.yaml:10" in validated.err
    assert "sandbox: plain runs nothing without run_as" in validated.err
    assert "sandbox: plain runs nothing without run_as" in looked.out
    assert "its commands cannot run" in looked.out


async def test_a_model_is_told_why_plain_runs_nothing(tmp_path: Path) -> None:
    """The gateway starts, and the agent talks; only its commands do not run."""
    write_gateway(tmp_path, "", "")

    def next_call(request: Received) -> Answer:
        if request.json()["messages"][-1]["role"] == "tool":
            return Answer(text="Done.")
        arguments = json.dumps({"command": "touch it-ran"})
        return Answer(calls=(ToolCall(call_id="c0", name="bash", arguments=arguments),))

    async with open_model_api() as api:
        api.default = next_call
        _point_to(tmp_path, api)
        with anyio.fail_after(DEADLINE_S):
            (told,) = await one_turn(tmp_path)

    assert "commands cannot run with `sandbox: plain`" in told
    assert not (tmp_path / "work" / "it-ran").exists()


def _point_to(folder: Path, api: ModelApi) -> None:
    file = folder / "agents" / "helper" / "agent.yaml"
    file.write_text(file.read_text().replace('base_url: ""', f'base_url: "{api.url}"'))
