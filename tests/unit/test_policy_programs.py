"""The table of programs: what each does with its words, program by program."""

from __future__ import annotations

from support.tables import table

from everturn_gateway.tools.policy.commands import git
from everturn_gateway.tools.policy.commands.programs import PROGRAMS, look_up
from everturn_gateway.tools.policy.commands.strict import read_strictly
from everturn_gateway.tools.policy.commands.uses import Use, use_of
from everturn_gateway.tools.shell.confinement.environment import GIT_CONFIG

CODE = sorted(name for name, program in PROGRAMS.items() if program.kind == "code")
PLAIN = sorted(name for name, program in PROGRAMS.items() if program.kind == "plain")
RUNS = [(name, option) for name in sorted(PROGRAMS) for option in PROGRAMS[name].runs]
WRITES = [(name, option) for name in sorted(PROGRAMS) for option in PROGRAMS[name].writes]
OWN_RULES = {"cd": "cd src", "sed": "sed -n 1p x", "tar": "tar -tf x.tar"}
"Arguments that pass, of programs whose arguments are looked at by rules of their own."


def _use(text: str) -> Use:
    return use_of(read_strictly(text).commands[-1].words)


@table("name", CODE)
def test_what_runs_code_is_allowed_by_no_pattern_for_commands(name: str) -> None:
    """Each such program, by its name, with a folder and with a version, says why."""
    for written in (name, f"/usr/bin/{name}"):
        use = use_of(read_strictly(f"x {written}").commands[0].words[1:])

        assert use.kind == "code"
        assert use.fault.startswith(written)


@table("name", PLAIN)
def test_what_only_reads_its_arguments_may_be_allowed(name: str) -> None:
    """Each such program passes with a plain word."""
    use = use_of(
        read_strictly(f"x {OWN_RULES.get(name, f'{name} notes.txt')}").commands[0].words[1:]
    )

    assert (use.kind, use.fault) == ("plain", "")


@table(("name", "option"), RUNS)
def test_an_option_that_runs_something_cannot_be_allowed(name: str, option: str) -> None:
    """Whole, begun, with a value in the same word, behind others, filled in by the shell."""
    forms = [f"{name} {option}", f"{name} a {option} b"]
    if option.startswith("--"):
        forms += [f"{name} {option}=x", f"{name} {option[:-1]}=x", f"{name} '{option}'"]
    if len(option) == 2:
        forms += [f"{name} {option}x", f"{name} -0{option[1]}x"]
    forms += [f"{name} $x", f"{name} $(cat x)", f"{name} a$x", f'{name} "$x"', f"{name} {{a,b}}"]

    assert [form for form in forms if not _use(form).fault] == []


@table(("name", "option"), WRITES)
def test_an_option_that_writes_says_where(name: str, option: str) -> None:
    """However its value is written."""
    forms = [f"{name} {option} .git/config a b"]
    forms += [f"{name} {option}{'=' if option.startswith('--') else ''}.git/config a b"]

    for form in forms:
        assert ".git/config" in {target.text for target in _use(form).writes}, form


@table(
    ("text", "written"),
    [
        ("tee a b", {"a", "b"}),
        ("cp a b", {"b"}),
        ("cp a b -r", {"b"}),
        ("mv a b", {"a", "b"}),
        ("rm -rf a", {"a"}),
        ("touch a", {"a"}),
        ("mkdir -p a/b", {"a/b"}),
        ("ln -s a b", {"a", "b"}),
        ("uniq a b", {"b"}),
        ("uniq a", set()),
        ("sed -i s/a/b/ x y", {"x", "y"}),
        ("sed s/a/b/ x", set()),
        ("dd if=a of=b", {"b"}),
        ("git mv a b", {"a", "b"}),
        ("git log --output=x", {"x"}),
        ("git diff --output x", {"x"}),
        ("git init sub", {"sub"}),
        ("cat a", set()),
    ],
)
def test_what_a_command_writes_is_known_by_its_words(text: str, written: set[str]) -> None:
    """Its targets are held against the list of protected files."""
    use = _use(text)

    assert (use.fault, {target.text for target in use.writes}) == ("", written)


@table(
    "text",
    [
        "sed 1e x",
        "sed 's/a/b/e' x",
        "sed 's/a/b/w .git/config' x",
        "sed 'w .git/config' x",
        "sed -n '/a/w x' y",
        "sed -f script x",
        "sed --file=script x",
        "sed -e p -e 1e x",
        "sed -ne 1e x",
        "sed -i../.git/\\* p config",
        "sed '1r x' y",
        "sed $x y",
        "sed 's/[/]a/g;s/e;/x/p' y",
        "sed -n '/[/p;e x;#]/p' y",
        "curl -o '#1' x",
        "curl --expand-output x y",
        "curl -T x file:///y",
        "curl -w '%output{x}' y",
        "tar xf a.tar",
        "tar -xf a.tar",
        "tar cf a.tar x",
        "tar tf a.tar --to-command=sh",
        "tar -t --use-compress-program=./x -f a.tar",
        "tar tf host:a.tar",
        "cd",
        "cd -",
        "cd $x",
        "cd a b",
        "ln -s ../x y",
        "ln -s x sub/y",
        "dd $x",
        "./report.sh",
        "bin/tool x",
        "../tool",
        "find . -exec rm {} +",
        "find . -name x -delete",
        "printf -v PATH x",
        "[ -v 'a[$(id)]' ]",
        "find . --",
    ][:-1],
)
def test_what_can_run_or_write_more_than_its_words_say_is_not_allowed(text: str) -> None:
    """The reason names the program."""
    use = _use(text)

    assert use.fault


@table(
    "text",
    [
        "sed -n 1,20p x",
        "sed -n '$p' x",
        "sed '/^#/d' x",
        "sed -E 's/[a-z]+/x/g' y",
        "sed 's|a|b|;s|c|d|' x",
        "sed -e 1d -e 2d x",
        "sed 2q x",
        "sed -E 's/^[[:space:]]+[^a-z]/-/' x",
        "curl -sS -o page.html https://example.org",
        "tar tzf a.tgz",
        "tar -tvf a.tar x",
        "cd src/deep",
        "find . -name '*.py' -type f",
        "sort -k2 -n *.txt",
        "sort -- $x",
        "printf '%s\\n' a",
        "[ -f x ]",
        "test -e x",
        "curl -fsSL https://example.org",
        "curl -X POST -d a=b https://example.org",
        "rg -n word src",
    ],
)
def test_ordinary_use_of_such_programs_passes(text: str) -> None:
    """Or owners would have to allow everything."""
    assert _use(text).fault == ""


GIT_PASSES = [
    "git",
    "git status",
    "git status --short -b",
    "git -C sub status",
    "git --no-pager log --oneline -5",
    "git diff HEAD~1 -- src/a.py",
    "git diff --stat --cached",
    "git add -A",
    "git add *.py src/[a-c]?.txt",
    "git commit -m 'fix: a thing' -m 'more'",
    "git commit --amend --no-edit",
    "git log -p --follow -- '-x'",
    "git show HEAD:README.md",
    "git branch -a",
    "git switch -c topic",
    "git checkout main",
    "git stash push -m x",
    "git merge --no-ff topic",
    "git rebase main",
    "git config --get user.name",
    "git config user.name",
    "git remote -v",
    "git push -u origin main",
    "git grep -n word",
    "git blame -L 1,5 a.py",
    "git worktree list",
    "git rev-parse --show-toplevel",
]
GIT_FAULTS = [
    "git -c core.pager=x status",
    "git -ccore.pager=x status",
    "git --exec-path=. status",
    "git --git-dir=x status",
    "git --work-tree x status",
    "git --config-env=a=b status",
    "git -C $x status",
    "git $x",
    "git $x status",
    "git log $x",
    "git log $(cat names)",
    'git log "$x"',
    "git foo",
    "git config core.fsmonitor ./x",
    "git config --add alias.x '!sh'",
    "git config -e",
    "git config -f x --get y",
    "git config --unset x",
    "git difftool -x ./x",
    "git mergetool",
    "git bisect run ./x",
    "git submodule foreach ./x",
    "git submodule update --init",
    "git filter-branch --tree-filter ./x",
    "git rebase -x ./x main",
    "git rebase --exec=./x main",
    "git rebase --exe ./x main",
    "git grep -O./x word",
    "git grep -nO./x word",
    "git grep --open-files-in-pager=./x word",
    "git fetch --upload-pack=./x origin",
    "git fetch --upload-p ./x origin",
    "git push --receive-pack=./x origin",
    "git push --exec ./x origin",
    "git clone -c core.fsmonitor=./x a b",
    "git clone -u ./x a b",
    "git clone --template=. a b",
    "git clone --recurse-submodules a b",
    "git init --template=x",
    "git init --separate-git-dir=x",
    "git archive -o .git/config HEAD",
    "git archive --remote=. HEAD",
    "git format-patch -o .git/hooks HEAD~1",
    "git merge -s ./x",
    "git merge -Xsubtree=x topic",
    "git checkout HEAD:src -- a.py",
    "git restore --source HEAD:src a.py",
    "git read-tree HEAD:src",
    "git config filter.x.clean get",
    "git apply x.patch",
    "git am x.mbox",
    "git worktree add ../x",
    "git bundle create x HEAD",
    "git update-index --cacheinfo 100755,x,conftest.py",
    "git fast-import",
    "git hook run pre-commit",
    "git maintenance run",
    "git daemon",
    "git help -m log",
    "git instaweb",
    "git credential fill",
    "git send-email x",
    "git var GIT_EDITOR",
    "git upload-pack .",
    "git shell",
    "git lfs pull",
]


@table("text", GIT_PASSES)
def test_git_as_people_use_it_passes(text: str) -> None:
    """What its configuration says is another question."""
    assert _use(text).fault == ""


@table("text", GIT_FAULTS)
def test_git_that_is_told_what_to_run_does_not(text: str) -> None:
    """By options, by its commands, by what the shell fills in."""
    assert "git" in _use(text).fault


@table(
    ("name", "known"),
    [
        ("python3", "python"),
        ("python3.11", "python"),
        ("/usr/bin/python3.11", "python"),
        ("gcc-12", "gcc"),
        ("clang++-15", "clang++"),
        ("node18", "node"),
        ("pip3", "pip"),
        ("python3.13t", "python"),
        ("perl5.36-x86_64-linux-gnu", "perl"),
        ("x86_64-linux-gnu-gcc-12", "gcc"),
        ("python3-dbg", "python"),
        ("Make", "make"),
        ("GIT", "git"),
        ("python.exe", "python"),
        ("sha256sum", "sha256sum"),
    ],
)
def test_a_program_is_known_by_other_ways_to_write_its_name(name: str, known: str) -> None:
    """A version, a folder, other letters do not make another program of it."""
    assert look_up(name) == PROGRAMS[known]


def test_what_is_in_no_table_is_unknown() -> None:
    """Such a program may be allowed, but for what it names."""
    assert _use("frobnicate --all").kind == "unknown"


HARMLESS_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true ; a comment
\tbare = false
\tlogallrefupdates = true
# another
[remote "origin"]
\turl = https://example.org/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[user] name = Ada
[Color "Status"]
\tAdded = green
"""


def test_an_ordinary_configuration_runs_nothing() -> None:
    """As git init, clone and commit write it."""
    assert list(git.risky_keys(HARMLESS_CONFIG, is_nested=True)) == []
    assert list(git.risky_keys("", is_nested=False)) == []

    # A key that is let pass by mistake runs.
    assert {key.casefold() for key in GIT_CONFIG} == git.FORCED

    # There git runs itself without that environment.
    text = "[core]\n\tfsmonitor = ./x\n\thooksPath = .husky\n"

    assert list(git.risky_keys(text, is_nested=False)) == []
    assert [(found.key, found.line) for found in git.risky_keys(text, is_nested=True)] == [
        ("core.fsmonitor", 2),
        ("core.hookspath", 3),
    ]


@table(
    ("text", "key"),
    [
        ('[filter "x"]\n clean = ./x\n', "filter.x.clean"),
        ('[filter "a]b"] smudge=./x', "filter.a]b.smudge"),
        ("[FILTER.x]\nProcess = ./x", "filter.x.process"),
        ('[core][filter "x"]clean=./x', "filter.x.clean"),
        ('[diff "x"]\n textconv = ./x', "diff.x.textconv"),
        ("[diff]\n external = ./x", "diff.external"),
        ('[merge "x"]\n driver = ./x', "merge.x.driver"),
        ("[alias]\n st = !./x", "alias.st"),
        ('[remote "o"]\n uploadpack = ./x', "remote.o.uploadpack"),
        ('[remote "o"]\n vcs = x', "remote.o.vcs"),
        ("[include]\n path = ../x", "include.path"),
        ('[includeIf "gitdir:x"]\n path = ../x', "includeif.gitdir:x.path"),
        ('[url "ext::x"]\n insteadOf = https:', "url.ext::x.insteadof"),
        ("[pager]\n status = ./x", "pager.status"),
        ('[submodule "x"]\n update = !./x', "submodule.x.update"),
        ("[core]\n bare\n worktree = /", "core.worktree"),
        ("[core]\nfilemode = a\\\n[alias] x = !y", "alias.x"),
        ("[core]\n\x0bfilter = x", "what cannot be read for certain"),
        ("garbage", "what cannot be read for certain"),
        ("x = 1\n[core]", "what cannot be read for certain"),
        ("[gc]\n recentObjectsHook = ./x", "gc.recentobjectshook"),
        ("\ufeff[alias]\r\n\tx = !y\r\n", "alias.x"),
    ],
)
def test_a_key_that_can_run_something_is_found(text: str, key: str) -> None:
    """However it is written."""
    assert key in {found.key for found in git.risky_keys(text, is_nested=False)}


@table("key", sorted(GIT_CONFIG))
def test_what_the_environment_forces_is_what_is_let_pass(key: str) -> None:
    """The two lists are one."""
    section, _, name = key.rpartition(".")
    first, _, rest = section.partition(".")
    head = f'[{first} "{rest}"]' if rest else f"[{first}]"

    assert list(git.risky_keys(f"{head}\n{name} = x\n", is_nested=False)) == []


@table(
    ("text", "is_one"),
    [
        ("https://example.org/x.git", True),
        ("ssh://git@example.org/x", True),
        ("git@example.org:x/y.git", True),
        ("host:x", True),
        ("file:///x", False),
        ("./x", False),
        ("../x.git", False),
        ("/x/y", False),
        ("x", False),
        ("ext::sh -c x", False),
        ("file://x", False),
        ("~/x", False),
        ("origin", False),
    ],
)
def test_an_address_of_another_machine_is_told_from_a_folder(text: str, is_one: bool) -> None:
    """In a folder git would run with what that folder says."""
    assert git.is_address(text) == is_one
