"""What the console's page asks for itself."""

from __future__ import annotations

from pydantic import Field

from everturn_gateway.http.schemas.base import Body
from everturn_gateway.principals import SCOPES, Login, Principal, Scope


class LoginBody(Body):
    """As whom the page asks."""

    name: str
    scopes: tuple[Scope, ...] = Field(description="What that may, with what they include.")
    is_login: bool = Field(description="False: no login is needed here.")
    raised_seconds: float = Field(
        description="For how long a second login still lets it administer; 0: none does."
    )

    @staticmethod
    def of(principal: Principal, login: Login | None, raised_s: float) -> LoginBody:
        """Return the body of who asks."""
        return LoginBody(
            name=principal.name,
            scopes=tuple(scope for scope in SCOPES if principal.may(scope)),
            is_login=login is not None,
            raised_seconds=round(raised_s, 1),
        )
