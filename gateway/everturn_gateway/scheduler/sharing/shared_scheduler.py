"""The jobs of gateways that share a store: one of them runs them, and all of them show and change.

The others read what stands in the store from time to time, and ask the one for changes. So run logs
have one writer at a time, as in a gateway that is alone.
"""

from __future__ import annotations

import json
import logging
import secrets as random
from datetime import datetime
from typing import Final, NoReturn

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from everturn_gateway.scheduler.definitions.settings import JobSettings, section_data
from everturn_gateway.scheduler.errors import UnknownJobError
from everturn_gateway.scheduler.jobs import WRITTEN, JobView, Made, Run
from everturn_gateway.scheduler.scheduler import Scheduler, SchedulerParts
from everturn_gateway.scheduler.sharing.questions import Answer, Question, Questions, answer_of

logger = logging.getLogger(__name__)

LOOK_S: Final = 5.0  # how often those look who do not run the jobs
_ID_BYTES: Final = 4


def _is_somewhere(handle: str) -> bool:
    """Take it that a process runs."""
    del handle
    return True


class SharedScheduler(Scheduler):
    """`Scheduler` of one gateway among several; made by `open_scheduler`."""

    def __init__(self, parts: SchedulerParts, tasks: TaskGroup) -> None:
        """Only look on, until `serve_anew`."""
        self._questions = Questions(parts.storage.keyed, parts.clock)
        self._runs_here = False
        self._outer = tasks
        # A process may run on another machine, which tells when it ends.
        needs = replace(parts.needs, is_running=_is_somewhere)
        super().__init__(replace(parts, needs=needs), tasks)

    def _forget_all(self, tasks: TaskGroup) -> None:
        super()._forget_all(tasks)
        self._registry.is_reader = not self._runs_here

    # --- life ---

    async def serve_anew(self) -> NoReturn:
        """Read all again, for others ran the jobs meanwhile, and `serve`; until cancelled.

        What was begun ends with it, and goes on where the jobs are served next.
        """
        try:
            async with anyio.create_task_group() as tasks:
                self._runs_here = True
                self._forget_all(tasks)
                tasks.start_soon(self._questions.answer, self._change)
                await self.serve()
        finally:
            self._runs_here = False
            self._forget_all(self._outer)
        msg = "it serves until it is cancelled"
        raise AssertionError(msg)

    async def look_on(self) -> NoReturn:
        """Read from time to time what the one writes that runs the jobs; until cancelled."""
        while True:
            try:
                await self._look()
            except OSError as error:
                logger.warning("scheduled jobs cannot be read", extra={"error": str(error)})
            await self._clock.sleep(LOOK_S)

    async def _look(self) -> None:
        await self.load()
        before = {each: self._registry.job_state(each) for each in self._registry.ids()}
        await self._logs.load()
        self._registry.store.look_again()  # its files are made what the store says
        self._registry.invalidate()
        await self._registry.read()
        for entry in self._registry.entries():
            if before.get(entry.job_id) != self._registry.job_state(entry.job_id):
                self._registry.news_of(entry)

    # --- changing ---

    async def add(
        self, section: JobSettings, *, job_id: str = "", made: Made, max_jobs: int | None = None
    ) -> JobView:
        """Make a job; see `SchedulerClient`."""
        if self._runs_here:
            return await super().add(section, job_id=job_id, made=made, max_jobs=max_jobs)
        job_id = job_id or section.id or f"job-{random.token_hex(_ID_BYTES)}"
        made = made if made.at else replace(made, at=self._clock.now())
        question = Question(
            change="add",
            job_id=job_id,
            section=json.dumps(section_data(section)),
            made=made,
            max_jobs=max_jobs,
        )
        await self._questions.ask(question)
        await self._look()
        return self.job(job_id)

    async def cancel(self, job_id: str) -> None:
        """Call a job off; see `SchedulerClient`."""
        if self._runs_here:
            await super().cancel(job_id)
            return
        await self._questions.ask(Question(change="cancel", job_id=job_id))
        await self._look()

    async def pause(self, job_id: str) -> None:
        """Let nothing of a job run; see `SchedulerClient`."""
        if self._runs_here:
            await super().pause(job_id)
            return
        await self._questions.ask(Question(change="pause", job_id=job_id))
        await self._look()

    async def resume(self, job_id: str) -> None:
        """Let a paused job go on; see `SchedulerClient`."""
        if self._runs_here:
            await super().resume(job_id)
            return
        await self._questions.ask(Question(change="resume", job_id=job_id))
        await self._look()

    async def run_now(self, job_id: str) -> Run:
        """Run a job once, now; see `SchedulerClient`."""
        if self._runs_here:
            return await super().run_now(job_id)
        answer = await self._questions.ask(Question(change="run", job_id=job_id))
        await self._look()
        state = self._registry.job_state(job_id)
        for run in (*state.open, *state.recent):
            if run.scheduled_at == answer.scheduled_at:
                return run
        raise UnknownJobError(job_id, self._registry.ids())  # it ended, and was called off

    async def process_ended(self, handle: str) -> None:
        """Call off every job that Everturn tied to a background process of this gateway."""
        for entry in self._registry.entries():
            if entry.job.process == handle and entry.job.made.by in WRITTEN:
                try:
                    await self.cancel(entry.job_id)
                except UnknownJobError:
                    continue  # somebody called it off in this moment

    async def _add_asked(self, question: Question) -> None:
        await self.load()
        known = self._registry.find(question.job_id)
        assert question.made is not None
        if known is not None and known.job.made.at == question.made.at:
            return  # who ran the jobs before made it, and could not say so
        await super().add(
            JobSettings.model_validate(json.loads(question.section)),
            job_id=question.job_id,
            made=question.made,
            max_jobs=question.max_jobs,
        )

    async def _run_asked(self, job_id: str) -> datetime:
        return (await super().run_now(job_id)).scheduled_at

    async def _change(self, question: Question) -> Answer:
        """Make a change that another gateway asks for."""
        job_id = question.job_id
        match question.change:
            case "add":
                return await answer_of(self._add_asked(question))
            case "cancel":
                return await answer_of(super().cancel(job_id))
            case "pause":
                return await answer_of(super().pause(job_id))
            case "resume":
                return await answer_of(super().resume(job_id))
            case "run":
                return await answer_of(self._run_asked(job_id))
