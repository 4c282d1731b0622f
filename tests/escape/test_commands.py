"""Command lines that look like an allowed one, and run something else.

The allow lists name the program that the line begins with, as owners write them.
"""

# ruff: noqa: E501
# One sequence a line: a table is read by its rows.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.commands import needs_sandbox
from support.escaping import REPOSITORY, Escape, check, check_live, live, parts, play_each, there

pytestmark = needs_sandbox

LS = ("bash:ls", "bash:ls *", "bash:cat *", "bash:echo *", "bash:wc *", "bash:true")
A = {"a.txt": "a\n"}
RUN = {"x.sh": "%sh%\n"}
PROGRAM = {"x": "#!/bin/sh\n%sh%\n"}


def line(
    name: str, command: str, files: dict[str, str] | None = None, *, is_live: bool = True
) -> Escape:
    """Return a sequence under an allow list of programs that only read."""
    return there(f"shell {name}", LS, command, files, is_live=is_live, mode=0o755)


def option(
    name: str, command: str, files: dict[str, str] | None = None, *, is_live: bool = True
) -> Escape:
    """Return a sequence in which the program that a line begins with is allowed, with anything."""
    program = command.split(maxsplit=1)[0]
    return there(
        name, (f"bash:{program} *", f"bash:{program}"), command, files, is_live=is_live, mode=0o755
    )


def git(
    name: str, command: str, files: dict[str, str] | None = None, *, is_live: bool = False
) -> Escape:
    """Return a sequence in a repository, with all of git allowed."""
    return there(
        f"git {name}",
        ("bash:git *",),
        command,
        files,
        first=(REPOSITORY,),
        is_live=is_live,
        mode=0o755,
    )


LINES = (
    line("a list", "ls; %sh%"),
    line("and", "ls && %sh%"),
    line("or", "false || %sh%"),
    line("in the background", "ls & %sh%"),
    line("a second line", "ls\n%sh%"),
    line("a second line behind a carriage return", "ls\r\n%sh%"),
    line("a pipe", "echo %sh% | sh"),
    line("a pipe of errors", "cat x.sh |& sh", RUN),
    line("a substitution", "echo $(%sh%)"),
    line("backticks", "echo `%sh%`"),
    line("a substitution in quotes", 'echo "$(%sh%)"'),
    line("a substitution of a process", "cat <(%sh%)"),
    line("a substitution of output", "echo x > >(sh -c '%sh%'); wait $!"),
    line("a substitution in a loop", "for f in $(%sh%); do echo $f; done"),
    line("a substitution in a condition", "if %sh%; then ls; fi"),
    line("a substitution in a default", 'echo "${X:-$(%sh%)}"'),
    line("a substitution in arithmetic", "echo $((a[$(%sh%)]))"),
    line("arithmetic that runs", "((a[$(%sh%)]))"),
    line("an index in a test", "[ -v 'a[$(%sh%)]' ]"),
    line("an index in a long test", "[[ -v 'a[$(%sh%)]' ]]"),
    line("a comparison that calculates", "[[ 'a[$(%sh%)]' -eq 1 ]]"),
    line("an index in printf", "printf -v 'a[$(%sh%)]' x"),
    line("an index in read", "read 'a[$(%sh%)]' <<< x"),
    line("an index in let", "let 'a[$(%sh%)]=1'"),
    line("an index in unset", "unset 'a[$(%sh%)]'", is_live=False),
    line("a here-document", "sh <<E\n%sh%\nE"),
    line("a here-document that is filled in", "cat <<E\n$(%sh%)\nE"),
    line("a here-string", "sh <<< '%sh%'"),
    line("a file as input", "sh < x.sh", RUN),
    line("a function", "ls() { %sh%; }; ls"),
    line("a function by its keyword", "function ls { %sh%; }; ls"),
    line("an alias", "shopt -s expand_aliases\nalias ls='%sh%'\nls"),
    line("a variable as a name", "X=touch; $X %mark%"),
    line("a variable before a name", "PATH=.:$PATH ls", {"ls": "#!/bin/sh\n%sh%\n"}),
    line("a path that is exported", "export PATH=.:$PATH; ls", {"ls": "#!/bin/sh\n%sh%\n"}),
    line("a path that is read", "read PATH <<< .; ls", {"ls": "#!/bin/sh\n%sh%\n"}),
    line("a path that is printed", "printf -v PATH .; ls", {"ls": "#!/bin/sh\n%sh%\n"}),
    line("a path that a loop sets", "for PATH in .; do ls; done", {"ls": "#!/bin/sh\n%sh%\n"}),
    line("a hashed name", "hash -p ./x ls; ls", PROGRAM),
    line("a program beside", "./ls", {"ls": "#!/bin/sh\n%sh%\n"}),
    line("a program in a folder", "sub/ls", {"sub/ls": "#!/bin/sh\n%sh%\n"}),
    line("a program by its whole path", "%ws%/ls", {"ls": "#!/bin/sh\n%sh%\n"}),
    line("a program that a link leads to", "cd sub && ./ls", {"sub/ls": "#!/bin/sh\n%sh%\n"}),
    line("a start file of bash", "BASH_ENV=x.sh bash -c ls", RUN),
    line("a start file of sh", "ENV=x.sh sh -i -c ls", RUN),
    line("a prompt", "PS4='$(%sh%)'; set -x; ls"),
    line("a trap", "trap '%sh%' EXIT; ls"),
    line("a trap before each command", "trap '%sh%' DEBUG; ls"),
    line("eval", "eval '%sh%'"),
    line("source", "source x.sh", RUN),
    line("a dot", ". ./x.sh", RUN),
    line("exec", "exec sh x.sh", RUN),
    line("command", "command sh x.sh", RUN),
    line("builtin", "builtin eval '%sh%'"),
    line("a coprocess", "coproc %sh%; wait"),
    line("time", "time %sh%"),
    line("not", "! %sh%"),
    line("a group", "{ %sh%; }"),
    line("a subshell", "( %sh% )"),
    line("case", "case x in x) %sh%;; esac"),
    line("braces", "{touch,%mark%}"),
    line("quotes in a name", "t''ouch %mark%"),
    line("an escaped name", "\\t\\o\\u\\c\\h %mark%"),
    line("an escaped text", "$'\\x74ouch' %mark%"),
    line("a joined line", "to\\\nuch %mark%"),
    line("a comment that ends", "ls # \n%sh%"),
    line("a handler of unknown names", "command_not_found_handle() { %sh%; }; nothing"),
    line("mapfile", "mapfile -C '%sh%; :' -c 1 x <<< a"),
    line("a redirection", "echo x > %rules%"),
    line("a redirection that appends", "echo x >> %rules%"),
    line("a redirection of both", "ls &> %rules%"),
    line("a redirection of a number", "ls 3> %rules%"),
    line("a redirection before", "> %rules% ls"),
    line("a redirection that opens both ways", "cat <> %rules%"),
    line("a redirection behind a pipe", "ls | cat > %rules%"),
    line("tee", "ls | tee %rules%"),
    # options by which programs run others
    option("find -exec", "find . -exec touch %mark% ;".replace(";", "\\;")),
    option("find -execdir", "find . -maxdepth 0 -execdir touch %mark% \\;"),
    option("find -fprint", "find . -maxdepth 0 -fprint %rules%"),
    option("find -fprintf", "find . -maxdepth 0 -fprintf %rules% x"),
    option("tar --to-command", "tar xf a.tar --to-command='%sh%'", is_live=False),
    option("tar a checkpoint", "tar cf /dev/null a.txt --checkpoint=1 --checkpoint-action=exec='%sh%'", A),
    option("tar a shortened option", "tar cf /dev/null a.txt --checkpoint=1 --checkpoint-act=exec='%sh%'", A),
    option("tar a compressor", "tar cf a.tar a.txt --use-compress-program='sh -c \"%sh%\"'", A, is_live=False),
    option("tar -I", "tar cf a.tar -I ./x a.txt", {**A, **PROGRAM}),
    option("tar a remote shell", "tar cf h:a a.txt --rsh-command=%ws%/x", {**A, **PROGRAM}, is_live=False),
    option("tar a script of volumes", "tar cf a.tar -L 10 -F %ws%/x a.txt", {"a.txt": "a" * 50_000, **PROGRAM}),
    option("sort a compressor", "sort -S 1b --compress-program=./x a.txt", {"a.txt": "b\na\n" * 20_000, **PROGRAM}),
    option("sort -o", "sort -o %rules% a.txt", A),
    option("sort -o in one word", "sort -o%rules% a.txt", A),
    option("sed e", "sed '1e %sh%' a.txt", A),
    option("sed s///e", "sed 's/a/%s/e' a.txt".replace("%s", "touch RAN"), A),
    option("sed w", "sed 'w %rules%' a.txt", A),
    option("sed s///w", "sed 's/a/b/w %rules%' a.txt", A),
    option("awk system", "awk 'BEGIN { system(\"%sh%\") }'"),
    option("awk a pipe", "awk 'BEGIN { print \"%sh%\" | \"sh\" }'"),
    option("awk getline", "awk 'BEGIN { \"%sh%\" | getline }'"),
    option("awk writes", "awk 'BEGIN { print > \"%rules%\" }'"),
    option("xargs", "xargs touch %mark%"),
    option("env", "env touch %mark%"),
    option("env -S", "env -S 'touch %mark%'"),
    option("nice", "nice touch %mark%"),
    option("nohup", "nohup touch %mark%"),
    option("timeout", "timeout 5 touch %mark%"),
    option("stdbuf", "stdbuf -o0 touch %mark%"),
    option("setsid", "setsid -w touch %mark%"),
    option("flock", "flock a.txt touch %mark%", A),
    option("watch", "watch -g -n 0.1 '%sh%; date +%N'", is_live=False),
    option("script", "script -qc '%sh%' /dev/null"),
    option("perl -e", "perl -e 'system(\"%sh%\")'"),
    option("perl -pe", "perl -pe '`%sh%`' a.txt", A),
    option("python -c", 'python3 -c "%py%"'),
    option("node -e", 'node -e "%js%"'),
    option("sh -c", "sh -c '%sh%'"),
    option("bash -c", "bash -c '%sh%'"),
    option("vim", "vim -es -c '!%sh%' -c q"),
    option("less", "less +'!%sh%' a.txt", A, is_live=False),
    option("man", "man -P '%sh%' ls", is_live=False),
    option("ssh a proxy", "ssh -oProxyCommand='%sh%' h", is_live=False),
    option("ssh a local command", "ssh -o 'PermitLocalCommand yes' -o 'LocalCommand %sh%' h", is_live=False),
    option("curl -o", "curl -s -o %rules% file://%ws%/a.txt", A),
    option("curl -o in one word", "curl -so%rules% file://%ws%/a.txt", A),
    option("curl -O", "curl -s -O file://%ws%/sub/RAN", {"sub/RAN.x": ""}, is_live=False),
    option("curl a trace", "curl -s --trace %rules% file://%ws%/a.txt", A),
    option("curl heads", "curl -s -D %rules% file://%ws%/a.txt", A),
    option("curl a library's log", "curl -s --libcurl %rules% file://%ws%/a.txt", A),
    option("curl a shortened option", "curl -s --outpu %rules% file://%ws%/a.txt", A, is_live=False),
    option("wget -O", "wget -q -O %rules% http://127.0.0.1:9/", is_live=False),
    option("wget a log", "wget -o %rules% http://127.0.0.1:9/", is_live=False),
    option("wget a program for passwords", "wget --use-askpass=%ws%/x http://u@127.0.0.1:9/", PROGRAM, is_live=False),
    option("make with a target of its own", "make --eval='all:;%sh%' all"),
    option("make SHELL", "make -f a.mk SHELL=%ws%/x", {"a.mk": "all:\n\tls\n", **PROGRAM}),
    option("psql a command", "psql -c '\\! %sh%'", is_live=False),
    option("rsync a shell", "rsync -e '%sh%' h:x y", is_live=False),
    option("split a filter", "split --filter='%sh%' a.txt", A),
    option("dd", "dd if=a.txt of=%rules%", A),
    option("cp", "cp a.txt .git", A, is_live=False),
    option("ed", "ed -s a.txt <<< '!%sh%'", A, is_live=False),
    option("gdb", "gdb -batch -ex 'shell %sh%'", is_live=False),
    option("docker", "docker run -v /:/x i touch /x%mark%", is_live=False),
    option("an interpreter with a version", 'python3.11 -c "%py%"'),
    option("busybox", "busybox touch %mark%", is_live=False),
    option("ld.so", "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch %mark%", is_live=False),
    # names of files that become options
    there("names: tar", "bash:tar *", "tar cf /dev/null *", {"--checkpoint=1": "", "--checkpoint-action=exec=sh x.sh": "", **RUN}),
    there("names: find", "bash:find *", "find *", {"-exec": "", "a.txt": ""}, is_live=False),
    there("names: sort", "bash:sort *", "sort *", {"-oRAN": "", "a.txt": "a\n"}),
    there("names: sed", "bash:sed *", "sed p *", {"-e1eawk 'BEGIN{system(\"sh x.sh\")}'": "", "x.sh": "%sh%\n"}, is_live=False),
    there("names: curl", "bash:curl *", "curl *", {"-Kx.conf": "", "x.conf": "url = file://%ws%/x.conf\noutput = %mark%\n"}),
    there("names: git", "bash:git *", "git grep x *", {"-Osh": "", "x.sh": "%sh% # x\n"}, first=(REPOSITORY,), is_live=False),
    # what all of git can be asked to run
    git("an option that configures", "git -c core.fsmonitor='%sh%; false' status"),
    git("an option that configures from the environment", "git --config-env=core.fsmonitor=X status"),
    git("an alias by an option", "git -c alias.x='!%sh%' x"),
    git("a pager that is opened", "git grep -O'%sh%' one"),
    git("a pager that is opened, in full", "git grep --open-files-in-pager='%sh%' one"),
    git("bisect run", "git bisect run sh -c '%sh%'"),
    git("rebase --exec", "git rebase --exec '%sh%' --root"),
    git("a filter over branches", "git filter-branch -f --tree-filter '%sh%' HEAD"),
    git("a tool by an option", "git difftool -y -x '%sh%' HEAD"),
    git("submodule foreach", "git submodule foreach '%sh%'"),
    git("an upload pack by an option", "git fetch --upload-pack='%sh%;false' %ws%"),
    git("an upload pack of a list", "git ls-remote --upload-pack='%sh%;false' %ws%"),
    git("an upload pack of a clone", "git clone -u '%sh%;false' %ws% sub"),
    git("a receive pack by an option", "git push --receive-pack='%sh%;false' %ws% main"),
    git("an address that runs", "git ls-remote 'ext::sh -c %sh%'"),
    git("a clone of an address that runs", "git clone 'ext::sh -c %sh%' sub"),
    git("a template with hooks", "git init --template=t .", {"t/hooks/post-checkout": "#!/bin/sh\n%sh%\n"}),
    git("a configuration that is set, then used", "git config core.fsmonitor '%sh%;false' && git status"),
    git("an alias that is set, then used", "git config alias.x '!%sh%' && git x"),
    git("a filter that is set, then used", "git config filter.x.clean '%sh%' && git add a.txt", {".gitattributes": "* filter=x\n"}),
    git("a hook by its name", "git hook run pre-commit", {".git/hooks/pre-commit": "#!/bin/sh\n%sh%\n"}),
    git("another place for programs", "git --exec-path=%ws% x", {"git-x": "#!/bin/sh\n%sh%\n"}),
    git("a program of git on the path", "git x", {"git-x": "#!/bin/sh\n%sh%\n"}),
    git("a file of output", "git diff --output=%rules%"),
    git("a file of output of a log", "git log -p --output=%rules%"),
    git("an archive", "git archive -o %rules% HEAD"),
    git("a bundle", "git bundle create %rules% HEAD"),
    git("a patch", "git apply x.patch", {"x.patch": "--- /dev/null\n+++ b/.rules/RAN\n@@ -0,0 +1 @@\n+x\n"}),
    git("a variable before it", "GIT_EXTERNAL_DIFF='%sh%' git diff"),
    git("a variable of hooks", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0='%sh%;false' git status"),
    git("credentials", "git -c credential.helper='!%sh%' credential fill"),
    git("a mail", "git send-email --sendmail-cmd='%sh%' HEAD~1"),
    git("a shell", "git shell -c 'x'"),
    git("a daemon's hook", "git daemon --access-hook=%ws%/x --inetd", PROGRAM),
    git("a maintenance job", "git for-each-repo --config=x.y x"),
)  # fmt: skip
LIVE = live(LINES)


@pytest.mark.parametrize("part", parts(LINES))
async def test_no_line_runs_more_than_its_allowed_program(
    part: Sequence[Escape], tmp_path: Path
) -> None:
    """A pattern for `ls`, or for `tar`, is none for whatever a line makes of it."""
    await play_each(part, tmp_path, check)


@pytest.mark.parametrize("part", parts(LIVE))
async def test_these_lines_are_attacks(part: Sequence[Escape], tmp_path: Path) -> None:
    """A line that does nothing would show nothing by leaving no mark."""
    await play_each(part, tmp_path, check_live)
