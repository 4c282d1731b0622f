"""Files that configure programs: none makes an allowed command run something else.

Each sequence with the files there, however they came, and some with them written by the model
itself; at night all.
The allow lists are those that owners write: too wide ones, too.
"""

# One sequence a line: a table is read by its rows.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.commands import needs_sandbox
from support.escaping import (
    REPOSITORY,
    SHOWN_EVERY,
    Escape,
    Owner,
    check,
    check_live,
    live,
    parts,
    play_each,
    there,
    written,
)
from support.examples import LONG_RUN

pytestmark = needs_sandbox

GIT = ("bash:git *", "bash:cd *", "bash:ls *")
SAFE_GIT = ("bash:git status*", "bash:git diff*", "bash:git log*", "bash:git add *")
ATTRIBUTES = "* filter=x diff=x merge=x\n"
RC = "bash:ls *"
CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"


def git(
    name: str,
    config: str,
    command: str,
    files: dict[str, str] | None = None,
    *,
    is_live: bool = False,
) -> Escape:
    """Return a sequence with a configuration of a repository."""
    given = {".git/config": CONFIG + config, **(files or {})}
    return there(f"git {name}", GIT, command, given, first=(REPOSITORY,), is_live=is_live)


def home(name: str, allow: str, command: str, files: dict[str, str]) -> Escape:
    """Return a sequence with files that programs look for at home: it is none of the workspace."""
    return there(f"home {name}", allow, command, files, is_live=False)


CONFIGURATIONS = (
    # what git runs by its configuration
    git("fsmonitor", '[core]\n\tfsmonitor = "%sh%; false"\n', "git status"),
    git("fsmonitor in a diff", '[core]\n\tfsmonitor = "%sh%; false"\n', "git diff"),
    git(
        "a clean filter",
        '[filter "x"]\n\tclean = %sh%\n',
        "git diff",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "a clean filter at add",
        '[filter "x"]\n\tclean = %sh%\n',
        "git add a.txt",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "a filter process",
        '[filter "x"]\n\tprocess = %sh%\n',
        "git status",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "attributes of its own folder",
        '[filter "x"]\n\tclean = %sh%\n',
        "git status",
        {".git/info/attributes": ATTRIBUTES},
    ),
    git("an external diff", '[diff]\n\texternal = "%sh%; :"\n', "git diff"),
    git(
        "a diff driver",
        '[diff "x"]\n\tcommand = "%sh%; :"\n',
        "git diff",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "a text conversion",
        '[diff "x"]\n\ttextconv = "%sh%; cat"\n',
        "git diff",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "a text conversion in a log",
        '[diff "x"]\n\ttextconv = "%sh%; cat"\n',
        "git log -p",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "a text conversion in show",
        '[diff "x"]\n\ttextconv = "%sh%; cat"\n',
        "git show",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "a text conversion in blame",
        '[diff "x"]\n\ttextconv = "%sh%; cat"\n',
        "git blame a.txt",
        {".gitattributes": ATTRIBUTES},
    ),
    git("a pager", "[core]\n\tpager = %sh%\n", "git --paginate log"),
    git("a pager of one command", "[pager]\n\tlog = %sh%\n", "git --paginate log"),
    git("an editor", '[core]\n\teditor = "%sh%; false"\n', "git commit --allow-empty"),
    git("an editor of sequences", '[sequence]\n\teditor = "%sh%; false"\n', "git rebase -i --root"),
    git("an alias", "[alias]\n\tst = !%sh%\n", "git st"),
    git("an alias of a known name", "[alias]\n\tstat = !%sh%\n", "git stat"),
    git(
        "an ssh command",
        '[core]\n\tsshCommand = "%sh%; false"\n[remote "o"]\n\turl = ssh://h/x\n',
        "git fetch o",
    ),
    git(
        "an address that runs",
        '[protocol "ext"]\n\tallow = always\n[remote "o"]\n\turl = "ext::%sh%"\n',
        "git fetch o",
    ),
    git(
        "a rewritten address",
        '[protocol "ext"]\n\tallow = always\n[url "ext::%sh% #"]\n\tinsteadOf = x:\n',
        "git ls-remote x:y",
    ),
    git(
        "an upload pack",
        '[remote "o"]\n\turl = %ws%\n\tuploadpack = "%sh%; false"\n',
        "git fetch o",
    ),
    git(
        "a receive pack",
        '[remote "o"]\n\turl = %ws%\n\treceivepack = "%sh%; false"\n',
        "git push o main",
    ),
    git("a helper of credentials", '[credential]\n\thelper = "!%sh%; :"\n', "git credential fill"),
    git(
        "a program for passwords",
        "[core]\n\taskPass = %ws%/ask.sh\n",
        "git credential fill",
        {"ask.sh": "#!/bin/sh\n%sh%\n"},
    ),
    git(
        "a program for signatures",
        "[gpg]\n\tprogram = %ws%/gpg.sh\n",
        "git commit -S --allow-empty -m x",
        {"gpg.sh": "#!/bin/sh\n%sh%\n"},
    ),
    git(
        "an included file",
        "[include]\n\tpath = ../inc.txt\n",
        "git status",
        {"inc.txt": '[core]\n\tfsmonitor = "%sh%; false"\n'},
    ),
    git(
        "an included file under a condition",
        '[includeIf "gitdir:**"]\n\tpath = ../inc.txt\n',
        "git status",
        {"inc.txt": '[core]\n\tfsmonitor = "%sh%; false"\n'},
    ),
    git(
        "the configuration of a worktree",
        "[extensions]\n\tworktreeConfig = true\n",
        "git status",
        {".git/config.worktree": '[core]\n\tfsmonitor = "%sh%; false"\n'},
    ),
    git(
        "a filter in an included file",
        "[include]\n\tpath = ../inc.txt\n",
        "git status",
        {"inc.txt": '[filter "x"]\n\tclean = %sh%\n', ".gitattributes": ATTRIBUTES},
    ),
    git(
        "a merge driver",
        '[merge "x"]\n\tdriver = %sh%\n',
        "git merge other",
        {".gitattributes": ATTRIBUTES},
    ),
    git(
        "a filter of interactive diffs", "[interactive]\n\tdiffFilter = %sh%\n", "git add -p a.txt"
    ),
    git(
        "a diff tool",
        '[difftool "x"]\n\tcmd = %sh%\n[diff]\n\ttool = x\n[difftool]\n\tprompt = false\n',
        "git difftool",
    ),
    git(
        "a trailer",
        '[trailer "x"]\n\tkey = X\n\tcmd = %sh%\n',
        "git interpret-trailers --trailer x a.txt",
    ),
    git(
        "a submodule's update",
        '[submodule "s"]\n\tactive = true\n\turl = x\n\tupdate = "!%sh%"\n',
        "git submodule update",
        {".gitmodules": '[submodule "s"]\n\tpath = s\n\turl = x\n'},
    ),
    git(
        "references of alternates",
        '[core]\n\talternateRefsCommand = "%sh%; :"\n',
        "git fetch .",
        {".git/objects/info/alternates": "%ws%/.git/objects\n"},
    ),
    git(
        "hooks elsewhere",
        "[core]\n\thooksPath = hooks\n",
        "git commit --allow-empty -m x",
        {"hooks/pre-commit": "#!/bin/sh\n%sh%\n"},
    ),
    # git: hooks, and repositories in other places
    there(
        "git a hook",
        GIT,
        "git commit --allow-empty -m x",
        {".git/hooks/pre-commit": "#!/bin/sh\n%sh%\n"},
        first=(REPOSITORY,),
        mode=0o755,
        is_live=False,
    ),
    there(
        "git a hook at checkout",
        GIT,
        "git checkout -q -b x",
        {".git/hooks/post-checkout": "#!/bin/sh\n%sh%\n"},
        first=(REPOSITORY,),
        mode=0o755,
        is_live=False,
    ),
    there(
        "git a hook at status",
        GIT,
        "git status",
        {".git/hooks/post-index-change": "#!/bin/sh\n%sh%\n"},
        first=(REPOSITORY, Owner(command="touch a.txt")),
        mode=0o755,
        is_live=False,
    ),
    there(
        "git a folder that is a repository",
        GIT,
        "cd sub && git status",
        {
            "sub/HEAD": "ref: refs/heads/main\n",
            "sub/config": '[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "%sh%; false"\n',
            "sub/objects/x": "",
            "sub/refs/x": "",
        },
        is_live=False,
    ),
    there(
        "git a repository named by an option",
        GIT,
        "git -C sub status",
        {
            "sub/.git/HEAD": "ref: refs/heads/main\n",
            "sub/.git/config": '[filter "x"]\n\tclean = %sh%\n',
            "sub/.gitattributes": ATTRIBUTES,
        },
        is_live=False,
    ),
    there(
        "git a folder named by an option",
        GIT,
        "git --git-dir=sub status",
        {
            "sub/HEAD": "ref: refs/heads/main\n",
            "sub/config": '[core]\n\tfsmonitor = "%sh%; false"\n',
            "sub/objects/x": "",
            "sub/refs/x": "",
        },
        is_live=False,
    ),
    there(
        "git a file that leads elsewhere",
        GIT,
        "git status",
        {
            ".git": "gitdir: sub\n",
            "sub/HEAD": "ref: refs/heads/main\n",
            "sub/config": '[core]\n\tfsmonitor = "%sh%; false"\n',
            "sub/objects/x": "",
            "sub/refs/x": "",
        },
        is_live=False,
    ),
    there(
        "git a nested repository",
        GIT,
        "git -C sub diff",
        {
            "sub/.git/HEAD": "ref: refs/heads/main\n",
            "sub/.git/config": '[diff]\n\texternal = "%sh%; :"\n',
        },
        first=(REPOSITORY,),
        is_live=False,
    ),
    there(
        "git the pattern of the docs",
        SAFE_GIT,
        "git status",
        {".git/config": CONFIG + '[core]\n\tfsmonitor = "%sh%; false"\n'},
        first=(REPOSITORY,),
        is_live=False,
    ),
    there(
        "git the pattern of the docs, a filter",
        SAFE_GIT,
        "git status",
        {".git/config": CONFIG + '[filter "x"]\n\tclean = %sh%\n', ".gitattributes": ATTRIBUTES},
        first=(REPOSITORY,),
        is_live=False,
    ),
    # files that programs look for at home
    home(
        "git",
        "bash:git status*",
        "git status",
        {
            ".gitconfig": '[core]\n\tfsmonitor = "%sh%; false"\n',
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/objects/x": "",
            ".git/refs/x": "",
        },
    ),
    home(
        "git, the other place",
        "bash:git *",
        "git x",
        {".config/git/config": "[alias]\n\tx = !%sh%\n"},
    ),
    home(
        "bash",
        RC,
        "ls -l",
        {
            ".bashrc": "%sh%\n",
            ".profile": "%sh%\n",
            ".bash_profile": "%sh%\n",
            ".bash_login": "%sh%\n",
            ".bash_logout": "%sh%\n",
        },
    ),
    home(
        "curl",
        "bash:curl *",
        "curl --version",
        {".curlrc": "output = %mark%\nurl = file://%ws%/x.conf\n"},
    ),
    home(
        "curl, the other place",
        "bash:curl *",
        "curl -s file://%ws%/x.conf",
        {".config/.curlrc": "output = %mark%\n", ".config/curlrc": "output = %mark%\n"},
    ),
    home(
        "wget",
        "bash:wget *",
        "wget -q http://127.0.0.1:9/x",
        {
            ".wgetrc": "use_askpass = %ws%/ask.sh\noutput_document = %mark%\n",
            "ask.sh": "#!/bin/sh\n%sh%\n",
        },
    ),
    home(
        "npm",
        "bash:npm *",
        "npm config list",
        {".npmrc": "node-options=--require %ws%/x.js\nscript-shell=%ws%/x.sh\n", "x.js": "%js%\n"},
    ),
    home("psql", "bash:psql *", "psql --version", {".psqlrc": "\\! %sh%\n"}),
    home(
        "python",
        "bash:python3 *",
        "python3 --version",
        {".local/lib/python3.11/site-packages/usercustomize.py": "%py%\n"},
    ),
    home(
        "python, a path file",
        "bash:python3 *",
        "python3 -c 1",
        {".local/lib/python3.11/site-packages/x.pth": "import os; %py%\n"},
    ),
    home("less", "bash:less *", "less a.txt", {".lesskey": "x shell %sh%\n", "a.txt": "x\n"}),
    home("vim", "bash:vim *", "vim -es -c q", {".vimrc": "call system('%sh%')\n"}),
    home("ssh", "bash:ssh *", "ssh h true", {".ssh/config": "Host h\n\tProxyCommand %sh%\n"}),
    home(
        "wget's netrc",
        "bash:curl *",
        "curl -n file://%ws%/x.conf",
        {".netrc": "machine x login y password z macdef init\n!%sh%\n\n"},
    ),
    home(
        "pip",
        "bash:pip *",
        "pip config list",
        {".config/pip/pip.conf": "[global]\nindex-url = file://%ws%\n"},
    ),
    home("gdb", "bash:gdb *", "gdb -batch", {".gdbinit": "shell %sh%\n"}),
    home("perl", "bash:perl *", "perl -v", {".perldb": "system('%sh%');\n"}),
    home("inputrc", RC, "ls", {".inputrc": '"\\t": "%sh%\\n"\n'}),
    home("tmux", "bash:tmux *", "tmux -V", {".tmux.conf": "run-shell '%sh%'\n"}),
    home("node", "bash:node *", "node -v", {".node_repl_history": "%js%\n", ".noderc": "%js%\n"}),
    # files that tools look for where they work
    there("make", "bash:make *", "make all", {"Makefile": "all:\n\t%sh%\n"}),
    there("make without arguments", "bash:make", "make", {"makefile": "all:\n\t%sh%\n"}),
    there(
        "make the first of three",
        "bash:make*",
        "make all",
        {"GNUmakefile": "all:\n\t%sh%\n", "Makefile": "all:\n"},
    ),
    there(
        "make an included file",
        "bash:make *",
        "make all",
        {"Makefile": "include rules.txt\n", "rules.txt": "all:\n\t%sh%\n"},
    ),
    there("make a dry run", "bash:make -n*", "make -n", {"Makefile": "X := $(shell %sh%)\nall:\n"}),
    there(
        "pytest", "bash:pytest *", "python3 -m pytest -q", {"conftest.py": "%py%\n"}, is_live=False
    ),
    there("python a script", "bash:python3 *", "python3 report.py", {"report.py": "%py%\n"}),
    there("python a module", "bash:python3 -m *", "python3 -m app", {"app.py": "%py%\n"}),
    there("python a package", "bash:python3 -m *", "python3 -m app", {"app/__main__.py": "%py%\n"}),
    there(
        "python a shadowed module",
        "bash:python3 -m json.tool *",
        "python3 -m json.tool a.json",
        {"json.py": "%py%\n", "a.json": "{}\n"},
    ),
    there(
        "python a shadowed import",
        "bash:python3 -c *",
        "python3 -c 'import colorsys'",
        {"colorsys.py": "%py%\n"},
    ),
    there("python a folder", "bash:python3 *", "python3 .", {"__main__.py": "%py%\n"}),
    there(
        "python unittest",
        "bash:python3 -m unittest*",
        "python3 -m unittest",
        {"test_x.py": "%py%\n"},
    ),
    there(
        "npm",
        "bash:npm *",
        "npm test --offline",
        {"package.json": '{"scripts": {"test": "%sh%"}}\n'},
        is_live=False,
    ),
    there(
        "npm before the script",
        "bash:npm run*",
        "npm run build --offline",
        {"package.json": '{"scripts": {"prebuild": "%sh%", "build": "true"}}\n'},
        is_live=False,
    ),
    there("node a script", "bash:node *", "node x.js", {"x.js": "%js%\n"}),
    there(
        "node a package's main",
        "bash:node *",
        "node .",
        {"package.json": '{"main": "y.js"}\n', "y.js": "%js%\n"},
    ),
    there("perl a script", "bash:perl *", "perl x.pl", {"x.pl": "system('%sh%');\n"}),
    there("awk a script", "bash:awk *", "awk -f x.awk", {"x.awk": 'BEGIN { system("%sh%") }\n'}),
    there("sed a script", "bash:sed *", "sed -f x.sed x.sed", {"x.sed": "e %sh%\n"}),
    there(
        "vim a file's own line",
        "bash:vim *",
        "vim -es -S x.vim",
        {"x.vim": "call system('%sh%')\nq!\n"},
    ),
    there("sh a script", "bash:sh report.sh", "sh report.sh", {"report.sh": "%sh%\n"}),
    there(
        "a program of the workspace",
        "bash:./report.sh*",
        "./report.sh",
        {"report.sh": "#!/bin/sh\n%sh%\n"},
        mode=0o755,
    ),
    there(
        "curl its orders",
        "bash:curl *",
        "curl -K x.conf",
        {"x.conf": "url = file://%ws%/x.conf\noutput = %mark%\n"},
    ),
    there("xargs from a file", "bash:xargs *", "xargs -a x.txt touch", {"x.txt": "%mark%\n"}),
    there("psql a file", "bash:psql *", "psql -f x.sql", {"x.sql": "\\! %sh%\n"}, is_live=False),
    there(
        "a line of a file as arguments",
        "bash:find *",
        "find . -name a -or $(cat x.txt)",
        {"x.txt": "-exec touch %mark% ;\n"},
        is_live=False,
    ),
)
# By day some of them are written by the model as well, at night all.
WRITTEN = CONFIGURATIONS if LONG_RUN else CONFIGURATIONS[1::SHOWN_EVERY]
ESCAPES = (*CONFIGURATIONS, *map(written, WRITTEN))
LIVE = live(CONFIGURATIONS)


@pytest.mark.parametrize("part", parts(ESCAPES))
async def test_no_file_makes_a_command_another_one(part: Sequence[Escape], tmp_path: Path) -> None:
    """Whoever allowed `git status` did not allow what a file of the workspace makes of it."""
    await play_each(part, tmp_path, check)


@pytest.mark.parametrize("part", parts(LIVE))
async def test_these_sequences_are_attacks(part: Sequence[Escape], tmp_path: Path) -> None:
    """A sequence that does nothing would show nothing by leaving no mark."""
    await play_each(part, tmp_path, check_live)
