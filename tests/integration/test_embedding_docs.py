"""The page for programs that embed Everturn, and the glossary: what they show is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.tables import table
from support.warm_start import python_command

import everturn
from everturn import testing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/embedding.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
_DEFINITION = re.compile(r"\s*(?:async )?(?:class|def) (\w+)|(\w+)(?:: TypeAlias)? = ")
PRINTED = ("You said: “Hi!”", "I can see 2 messages", "stock: 3", "", "")


def test_every_program_of_the_page_is_tried() -> None:
    """A new one has to be listed with what it prints."""
    assert len(PROGRAMS) == len(PRINTED)


@table(("program", "printed"), list(zip(PROGRAMS, PRINTED, strict=False)))
def test_the_programs_of_the_page_run(program: str, printed: str, tmp_path: Path) -> None:
    """People copy them as they are."""
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    # One of them imports for itself what all of them do.
    command = (sys.executable, str(file)) if program == PROGRAMS[0] else python_command(file)
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert printed in done.stdout


def test_what_the_page_names_is_public() -> None:
    """Errors, classes and suites by the names that the package has."""
    named = set(re.findall(r"`(?:everturn\.)?([A-Z]\w+(?:Error)?)`", PAGE))
    suites = {name for name in named if name.endswith("Contract")}
    doubles = {"ScriptedProvider", "ManualClock", "RecordingHandler"}

    assert named - suites - doubles - set(everturn.__all__) == {"TurnResult"} - set(
        everturn.__all__
    )
    assert suites | doubles <= set(testing.__all__)


def test_the_words_of_the_glossary_are_in_the_code() -> None:
    """A word that nobody uses any more would lead whoever looks for it astray."""
    names = set(re.findall(r"`(?:everturn\.)?(\w+)`", GLOSSARY)) - {"everturn"}
    lines = (
        line
        for folder in ("actors", "channels", "gateway")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    defined = filter(None, map(_DEFINITION.match, lines))

    assert names - {name for found in defined for name in found.groups()} == set()
