"""Stands around every route: asks for its scope, and hides what is not the caller's.

It ends what is under way when its token is revoked, and says in the log who did what.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everturn_actors.supervisor import attempt
from everturn_gateway.http.access.auth import (
    SESSION,
    WHOLE,
    Access,
    Caller,
    caller_of,
    scope_refusal,
)
from everturn_gateway.http.access.guard import WrongTokens
from everturn_gateway.http.access.lease import Lease
from everturn_gateway.http.access.scopes import Rule, rule_of
from everturn_gateway.http.access.visibility import (
    check_agent,
    check_job,
    sees_state,
    visible_session,
)
from everturn_gateway.http.job_problems import answering_problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import Problem, ProblemError, problem
from everturn_gateway.http.sse import WRITE_NOW
from everturn_gateway.http.waiting import DEPARTURE
from everturn_gateway.principals import Principal
from everturn_gateway.scheduler.places import Places
from everturn_gateway.usage import Spent

logger = logging.getLogger(__name__)

FAILURE: Final = "everturn.failure"
"In the ASGI scope: what the request has failed with, before it came here."
_SUCCESS: Final = range(200, 400)
_LOGGED_CHARACTERS: Final = 100  # of a parameter of a path, which may be anything
_CLOSED: Final = problem(
    "closed", "no scope is set for this route, so it is closed; this is a fault of the gateway"
)


def protector(
    gateway: Gateway, access: Access, wrong_tokens: WrongTokens
) -> Callable[[ASGIApp, str, str], ASGIApp]:
    """Return what puts the rule of a route, by its method and path, around an app that answers it.

    A route that is not in the table is closed.
    """

    def protect(app: ASGIApp, method: str, path: str) -> Protected:
        rule = rule_of(method, path)
        if rule is None:
            logger.error("a route is closed", extra={"route": f"{method} {path}"})
        return Protected(
            app,
            rule=rule,
            route=f"{method} {path}",
            gateway=gateway,
            access=access,
            wrong_tokens=wrong_tokens,
        )

    return protect


def _shortened(named: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a path as a log line has room for them."""
    return {name: value[:_LOGGED_CHARACTERS] for name, value in named.items()}


def _opens_still(then: Principal, now: Principal, rule: Rule) -> bool:
    """Return whether what began as `then` may go on as `now`, when a raised role has ended."""
    is_for_both = now.sees_all or now == then
    return is_for_both and rule.need != "open" and now.may(rule.need)


def _spent_problem(spent: Spent, wait_s: float) -> Problem:
    return problem(
        "daily-cost-reached", str(spent), headers={"Retry-After": str(math.ceil(wait_s))}
    )


class Protected:
    """One route behind its rule. Plain ASGI."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        rule: Rule | None,
        route: str,
        gateway: Gateway,
        access: Access,
        wrong_tokens: WrongTokens,
    ) -> None:
        self._app, self._rule, self._route = app, rule, route
        self._gateway, self._access, self._wrong = gateway, access, wrong_tokens
        config = gateway.config
        self._places = Places(workspace=config.workspace, agents_dir=config.agents_dir)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Raises:
            ProblemError: The caller's token is not for this.
            UnknownSessionError, UnknownAgentError: Not there, or not the caller's to see.
            Exception: What the request has failed with before.
        """
        failure: Exception | None = scope.get(FAILURE)
        if failure is not None:
            raise failure
        rule = self._rule
        if rule is None:
            # A route that somebody forgot to put in the table opens nothing.
            raise ProblemError(_CLOSED)
        if rule.need == "open":
            await self._app(scope, receive, send)
            return
        caller = caller_of(scope)
        refusal = scope_refusal(self._access, caller.principal, rule.need)
        if refusal is not None:
            if caller.has_stray_token:  # it was a try for the admin token
                self._wrong.note(caller.address)
            raise ProblemError(refusal)
        # It tells of agents that its token is not for.
        if rule.is_whole and caller.principal.agents is not None:
            raise ProblemError(WHOLE)
        # After the scope: else it tells what is there.
        await self._check_subject(rule, caller, scope["path_params"])
        if rule.spends and caller.record is not None:
            await self._check_spending(rule, caller, scope["path_params"])
        if rule.is_act:
            send = self._logging(caller, scope, send)
        if caller.record is None and caller.login is None:
            await self._app(scope, receive, send)
        else:
            # A token may be revoked in the middle of a stream.
            await self._while_valid(caller, rule, scope, receive, send)

    async def _check_subject(self, rule: Rule, caller: Caller, named: dict[str, str]) -> None:
        """Refuse what the path names and the caller does not get to see."""
        principal, gateway = caller.principal, self._gateway
        if rule.session:
            await visible_session(gateway.service, principal, named[rule.session])
        if rule.agent:
            check_agent(principal, gateway.library, named[rule.agent])
        if rule.job:
            with answering_problems(self._places):
                await gateway.schedules.load()
                check_job(principal, gateway.schedules, named[rule.job])

    async def _check_spending(self, rule: Rule, caller: Caller, named: dict[str, str]) -> None:
        """Refuse what whoever pays for it may not spend today any more.

        What is under way is refused by the meter of the models, at its next call.
        """
        payer = caller.principal.name
        if rule.session:
            summary = await self._gateway.service.reader.summary(named[rule.session])
            payer = summary.principal if summary is not None else ""
        spent = self._gateway.spending.reached(payer)
        if spent is not None:
            self._gateway.telemetry.instruments.http_throttled.add("cost")
            raise ProblemError(_spent_problem(spent, self._gateway.spending.until_tomorrow_s()))

    def _logging(self, caller: Caller, scope: Scope, send: Send) -> Send:
        async def sent(message: Message) -> None:
            # Logged with its outcome, before the body that may last.
            if message["type"] == "http.response.start":
                status: int = message["status"]
                logger.info(
                    "acted over HTTP",
                    extra={
                        "principal": caller.principal.name,
                        "address": caller.address,
                        "route": self._route,
                        "subject": _shortened(scope["path_params"]),
                        "status": status,
                        "done": status in _SUCCESS,
                    },
                )
            await send(message)

        return sent

    async def _while_valid(
        self, caller: Caller, rule: Rule, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer as long as the caller's token, or login, opens this.

        What waits then sees its client leave, as it does when that closes its connection.
        """
        still = self._still(caller, rule, scope)
        lease = Lease(scope, receive, send)
        scope.pop(DEPARTURE, None)  # that the lease is over stands in what it receives alone
        if (write := scope.get(WRITE_NOW)) is not None:
            scope[WRITE_NOW] = partial(lease.write_now, write)

        failure: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lease.watch, still)
            # Raised outside the group, which would wrap it.
            failure = await attempt(partial(self._app, scope, lease.receive, lease.send))
            tasks.cancel_scope.cancel()
        if lease.is_over:
            await lease.finish()
        elif failure is not None:
            raise failure

    def _still(self, caller: Caller, rule: Rule, scope: Scope) -> Callable[[], bool]:
        tokens, service = self._gateway.tokens, self._gateway.service

        def opens() -> bool:
            if caller.login is not None:
                now = self._gateway.logins.holder(caller.login, tokens.is_valid)
                # A raised role ends sooner than its login.
                return now is not None and _opens_still(caller.principal, now, rule)
            return caller.record is not None and tokens.is_valid(caller.record)

        def still() -> bool:
            if not opens():
                return False
            session_id: str = scope["path_params"].get(rule.session) or scope.get(SESSION, "")
            state = service.activity.present(session_id) if session_id else None
            # What was shared may be taken back meanwhile.
            return state is None or sees_state(caller.principal, state)

        return still
