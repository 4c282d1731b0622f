"""Offers a setup to whoever begins where nothing is set up."""

from __future__ import annotations

from pathlib import Path

from everturn_gateway import commands
from everturn_gateway.commands.first_steps.prompts import agrees
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.config.settings import Config, is_set_up


def offer_setup(options: Options, config: Config) -> bool:
    """Ask a person whether to set up now, and do it; return whether something was set up.

    Nobody is asked where something is there or is named, or where nobody sits at a terminal.
    """
    is_named = options.config or options.workspace or options.agents_dir
    if is_named or config.path or is_set_up(Path()):
        return False
    if not agrees("Nothing is set up yet. Choose a model now?", default=True):
        return False
    commands.setup.setup(options, commands.setup.Answers(), goes_on=True)
    return True
