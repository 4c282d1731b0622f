"""Scheduled jobs over HTTP: made, shown, paused, run and called off."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import yaml
from support.gateway import DEADLINE_S, open_http_gateway, write_agent

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.jobs import JobView, Made, Run

PATH = "/api/v1/schedules"
SAY = {"message": "Stand-up!", "to": {"channel": "http", "chat": "team"}}
HOURLY = {"id": "hourly", "agent": "test", "every": 3600, **SAY}
MORNINGS = {
    "id": "mornings",
    "agent": "test",
    "label": "Stand-up",
    "cron": "30 8 * * mon-fri",
    "timezone": "Europe/Berlin",
    "start": "2030-03-28T00:00",
    "task": "Greet the team.",
    "to": {"channel": "http", "chat": 17, "topic": "x"},
    "session": "isolated",
    "misfire": "skip",
    "jitter_seconds": 60,
    "max_runs": 3,
}


class FullDisk:
    """A desk that can be read, and not written to."""

    def __init__(self, desk: SchedulerClient) -> None:
        self.jobs, self.job, self.faults = desk.jobs, desk.job, desk.faults
        self.coming, self.wait, self.ids, self.load = desk.coming, desk.wait, desk.ids, desk.load
        self.preview, self.changes = desk.preview, desk.changes

    async def add(
        self, section: JobSettings, *, job_id: str = "", made: Made, max_jobs: int | None = None
    ) -> JobView:
        """Fail as a full disk does."""
        del section, job_id, made, max_jobs
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/place")

    async def run_now(self, job_id: str) -> Run:
        """Fail as a full disk does."""
        raise OSError(errno.ENOSPC, "No space left on device", job_id)

    async def cancel(self, job_id: str) -> None:
        """Fail as a full disk does."""
        await self.run_now(job_id)

    async def pause(self, job_id: str) -> None:
        """Fail as a full disk does."""
        await self.run_now(job_id)

    async def resume(self, job_id: str) -> None:
        """Fail as a full disk does."""
        await self.run_now(job_id)


async def made(client: httpx2.AsyncClient, job: Mapping[str, object]) -> dict[str, Any]:
    """Make a job and return its body."""
    answer = await client.post(PATH, json=job)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{PATH}/{answer.json()['id']}"
    return dict(answer.json())


async def ended(client: httpx2.AsyncClient, job_id: str) -> dict[str, Any]:
    """Wait for the end of a job's newest run."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            newest = (await client.get(f"{PATH}/{job_id}/runs")).json()["runs"][0]
            if newest["outcome"]:
                return dict(newest)
            await anyio.sleep(0.01)


async def test_a_job_is_made_shown_paused_and_called_off(tmp_path: Path) -> None:
    """What is asked for is what stands there, in one form for all programs.

    Whoever pauses a job sees in the answer that it took effect.
    """
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        job = await made(client, MORNINGS)
        shown = (await client.get(f"{PATH}/mornings")).json()
        listed = (await client.get(PATH)).json()
        stored = tmp_path / "workspace" / "schedules" / "mornings.yaml"
        document = yaml.safe_load(await anyio.Path(stored).read_text())
        paused = (await client.post(f"{PATH}/mornings/pause")).json()
        resumed = (await client.post(f"{PATH}/mornings/resume")).json()
        gone = await client.delete(f"{PATH}/mornings")
        after = await client.get(f"{PATH}/mornings")

    assert (job["id"], job["agent"], job["label"]) == ("mornings", "test", "Stand-up")
    assert (job["state"], job["why"]) == ("scheduled", "")
    assert "2030-03-28T07:30" <= job["next_at"] < "2030-03-28T07:32"
    assert job["when"] == {"cron": "30 8 * * mon-fri", "timezone": "Europe/Berlin"}
    assert job["payload"] == {"task": "Greet the team."}
    assert job["to"] == {"channel": "http", "chat": "17", "topic": "x"}
    assert (job["session"], job["misfire"], job["grace_seconds"]) == ("isolated", "skip", 10)
    assert (job["jitter_seconds"], job["max_runs"], job["ran"]) == (60, 3, 0)
    assert (job["start"], job["end"]) == ("2030-03-27T23:00:00.000000Z", None)
    assert job["made"]["by"] == "http"
    assert job["file"] == "workspace/schedules/mornings.yaml"
    assert shown == {**job, "runs": []}
    assert listed == {"schedules": [job], "next": None, "faults": []}
    assert document["cron"] == "30 8 * * mon-fri"
    assert (paused["state"], paused["next_at"]) == ("paused", None)
    assert resumed["state"] == "scheduled"
    assert resumed["next_at"] is not None
    assert (gone.status_code, after.status_code) == (204, 404)


async def test_a_job_that_is_run_says_its_message_or_links_to_the_turn_of_its_task(
    tmp_path: Path,
) -> None:
    """From the request to the conversation it is for, and into the list of its runs.

    Who reads that it ran wants to read what it did. A page that shows how jobs fared has the newest
    runs of all in one request.
    """
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        await made(client, HOURLY)
        asked = await client.post(f"{PATH}/hourly/run")
        run = await ended(client, "hourly")
        job = (await client.get(f"{PATH}/hourly")).json()
        talk = await client.post("/api/v1/sessions", json={"agent": "test", "chat": "team"})
        said = (await client.get(f"{talk.headers['location']}/messages")).json()["messages"]
        (plain,) = (await client.get(PATH)).json()["schedules"]
        (told,) = (await client.get(PATH, params={"runs": 3})).json()["schedules"]
        await made(client, {"id": "task", "agent": "test", "every": 60, "task": "Do it."})
        await client.post(f"{PATH}/task/run")
        task = await ended(client, "task")
        done = (await client.get(f"{task['session']}/messages")).json()["messages"]

    assert asked.status_code == 202
    assert asked.json()["scheduled_at"] == run["scheduled_at"]
    assert (run["outcome"], run["by_hand"], run["attempt"]) == ("sent", True, 1)
    assert run["duration_seconds"] >= 0
    assert job["last"] == job["runs"][0] == run
    assert talk.status_code == 200
    assert [message["content"] for message in said] == ["Stand-up!"]
    assert "runs" not in plain
    assert [run["outcome"] for run in told["runs"]] == ["sent"]
    assert (task["outcome"], task["turn_id"], task["error"]) == ("answered", "t1", "")
    assert task["session"] == f"/api/v1/sessions/{task['session_id']}"
    assert done[-1]["turn_id"] == task["turn_id"]
    assert "Do it." in done[0]["content"]


async def test_jobs_come_in_pages(tmp_path: Path) -> None:
    """There may be thousands, and one answer must not keep everybody waiting."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        for name in ("c", "a", "b"):
            await made(client, {**HOURLY, "id": name})
        first = (await client.get(f"{PATH}?limit=2")).json()
        second = (await client.get(f"{PATH}?limit=2&after={first['next']}")).json()

    assert [[job["id"] for job in page["schedules"]] for page in (first, second)] == [
        ["a", "b"],
        ["c"],
    ]
    assert (first["next"], second["next"]) == ("b", None)


# --- what is refused ---


REFUSED: tuple[tuple[dict[str, object], str, str], ...] = (
    ({"cron": "61 * * * *", "every": None, "timezone": "UTC"}, "#/cron", "61"),
    ({"timezone": "Mars/Olympus"}, "#/timezone", "Mars/Olympus"),
    ({"every": None, "at": "2001-01-01T00:00Z"}, "#/at", "past"),
    ({"every": None, "at": "2030-02-30T00:00Z"}, "#/at", "2030-02-30"),
    ({"to": {"webhook": "ftp://host/secret"}}, "#/to/webhook", "https://"),
    ({"id": "No Blanks"}, "#/id", "lower-case"),
    ({"made": {"by": "cli"}}, "#/made", "not permitted"),
    ({"agent": "nobody"}, "#/agent", "nobody"),
    ({"to": {"channel": "telegram", "chat": "1"}}, "#/to/channel", "telegram"),
)


async def test_a_job_that_cannot_be_is_refused_by_field(tmp_path: Path) -> None:
    """A program that fills in a form has to know which line is wrong."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        for change, pointer, detail in REFUSED:
            asked = {name: value for name, value in {**HOURLY, **change}.items() if value}
            answer = await client.post(PATH, json=asked)
            problem = answer.json()

            assert answer.status_code == 422, answer.text
            assert problem["type"] == "urn:everturn:problem:invalid-input"
            assert problem["detail"].startswith(f"{pointer}: " if pointer else "")
            assert detail in problem["detail"]
            assert [each["pointer"] for each in problem.get("errors", ())] == [pointer] * bool(
                pointer
            )
            assert "secret" not in answer.text
        listed = (await client.get(PATH)).json()

    assert listed["schedules"] == []


async def test_an_id_names_one_job_and_a_slip_in_it_is_seen(tmp_path: Path) -> None:
    """The same request again must not make a second job: its id is its idempotency key.

    A job that is not there is told from those that are.
    """
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        await made(client, HOURLY)
        again = await client.post(PATH, json=HOURLY)
        nowhere = [
            await client.get(f"{PATH}/hurly"),
            await client.get(f"{PATH}/hurly/runs"),
            await client.get(f"{PATH}/hurly/next"),
            await client.delete(f"{PATH}/hurly"),
            *[await client.post(f"{PATH}/hurly/{verb}") for verb in ("pause", "resume", "run")],
        ]
        nameless = [await made(client, {**HOURLY, "id": None}) for _ in range(2)]

    assert again.status_code == 409
    assert again.json()["type"] == "urn:everturn:problem:schedule-taken"
    assert "hourly" in again.json()["detail"]
    for answer in nowhere:
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:everturn:problem:unknown-schedule"
        assert "did you mean hourly" in answer.json()["detail"]
    assert nameless[0]["id"] != nameless[1]["id"]


async def test_what_stands_in_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    """Over HTTP nobody's file is changed; the answer names the place, not the machine's folders."""
    file = write_agent(tmp_path / "agents", name="nightly")
    document = yaml.safe_load(file.read_text())
    document["spec"]["schedules"] = [{"id": "report", "every": 3600, "task": "Report."}]
    file.write_text(yaml.safe_dump(document))
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        job = (await client.get(f"{PATH}/nightly.report")).json()
        fixed = await client.delete(f"{PATH}/nightly.report")
        paused = await client.post(f"{PATH}/nightly.report/pause")

    assert (job["made"]["by"], job["file"]) == ("agent", "agents/nightly/agent.yaml")
    assert fixed.status_code == 409
    assert fixed.json()["type"] == "urn:everturn:problem:schedule-fixed"
    assert f"agents/nightly/agent.yaml:{job['line']}" in fixed.json()["detail"]
    assert str(tmp_path) not in fixed.text
    assert paused.json()["state"] == "paused"


async def test_what_is_wrong_in_files_is_listed(tmp_path: Path) -> None:
    """A file that is set aside runs nothing: whoever watches over HTTP has to see that."""
    folder = tmp_path / "workspace" / "schedules"
    folder.mkdir(parents=True)
    (folder / "good.yaml").write_text(yaml.safe_dump({**HOURLY, "id": "good"}))
    (folder / "bad.yaml").write_text("agent: test\nevery: often\nmessage: x\n")
    (folder / "lost.yaml").write_text("agent: nobody\nevery: 60\ntask: x\n")
    (folder / "torn.yaml").write_text("agent: test\nevery: 60\ntask: x\n")
    (folder / "runs").mkdir()
    (folder / "runs" / "torn.jsonl").write_text("{}\n{}\n")
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        listed = (await client.get(PATH)).json()
        lost = (await client.get(f"{PATH}/lost")).json()
        refused = await client.post(f"{PATH}/lost/run")
        damaged = await client.post(f"{PATH}/torn/pause")
    faults = {fault["file"]: fault for fault in listed["faults"]}

    assert [job["id"] for job in listed["schedules"]] == ["good", "lost", "torn"]
    assert faults.keys() >= {f"workspace/schedules/{name}.yaml" for name in ("bad", "lost")}
    assert "workspace/schedules/runs/torn.jsonl" in faults
    assert "workspace/schedules/good.yaml" not in faults
    assert faults["workspace/schedules/bad.yaml"]["line"] == 2
    assert faults["workspace/schedules/bad.yaml"]["field"] == "every"
    assert (lost["state"], lost["next_at"]) == ("waiting", None)
    assert "there is no agent 'nobody'" in lost["why"]
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:everturn:problem:schedule-waits"
    assert damaged.status_code == 500
    assert damaged.json()["type"] == "urn:everturn:problem:journal-damaged"
    assert str(tmp_path) not in str(listed) + damaged.text


async def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    """`201` and `204` mean that it is on disk."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        await made(client, HOURLY)
        gateway.schedules = FullDisk(gateway.schedules)
        answers = [
            await client.post(PATH, json={**HOURLY, "id": "second"}),
            *[await client.post(f"{PATH}/hourly/{verb}") for verb in ("pause", "resume", "run")],
            await client.delete(f"{PATH}/hourly"),
        ]

    for answer in answers:
        assert answer.status_code == 507
        assert answer.json()["type"] == "urn:everturn:problem:not-written"
        assert answer.json()["detail"] == "it could not be written to disk: No space left on device"


# --- webhooks ---

HOOK = {
    "id": "hook",
    "agent": "test",
    "every": 3600,
    "message": "x",
    "to": {"webhook": "https://hooks.example.org:8443/s3cret?key=s3cret"},
}


async def test_only_the_administration_makes_the_gateway_send_to_an_address(
    tmp_path: Path,
) -> None:
    """It reaches what its clients may not; all else about jobs is theirs.

    The address is never shown: its path is often the only secret that there is.
    """
    server = ServerConfig(api_token="user-token", admin_token="admin-token")  # noqa: S106 - made up
    async with (
        open_http_gateway(tmp_path, server=server) as gateway,
        gateway.client() as nobody,
        gateway.client(token="user-token") as user,  # noqa: S106 - made up
        gateway.client(token="admin-token") as admin,  # noqa: S106 - made up
    ):
        strangers = [await nobody.get(PATH), await nobody.post(PATH, json=HOOK)]
        refused = await user.post(PATH, json=HOOK)
        made_by_user = await user.post(PATH, json=HOURLY)
        made_by_admin = await admin.post(PATH, json=HOOK)
        shown = [await user.get(f"{PATH}/hook"), await user.get(PATH)]
        paused = await user.post(f"{PATH}/hook/pause")

    assert [answer.status_code for answer in strangers] == [401, 401]
    assert refused.status_code == 403
    assert refused.json()["scope"] == "admin"
    assert (made_by_user.status_code, made_by_admin.status_code) == (201, 201)
    assert paused.status_code == 200
    assert made_by_admin.json()["to"] == {"webhook": "https://hooks.example.org:8443"}
    for answer in (made_by_admin, *shown):
        assert answer.is_success
        assert "s3cret" not in answer.text


async def test_a_job_says_whose_it_is_and_its_sessions_are_theirs(tmp_path: Path) -> None:
    """Who had it made is asked when it costs money; what it begins is not left to nobody."""
    job = {"id": "look", "agent": "test", "every": "1d", "task": "Look around."}
    async with open_http_gateway(tmp_path) as gateway:
        token = await gateway.token("ops", "operate")
        async with gateway.client(token=token) as ops, gateway.client() as local:
            made = await ops.post(PATH, json=job)
            ours = await local.post(PATH, json={**job, "id": "ours"})
            await ops.post(f"{PATH}/look/run")
            with anyio.fail_after(DEADLINE_S):
                while not (rows := await gateway.service.reader.sessions()):  # noqa: ASYNC110 - of another task
                    await anyio.sleep(0.02)
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as local:
        kept = (await local.get(f"{PATH}/look")).json()

    assert (made.json()["made"]["principal"], ours.json()["made"]["principal"]) == ("ops", "")
    assert [row.principal for row in rows] == ["ops"]
    assert kept["made"]["principal"] == "ops"


# --- before it is made ---


async def test_times_to_come_are_told_in_both_clocks(tmp_path: Path) -> None:
    """Of a job and before it is made, by the clock of its zone, across the change of its clocks.

    The time on the wall stays then, and the instant moves.
    """
    times = {"cron": "30 8 * * *", "timezone": "Europe/Berlin", "start": "2030-03-30T00:00"}
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        shown = (await client.post(f"{PATH}/preview", json={**times, "task": "x"})).json()
        few = await client.post(f"{PATH}/preview", json={"at": "in 2 hours", "timezone": "UTC"})
        words = await client.post(f"{PATH}/preview", json={"at": "every 90 minutes"})
        wrong = await client.post(f"{PATH}/preview", json={"cron": "61 8 * * *", "timezone": "UTC"})
        twice = await client.post(f"{PATH}/preview", json={"every": 60, "cron": "@daily"})
        never = await client.post(f"{PATH}/preview", json={})
        listed = (await client.get(PATH)).json()
        await made(client, MORNINGS)
        of_job = await client.get(f"{PATH}/mornings/next?count=3")
        too_many = await client.get(f"{PATH}/mornings/next?count=101")

    assert shown["timezone"] == "Europe/Berlin"
    assert [each["local"][:25] for each in shown["next"]] == [
        "2030-03-30T08:30:00+01:00",
        *[f"2030-{day}T08:30:00+02:00" for day in ("03-31", "04-01", "04-02", "04-03")],
    ]
    assert (len(few.json()["next"]), len(words.json()["next"])) == (1, 5)
    for answer, pointer in ((wrong, "#/cron"), (twice, "#/cron")):
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert "when is it to run" in never.json()["detail"]
    assert listed["schedules"] == []
    assert of_job.json() == {
        "timezone": "Europe/Berlin",
        "next": [
            {"at": "2030-03-28T07:30:00.000000Z", "local": "2030-03-28T08:30:00+01:00"},
            {"at": "2030-03-29T07:30:00.000000Z", "local": "2030-03-29T08:30:00+01:00"},
            {"at": "2030-04-01T06:30:00.000000Z", "local": "2030-04-01T08:30:00+02:00"},
        ],
    }
    assert too_many.status_code == 422
