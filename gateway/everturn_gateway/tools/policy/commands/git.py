"""What git does with its arguments, and what a repository's configuration makes it run. Pure.

Keys that start programs are forced by the environment of a command where git lets them
(`shell.environment.GIT_CONFIG`). Names of filters, drivers, aliases and remotes are free, so a
configuration is held against a list of keys that run nothing; any other key asks. In repositories
inside a repository git runs itself without that environment: there, forced keys count as well.
Sources: git(1), git-config(1), git 2.39; `prepare_submodule_repo_env` in its submodule.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.tools.policy.commands.options import (
    before_end,
    is_listed,
    matching,
    may_be_option,
    values,
)
from everturn_gateway.tools.policy.commands.targets import Target, target_of
from everturn_gateway.tools.policy.commands.words import Word

_KNOWN_WORDS: Final = """
    add annotate archive blame branch bundle cat-file check-attr check-ignore check-mailmap
    check-ref-format checkout cherry cherry-pick clean clone column commit config count-objects
    describe diff diff-files diff-index diff-tree fetch fmt-merge-msg for-each-ref format-patch
    fsck gc grep hash-object init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes
    patch-id prune pull push range-diff rebase reflog remote reset restore rev-list
    rev-parse revert rm shortlog show show-branch show-ref stage stash status stripspace switch
    symbolic-ref tag update-ref verify-commit verify-pack verify-tag version whatchanged worktree
    write-tree
"""
_KNOWN: Final = frozenset(_KNOWN_WORDS.split())
"Commands of git that run no program but by these options, and write no file that is not in git."
_OPTIONS: Final = (
    "--exec", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--output-directory",
    "--unsafe-paths", "--recurse-submodules", "--remote-submodules",
)  # fmt: skip
_OWN_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "init": ("--template", "--separate-git-dir"),
        "clone": ("--template", "--separate-git-dir", "--config", "-u", "-c"),
        "merge": ("--strategy", "--strategy-option", "-s", "-X"),
        "rebase": ("--strategy", "--strategy-option", "-s", "-x", "-X"),
        "pull": ("--strategy", "--strategy-option", "-s", "-X"),
        "cherry-pick": ("--strategy", "--strategy-option", "-X"),
        "revert": ("--strategy", "--strategy-option", "-X"),
        "archive": ("--remote", "-o"),
        "format-patch": ("-o",),
        "grep": ("-O",),
    }
)
_OUTPUT: Final = "--output"
_PLACING: Final = frozenset(("checkout", "restore", "reset", "switch"))
"They write files of a tree, which a word such as `HEAD:src` takes from below another folder."
_CONFIG_READS: Final = frozenset(
    ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l")
)
_REMOTE_READS: Final = frozenset(("", "-v", "--verbose", "get-url"))
_REMOTE_WRITES: Final = frozenset(("add", "remove", "rm", "rename", "set-url"))
_GLOBAL_FLAGS: Final = frozenset(
    (
        "--no-pager", "--no-optional-locks", "--literal-pathspecs", "--glob-pathspecs",
        "--noglob-pathspecs", "--icase-pathspecs", "--no-replace-objects", "--version", "-v", "-P",
    )
)  # fmt: skip
_REACHING: Final = frozenset(("clone", "fetch", "ls-remote", "pull", "push"))
_ADDRESS: Final = late_pattern(
    r"(?:https?|ssh|git)://[^/]|(?!file:)[A-Za-z0-9_][\w.@-]*:(?!//|:)", re.ASCII
)

_KEYS: Final = late_pattern(
    r"""
    core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks
        |autocrlf|eol|safecrlf|abbrev|quotepath|compression|loosecompression|bigfilethreshold|deltabasecachelimit
        |packedgitlimit|packedgitwindowsize|commentchar|whitespace|preloadindex|untrackedcache|splitindex|trustctime
        |checkstat|longpaths|fscache|protecthfs|protectntfs|multipackindex|commitgraph|sharedrepository|fsync
        |fsyncmethod|fsyncobjectfiles|createobject|warnambiguousrefs|disambiguate|sparsecheckout
        |sparsecheckoutcone|excludesfile|notesref|hidedotfiles|usereplacerefs|prefersymlinkrefs)
    |remote\..+\.(url|pushurl|fetch|push|tagopt|prune|prunetags|mirror|skipdefaultupdate|skipfetchall|gh-resolved
        |followremotehead)
    |remote\.(pushdefault|default)
    |branch\..+\.(remote|merge|rebase|pushremote|description|vscode-merge-base|github-pr-owner-number)
    |branch\.(autosetupmerge|autosetuprebase|sort)
    |user\.(name|email|signingkey|useconfigonly)|author\..+|committer\..+
    |init\.defaultbranch
    |extensions\.(objectformat|refstorage|noop|noop-v1|preciousobjects|worktreeconfig)
    |color\..+|column\..+|advice\..+|help\.autocorrect|i18n\..+|log\.(date|decorate|follow|abbrevcommit|mailmap)
    |status\.\w+|push\.(default|followtags|autosetupremote)|pull\.(rebase|ff)|fetch\.(prune|prunetags|parallel)
    |merge\.(ff|conflictstyle|renames|renamelimit|stat|log|autostash)
    |rebase\.(autosquash|autostash|stat|updaterefs)
    |diff\.(algorithm|renames|renamelimit|mnemonicprefix|noprefix|context|colormoved|wserrorhighlight|submodule
        |indentheuristic|relative|interhunkcontext|statgraphwidth|ignoresubmodules)
    |rerere\.(enabled|autoupdate)|commit\.(verbose|cleanup|status)|tag\.sort|versionsort\..+|blame\.\w+
    |stash\.\w+|format\.(pretty)|grep\.(linenumber|patterntype|column|extendedregexp|fullname)
    |pack\.\w+|index\.(version|threads|sparse)|feature\.\w+|transfer\.(fsckobjects|hiderefs)
    |submodule\..+\.(url|active|branch|ignore|shallow)|submodule\.(active)|apply\.(whitespace|ignorewhitespace)
    |lfs\.repositoryformatversion|http\.(postbuffer|lowspeedlimit|lowspeedtime|version)
    """,
    re.VERBOSE,
)
"Keys that run nothing, in small letters; names of remotes and branches are free."
_FORCED_WORDS: Final = """
    core.fsmonitor core.hookspath core.alternaterefscommand core.attributesfile gc.auto
    maintenance.auto submodule.recurse safe.barerepository core.pager core.editor sequence.editor
    interactive.difffilter core.askpass credential.helper credential.interactive core.sshcommand
    protocol.ext.allow commit.gpgsign tag.gpgsign tag.forcesignannotated push.gpgsign
    log.showsignature merge.verifysignatures gpg.program gpg.openpgp.program gpg.x509.program
    gpg.ssh.program gpg.ssh.defaultkeycommand
"""
FORCED: Final = frozenset(_FORCED_WORDS.split())
"Keys that a command's environment forces; `GIT_CONFIG` has the values."


class GitUse(Struct, frozen=True, kw_only=True):
    """What the arguments of git say."""

    fault: str = ""
    "Why no `bash:` pattern allows it; empty where one may."
    writes: tuple[Target, ...] = ()
    folders: tuple[str, ...] = ()
    "Where it works, beside the folder in which it is called."
    reaches: bool = False
    "Whether it speaks to a repository elsewhere, where git would run as well."
    remotes: tuple[str, ...] = ()
    "Of that, the words that may be a remote or an address."
    changes_remotes: bool = False


class GitKey(Struct, frozen=True, kw_only=True):
    """A key of a configuration that runs something, or may."""

    key: str
    line: int
    "From 1."


def git_use(arguments: Sequence[Word]) -> GitUse:
    """Return what git is told to do."""
    folders: list[str] = []
    at = 0
    while at < len(arguments) and may_be_option(arguments[at]):
        word = arguments[at]
        if not word.is_fixed:
            return GitUse(fault="what the shell fills in may be an option of git")
        if word.flat == "-C" and at + 1 < len(arguments) and arguments[at + 1].is_fixed:
            folders.append(arguments[at + 1].flat)
            at += 2
        elif word.flat in _GLOBAL_FLAGS:
            at += 1
        else:
            return GitUse(fault=f"git {word.flat} can change what git runs")
    if at == len(arguments):
        return GitUse(folders=tuple(folders))
    if not arguments[at].is_fixed:
        return GitUse(fault="which command of git it is, is filled in by the shell")
    command, rest = arguments[at].flat, arguments[at + 1 :]
    fault = _command_fault(command, rest) or _option_fault(command, rest)
    if fault:
        return GitUse(fault=fault)
    first = rest[0].flat if rest else ""
    reaches = command in _REACHING or (command == "remote" and _remote_reaches(first, rest))
    return GitUse(
        writes=tuple(_writes(command, rest)),
        folders=tuple(folders),
        reaches=reaches,
        remotes=tuple(word.flat for word in rest if not word.flat.startswith("-")),
        changes_remotes=command == "remote" and first in _REMOTE_WRITES,
    )


def is_address(text: str) -> bool:
    """Return whether a text names a repository on another machine, not a folder of this one."""
    return _ADDRESS.match(text) is not None


def _command_fault(command: str, rest: Sequence[Word]) -> str:
    first = rest[0].flat if rest else ""
    words = {word.flat for word in rest}
    if command not in _KNOWN:
        return f"git {command} runs other programs or writes freely, or is not known here"
    reads = words & _CONFIG_READS or first in {"get", "list"} or len(rest) == 1
    if command == "config" and not reads:
        return "git config changes what git runs"
    if command == "config" and any(word.startswith(("-e", "--e", "-f", "--f")) for word in words):
        return "git config with a file or an editor can read and write anything"
    if command == "worktree" and first != "list":
        return f"git worktree {first} makes a repository with a configuration of its own"
    if command in _PLACING and any(":" in word and not word.startswith("-") for word in words):
        return f"git {command} can put a file of the repository in the place of another"
    if command == "bundle" and first not in {"verify", "list-heads"}:
        return f"git bundle {first} writes a file that is named freely"
    return ""


def _option_fault(command: str, rest: Sequence[Word]) -> str:
    options = (*_OPTIONS, *_OWN_OPTIONS.get(command, ()))
    for word in before_end(rest):
        if not word.is_fixed and may_be_option(word) and not is_listed(word):
            return "what the shell fills in may be an option of git"
        if found := next(matching(options, "", word, whole=(_OUTPUT,)), None):
            why = "can run a program, or write where the command does not say"
            return f"git {command} {found[0]} {why}"
    return ""


def _writes(command: str, rest: Sequence[Word]) -> Iterator[Target]:
    if command in {"mv", "init", "clone"}:
        yield from (target_of(word) for word in rest if not word.flat.startswith("-"))
    yield from values((_OUTPUT,), "", rest)


def _remote_reaches(first: str, rest: Sequence[Word]) -> bool:
    if first in _REMOTE_READS:
        return False
    return first not in _REMOTE_WRITES or any(word.flat.startswith("-") for word in rest)


# --- configuration ---

_BLANK: Final = r"[ \t\r]*"
_SECTION: Final = late_pattern(
    rf'{_BLANK}\[{_BLANK}([A-Za-z0-9.-]+)(?:[ \t\r]+"((?:[^"\\\n]|\\.)*)")?{_BLANK}\]'
)
_KEY: Final = late_pattern(rf"{_BLANK}([A-Za-z][A-Za-z0-9-]*){_BLANK}(?:=.*|[#;].*)?\Z")
_NOTHING: Final = late_pattern(rf"{_BLANK}(?:[#;].*)?\Z")
_UNREADABLE: Final = "what cannot be read for certain"


def risky_keys(text: str, *, is_nested: bool) -> Iterator[GitKey]:
    """Yield the keys of a configuration that are not known to run nothing.

    Every line is read as one that may set a key, also one that goes on with the value before: what
    cannot be read so is yielded as well.

    Args:
        text: The file.
        is_nested: Whether the repository is inside another, see above.
    """
    section = ""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        rest = line
        while found := _SECTION.match(rest):
            name, part = found[1].casefold(), found[2]
            section = name if part is None else f"{name}.{part}"
            rest = rest[found.end() :]
        if _NOTHING.match(rest):
            continue
        key = _KEY.match(rest)
        if key is None or not section:
            yield GitKey(key=_UNREADABLE, line=number)
            continue
        whole = f"{section}.{key[1].casefold()}"
        if _KEYS.fullmatch(whole) or (not is_nested and whole in FORCED):
            continue
        yield GitKey(key=whole, line=number)


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of a configuration in which `risky_keys` finds nothing.

    A value that is written with quotes or backslashes comes as it is written.
    """
    section = ""
    for line in text.removeprefix("\ufeff").split("\n"):
        rest = line
        while found := _SECTION.match(rest):
            name, part = found[1].casefold(), found[2]
            section = name if part is None else f"{name}.{part}"
            rest = rest[found.end() :]
        key, equals, value = rest.partition("=")
        if equals and section:
            yield f"{section}.{key.strip().casefold()}", value.strip(" \t\r")
