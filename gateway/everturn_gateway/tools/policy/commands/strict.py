"""Reads the part of bash that can be allowed by a pattern, and refuses all else. Pure.

This is the narrow reading: lists and pipelines of simple commands, groups, subshells, `if`,
`while`, `until`, `for`, command and process substitution, and redirections that change nothing.
Whatever comes that this reader does not know for certain, it refuses with a reason for people. It
leans on nothing but the lexical rules of bash, so that it can be held against what a full grammar
makes of the same text (`grammar`): only where both see the same commands may one be allowed.

Source: the POSIX Shell Command Language, 2.2 to 2.9, and the manual of bash 5.2.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NoReturn

from msgspec import Struct, field

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.tools.policy.commands.words import WILD_CHARACTERS, Piece, Word, ansi_c

MAX_DEPTH = 12  # substitutions inside each other

_END: Final = r"(?=[ \t\n;&|)]|\Z)"
_HARMLESS: Final = late_pattern(
    rf"(?:(?:[012]?>>?|&>>?)[ \t]*/dev/null|[012]?>&[12]|0?<[ \t]*/dev/null){_END}"
)
"Redirections that write nowhere and read nothing."
_OPERATOR: Final = late_pattern(r"&&|\|\||;;|\|&|[;|&]")
_ASSIGNMENT: Final = late_pattern(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=", re.ASCII)
_VARIABLE: Final = late_pattern(
    r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-]|\{(?:[A-Za-z_]\w*|[0-9]+|[@*#?$!-])\})", re.ASCII
)
_LOOP_VARIABLE: Final = late_pattern(r"[a-z][a-z0-9]{0,15}(?=[ \t\n])")
"Such a name is no variable that the shell or a program looks at, as PATH or http_proxy is."
_IN: Final = late_pattern(r"in(?=[ \t\n;]|\Z)")

TEST: Final = "["
"The one command whose name could be taken for a pattern of names."
_LEADING: Final = frozenset(("if", "then", "else", "elif", "while", "until", "do", "!", "{"))
"Reserved words after which a command begins."
_TRAILING: Final = frozenset(("fi", "done", "}"))
"Reserved words that end what such a word began."
_REFUSED: Final = frozenset(("case", "esac", "select", "function", "coproc", "in", "[[", "]]"))


class RefusedError(Exception):
    """This reader does not vouch for the text; the message says what stands in the way."""


class SimpleCommand(Struct, frozen=True):
    """A name and its arguments."""

    words: tuple[Word, ...]
    source: str
    "As it is written."

    @property
    def shown(self) -> str:
        """The one way to write it, see `Word.shown`."""
        return " ".join(word.shown for word in self.words)

    @property
    def is_fixed(self) -> bool:
        """Whether nothing in it is filled in by the shell; names of files may be."""
        return all(piece.kind != "filled" for word in self.words for piece in word.pieces)


class Reading(Struct, frozen=True):
    """What this reader makes of a text."""

    commands: tuple[SimpleCommand, ...]
    "Every simple command, those in substitutions included."
    is_one: bool
    "Whether the text is one simple command and nothing else."
    has_pipe: bool = False
    "Whether the output of a command goes to another."


def join_lines(text: str) -> str:
    r"""Return the text with each `\` at the end of a line, and the line's end, taken out.

    Raises:
        RefusedError: Whether they are to be taken out depends on what stands around them.
    """
    if "\\\n" not in text:
        return text
    # There a backslash may be a plain character, and the line end stays.
    if "'" in text or "#" in text or "<<" in text:
        msg = "it goes on over several lines beside quotes, comments or here-documents"
        raise RefusedError(msg)
    return re.sub(r"(?<!\\)((?:\\\\)*)\\\n", r"\1", text)


def read_strictly(text: str) -> Reading:
    """Return the commands of a text whose lines are joined.

    Raises:
        RefusedError: It holds what this reader does not vouch for.
    """
    reader = _Reader(text)
    reader.script(inside=False)
    # A comment alone would be allowed by any pattern.
    if not reader.commands:
        _refuse("it holds no command")
    is_one = len(reader.commands) == 1 and not reader.has_more
    return Reading(tuple(reader.commands), is_one, reader.has_pipe)


def _refuse(reason: str) -> NoReturn:
    raise RefusedError(reason)


class _Reader(Struct):
    """Goes over a text once."""

    text: str
    at: int = 0
    depth: int = 0
    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    has_more: bool = False
    "Whether there is anything beside simple commands: operators, redirections, reserved words."
    has_pipe: bool = False

    def script(self, *, inside: bool) -> None:
        """Read commands up to the end, or to the bracket that closes a substitution."""
        self.depth += 1
        # The reader goes down by calls: a text of brackets must not end the process.
        if self.depth > MAX_DEPTH:
            _refuse("its substitutions are nested too deep")
        _Script(self, inside=inside).read()
        self.depth -= 1

    def skip_blanks(self, also: str = "") -> None:
        """Go on to what is no blank."""
        while self.at < len(self.text) and self.text[self.at] in f" \t{also}":
            self.at += 1

    def word(self) -> Word:
        """Read one word."""
        start = self.at
        pieces: list[Piece] = []
        while self.at < len(self.text):
            character = self.text[self.at]
            # A process substitution: what stands in it runs like any command.
            if character in "<>" and self.at == start and self.text.startswith("(", start + 1):
                self.at += 2
                pieces.append(self._substitution(is_quoted=True))
            # Bash ends a word at these, whatever stands before them.
            elif character in " \t\n;&|()<>":
                break
            else:
                self._piece(character, pieces)
        source = self.text[start : self.at]
        if self.text[self.at : self.at + 1] in ("<", ">") and (source.isdigit() or "{" in source):
            _refuse("it redirects a numbered file")
        return Word(tuple(pieces), start, self.at, source)

    def _piece(self, character: str, pieces: list[Piece]) -> None:
        """Read one piece of a word: quoted, escaped, filled in or plain."""
        match character:
            case "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    _refuse("a quote is not closed")
                pieces.append(self._fixed(self.text[self.at + 1 : end], is_quoted=True))
                self.at = end + 1
            case '"':
                self._double(pieces)
            case "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                if escaped in ("", "\n"):
                    _refuse("a backslash stands at the end of a line")
                pieces.append(self._fixed(escaped, is_quoted=True))
                self.at += 2
            case "$":
                pieces.append(self._dollar(is_quoted=False))
            case "`":
                _refuse("it uses backticks; $(...) can be judged")
            case _ if character in WILD_CHARACTERS:
                pieces.append(Piece("wild", character))
                self.at += 1
            case _:
                pieces.append(self._fixed(character, is_quoted=False))
                self.at += 1

    def _double(self, pieces: list[Piece]) -> None:
        """Read a text in double quotes, in which some things are still filled in."""
        self.at += 1
        pieces.append(Piece("fixed", ""))  # "" is a word too
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return
            if character == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                if escaped in ("", "\n"):
                    _refuse("a backslash stands at the end of a line")
                # Between double quotes a backslash stays before anything else.
                kept = escaped if escaped in '$`"\\' else f"\\{escaped}"
                pieces.append(self._fixed(kept, is_quoted=True))
                self.at += 2
            elif character == "$":
                pieces.append(self._dollar(is_quoted=True))
            elif character == "`":
                _refuse("it uses backticks; $(...) can be judged")
            else:
                pieces.append(self._fixed(character, is_quoted=True))
                self.at += 1
        _refuse("a quote is not closed")

    def _dollar(self, *, is_quoted: bool) -> Piece:
        """Read what begins with a dollar, as far as it only fills something in."""
        following = self.text[self.at + 1 : self.at + 3]
        # Arithmetic runs what stands in an index, and may be nested in a variable.
        if following == "((" or following[:1] == "[":
            _refuse("it calculates")
        if following[:1] == "(":
            self.at += 2
            return self._substitution(is_quoted=is_quoted)
        # Its escapes are resolved: it is judged by what the program gets.
        if following[:1] == "'" and not is_quoted:
            return self._ansi_c()
        if following[:1] == '"' and not is_quoted:
            _refuse("it has a text that is translated")
        if variable := _VARIABLE.match(self.text, self.at):
            self.at = variable.end()
            return Piece("filled", "", is_quoted=is_quoted)
        # Such forms assign, run or read other variables: `${x:=$(id)}`.
        if following[:1] == "{":
            _refuse("it changes a variable's value as it is filled in")
        self.at += 1
        return Piece("fixed", "$")

    def _ansi_c(self) -> Piece:
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            # An escaped quote does not close it.
            end += 2 if self.text[end] == "\\" else 1
        body = ansi_c(self.text[self.at + 2 : end])
        if end >= len(self.text) or body is None:
            _refuse("it has a quoted text that cannot be read for certain")
        self.at = end + 1
        return self._fixed(body, is_quoted=True)

    def _substitution(self, *, is_quoted: bool) -> Piece:
        self.script(inside=True)
        return Piece("filled", "", is_quoted=is_quoted)

    @staticmethod
    def _fixed(text: str, *, is_quoted: bool) -> Piece:
        """Check characters that people, bash and a grammar may each see differently."""
        for character in text:
            if character.isprintable() and not (character.isspace() and not is_quoted):
                continue
            # Within quotes blanks of any kind are text; outside bash and a grammar differ on them.
            if is_quoted and (character in "\t\n" or unicodedata.category(character) == "Zs"):
                continue
            _refuse(f"it holds the character U+{ord(character):04X}")
        return Piece("fixed", text)


class _Script:
    """Reads the commands of one script: the whole text, or the inside of a substitution."""

    def __init__(self, reader: _Reader, *, inside: bool) -> None:
        self._reader = reader
        self._inside = inside
        self._words: list[Word] = []
        self._brackets = 0
        self._is_over = False
        "A compound command or a redirection stands before: no word may follow."

    def read(self) -> None:
        """Read up to the end, or past the bracket that closes a substitution."""
        reader = self._reader
        while True:
            reader.skip_blanks()
            if reader.at >= len(reader.text):
                self._end_command()
                # An open bracket may be closed by a text that is not seen here.
                if self._inside or self._brackets:
                    _refuse("a bracket is not closed")
                return
            if self._token(reader.text[reader.at]):
                return

    def _token(self, character: str) -> bool:
        """Read one token; return whether it closes the substitution."""
        reader = self._reader
        if character == "\n":
            self._end_command()
            reader.at += 1
        elif character == "#":
            self._comment()
        elif redirection := _HARMLESS.match(reader.text, reader.at):
            # `>/dev/null cmd` is a command whose name stands where nobody looks for it.
            if not self._words and not self._is_over:
                _refuse("a redirection stands before its command")
            self._is_over = reader.has_more = True
            reader.at = redirection.end()
        elif operator := _OPERATOR.match(reader.text, reader.at):
            self._operator(operator[0])
        elif character == "(":
            self._open()
        elif character == ")":
            return self._close()
        elif character in "<>" and not reader.text.startswith("(", reader.at + 1):
            _refuse("it redirects input or output")
        else:
            self._word()
        return False

    def _comment(self) -> None:
        """Pass over a comment, up to the end of its line."""
        if self._inside:
            _refuse("a comment stands inside a substitution")
        self._reader.has_more = True
        end = self._reader.text.find("\n", self._reader.at)
        self._reader.at = end if end >= 0 else len(self._reader.text)

    def _operator(self, operator: str) -> None:
        """Read an operator; a command has to stand before it."""
        reader = self._reader
        # A list that begins with an operator is an error to bash, and its rest may still run.
        if operator == ";;" or not (self._words or self._is_over):
            _refuse(f"nothing stands before {operator!r}")
        reader.at += len(operator)
        reader.has_more = True
        reader.has_pipe = reader.has_pipe or operator in {"|", "|&"}
        self._end_command()

    def _open(self) -> None:
        """Read an opening bracket: a subshell."""
        reader = self._reader
        # `name (` begins a function or a list, whose body would be no command of this line.
        if self._words or self._is_over or reader.text.startswith("((", reader.at):
            _refuse("it defines a function, makes a list or calculates")
        reader.has_more = True
        reader.at += 1
        self._brackets += 1

    def _close(self) -> bool:
        """Read a closing bracket; return whether it ends the substitution."""
        self._end_command()
        self._reader.at += 1
        if self._brackets:
            self._brackets -= 1
            self._is_over = True
            return False
        if not self._inside:
            _refuse("a bracket is closed that was not opened")
        return True

    def _word(self) -> None:
        """Read a word: of a command, or one that is reserved."""
        reader = self._reader
        word = reader.word()
        if self._is_over:
            _refuse("a word follows where a command has ended")
        if self._words:
            self._words.append(word)
        # Only as the first word: `echo if` says if.
        elif word.source in _LEADING:
            reader.has_more = True
        elif word.source in _TRAILING:
            self._is_over = reader.has_more = True
        elif word.source == "for":
            reader.has_more = True
            self._loop()
        else:
            self._words.append(word)

    def _loop(self) -> None:
        """Read `NAME in words`, up to the end of the line or the semicolon."""
        reader = self._reader
        reader.skip_blanks()
        variable = _LOOP_VARIABLE.match(reader.text, reader.at)
        # A loop over PATH or IFS changes what the commands in it mean.
        if variable is None:
            _refuse("it sets a variable other than one short name in small letters")
        reader.at = variable.end()
        reader.skip_blanks("\n")
        found = _IN.match(reader.text, reader.at)
        if found is None:
            _refuse("its loop names no values")
        reader.at = found.end()
        while True:
            reader.skip_blanks()
            if reader.text[reader.at : reader.at + 1] in (";", "\n"):
                reader.at += 1
                return
            word = reader.word()
            # An operator in the place of a value: the reader would stand still.
            if word.start == word.end:
                _refuse("its loop cannot be read")

    def _end_command(self) -> None:
        """Take the words so far as one command, if it can be vouched for."""
        words, self._words, self._is_over = tuple(self._words), [], False
        if not words:
            return
        name = words[0]
        if _ASSIGNMENT.match(name.source):
            _refuse("it sets a variable")
        if name.source in _REFUSED:
            _refuse(f"it uses {name.source!r}")
        # Which program runs would depend on a variable or on the files that are there.
        if not (name.is_fixed or name.source == TEST) or not name.flat:
            _refuse("the name of a command is filled in by the shell")
        source = self._reader.text[name.start : words[-1].end]
        self._reader.commands.append(SimpleCommand(words, source))
