"""Commands that need the package of an extra."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from everturn_gateway.errors import GatewayError


@contextmanager
def extra(command: str, package: str, name: str, *modules: str) -> Generator[None]:
    """Import within: where the package is missing, the error says how to install it.

    Args:
        command: What was typed.
        package: What the index calls the package.
        name: The extra of Everturn that brings it.
        modules: What the package calls its modules.

    Raises:
        GatewayError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in modules:
            raise
        msg = f"`{command}` needs the package {package}: run `pip install 'everturn[{name}]'`"
        raise GatewayError(msg) from error
