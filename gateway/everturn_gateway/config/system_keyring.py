"""Secrets in the system's keyring: Keychain, Secret Service, KWallet.

The library is an extra, `everturn[keyring]`, and is loaded where a secret stands there. All of it
asks another program: not for the event loop.

Source: https://keyring.readthedocs.io/en/latest/, read 2026-11.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    import keyring
    from keyring import errors
else:
    keyring, errors = late("keyring"), late("keyring.errors")

MARK: Final = "keyring:"
"How a value begins that names a place in the keyring; the service follows."
INSTALL: Final = "pip install 'everturn[keyring]'"


def keyring_name() -> str:
    """Return what the system's keyring is called; empty = there is none that can be used."""
    try:
        backend = keyring.get_keyring()
    except ImportError:
        return ""
    # Those that stand in where there is none have no priority. Source: `keyring.backends.fail`.
    return str(backend.name) if backend.priority > 0 else ""


def put_secret(folder: Path, name: str, secret: str) -> str:
    """Keep a secret; return the value that names where it is, durable when this returns.

    Args:
        folder: Of the configuration that it belongs to: another one may have another secret.
        name: Of its variable.
        secret: What is kept.

    Raises:
        GatewayError: The keyring does not take it.
    """
    service = f"everturn-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    try:
        keyring.set_password(service, name, secret)
    except ImportError as error:
        msg = f"the system's keyring is out of reach: {INSTALL}"
        raise GatewayError(msg) from error
    except (errors.KeyringError, OSError, RuntimeError) as error:
        msg = f"the system's keyring does not take {name}: {str(error) or type(error).__name__}"
        raise GatewayError(msg) from error
    return f"{MARK}{service}"


def secret_at(value: str, name: str) -> str:
    """Return the secret that a value names, see `put_secret`.

    Raises:
        GatewayError: It cannot be read there; says what to do.
    """
    try:
        found = keyring.get_password(value.removeprefix(MARK), name)
    except ImportError as error:
        msg = f"is in the system's keyring, which is out of reach: {INSTALL}"
        raise GatewayError(msg) from error
    except (errors.KeyringError, OSError, RuntimeError) as error:
        why = str(error) or type(error).__name__
        msg = (
            f"is in the system's keyring, which does not open ({why}): unlock it, or take the line"
            " out and run `everturn setup --keep file`"
        )
        raise GatewayError(msg) from error
    if found is None:
        msg = (
            "is not in this user's keyring any more: take the line out, and run `everturn setup`"
            " again"
        )
        raise GatewayError(msg)
    return found
