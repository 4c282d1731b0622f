"""The key of one provider while it is being set up."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from everturn_actors.spec import ModelSpec
from everturn_gateway.commands.first_steps.prompts import ask_secret, say
from everturn_gateway.commands.first_steps.writing import explaining_faults
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import ProviderPlugin
from everturn_gateway.private_environ import process_environ
from everturn_gateway.providers.keys import Keys
from everturn_gateway.providers.transport.endpoints import split_keys

_KEYS_AT: Final = {
    "openai": "https://platform.openai.com/api-keys",
    "anthropic": "https://platform.claude.com/settings/keys",
    "gemini": "https://aistudio.google.com/api-keys",
    "openrouter": "https://openrouter.ai/settings/keys",
}


class NoKeyError(GatewayError):
    """What was given cannot be a key."""


def key_in(name: str) -> str:
    """Return the key in a file; `-` = the first line of stdin.

    Raises:
        GatewayError: It cannot be read.
    """
    with explaining_faults(f"the key file {name}", "read"):
        text = sys.stdin.readline() if name == "-" else Path(name).read_text(encoding="utf-8")
    return text.strip()


class Keyring:
    """Holds a key that is new, before those that are there."""

    def __init__(self, provider: ProviderPlugin, config: Config) -> None:
        self._provider, self._variable = provider, provider.key_variable
        settings = config.providers.get(provider.name)
        self._file = settings.api_key_file if settings else None
        files = {provider.name: self._file} if self._file else {}
        self._known = Keys(process_environ(), files)
        self.new = ""
        "Empty = none is new."

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment, with the key."""
        return ChainMap({self._variable: self.new}, self._known) if self.new else self._known  # type: ignore[arg-type]

    def is_needed(self, model: ModelSpec) -> bool:
        """Return whether a model cannot be called without a key, and there is none."""
        return bool(self._provider.needed_key(model)) and not self._known.get(self._variable)

    def ask(self, base_url: str = "") -> None:
        """Ask for a key, again where it is none.

        Args:
            base_url: Of a server of its own; empty = the provider's.

        Raises:
            GatewayError: Nobody can be asked, or the key stands somewhere else.
        """
        option = f"--key-file FILE, or set {self._variable}"
        where = _KEYS_AT.get(self._provider.name, "")
        if where and not base_url:
            say(f"A key is made at {where}")
        while True:
            try:
                return self._take(ask_secret(f"The key, {self._variable}", option=option))
            except NoKeyError as error:
                say(f"{error}.")

    def read(self, name: str) -> None:
        """Take the key from a file; `-` = stdin.

        Raises:
            GatewayError: It cannot be read, or is none.
        """
        self._take(key_in(name))

    def _take(self, key: str) -> None:
        """Hold a key; what no header can carry is refused before it is written anywhere."""
        for each in (key, *split_keys(key)):
            crash_log.secrets.add(each)
        if not self._variable:
            msg = f"{self._provider.name} takes no key"
            raise GatewayError(msg)
        if self._file is not None:
            msg = (
                f"the key of {self._provider.name} stands in {self._file}: write the new one there"
            )
            raise GatewayError(msg)
        if not key or not (key.isascii() and key.isprintable()) or set(key) & set(" \"'#\\"):
            msg = "that is no key: it is empty, or holds blanks or characters that no key has"
            raise NoKeyError(msg)
        self.new = key
