"""Reasons that the core and the tools give in fixed words, so that people read them in their own.

Nobody there knows of languages: an error says why in English, and `said` finds that in the tables.
"""

from __future__ import annotations

from typing import Final

from everturn_channels.languages import marked

REASONS: Final = (
    # how a session stands, with `ended` and `paused`, which the console says as well
    marked("active"),
    # why no turn can be asked again
    marked("a turn is under way; it has to end first"),
    marked("a newer message waits for its turn"),
    marked("nothing was asked here yet"),
    marked("the newest message was answered"),
    marked("the newest turn was cancelled, and did not fail; send the message again"),
    # why nothing was summarised
    marked("Nothing to compact yet — conversation is within the token budget."),
    marked("The conversation went on without this summary."),
    # why files were not taken back
    marked("there is nothing to take back: no turn changed files, or all are taken back"),
    marked("it was changed since, and is left as it is"),
    marked("what it held before is not kept any more"),
    # why nothing is noted
    marked("the agent keeps no notes: spec.memory in its file gives it some"),
)
"A test holds them to the places where they are given."
