"""What known programs do with their arguments: the table behind `bash:` patterns. Pure.

A command is a program, what configures it, and the files that it names. A pattern of the policy
speaks of the words of a command alone, so it may allow only what these words decide:

- *plain*: the program reads its arguments and no configuration that runs anything;
- *guarded*: its configuration runs programs, but is forced by the environment (`shell.environment`)
  or looked at before the command runs (`git`);
- *code*: it runs what stands in files, or what its arguments hold as a text: interpreters, build
  tools, test runners, package managers, shells, what unpacks archives. Only `code:` allows it;
- *unknown*: not in this table.

Options that turn a plain program into a runner stand beside it. Names are those of Linux and macOS.
Sources: the manuals of GNU coreutils 9.1, findutils 4.9, sed 4.8, tar 1.34, curl 7.88, ripgrep 13,
bash 5.2; gtfobins.github.io (read 2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.tools.policy.commands.wrappers import WRAPPERS

Kind: TypeAlias = Literal["plain", "guarded", "code", "unknown"]
Operands: TypeAlias = Literal["", "all", "last", "second"]


class Program(Struct, frozen=True, kw_only=True):
    """One program of the table."""

    kind: Kind
    why: str = ""
    "code: what it does, to stand behind its name."
    runs: tuple[str, ...] = ()
    """Options with which it runs a program, takes orders from a file, or writes where its words do
    not say. Of a long option any beginning counts, as programs take it; `-exec` is a long option of
    one dash, and counts only whole."""
    writes: tuple[str, ...] = ()
    "Options whose value names a file that it writes."
    takes: str = ""
    "Short options with a value; what follows one in the same word is not read as options."
    writes_to: Operands = ""
    "Which words that are no options name files that it writes, removes or moves."
    copies: bool = False
    "Whether the last such word gets the content of those before, or a folder gets them by name."
    check: str = ""
    "Which rules of their own look at its arguments (`uses`)."


_FILES: Final = "runs what stands in files"
_TEXT: Final = "runs code that its arguments, its input or files hold"
_BUILD: Final = "builds or tests by what files of the folder say"
_PACKAGES: Final = "installs and runs packages, by what files of the folder say"
_OTHERS: Final = "runs other programs"
_SHELL: Final = "changes what the shell does with the commands behind it"
_UNPACKS: Final = "writes files whose names the command does not say"
_OPENS: Final = "can open an editor, a shell or another program"
_DATABASE: Final = "runs statements, which can run programs and write files"
_RIGHTS: Final = "makes files that can be run, or changes whose they are"

_CODE: Final[Mapping[str, str]] = MappingProxyType(
    {
        _TEXT: """
            python pypy ipython bpython jupyter jupyter-notebook jupyter-lab node nodejs deno bun
            ts-node tsx ruby irb jruby perl perl6 raku php lua luajit tclsh wish expect guile
            racket sbcl clisp ecl clojure clj bb lein groovy scala scala-cli kotlin kotlinc jshell
            java julia R Rscript octave matlab maxima gap ghci runghc runhaskell stack cabal ocaml
            utop swipl prolog erl escript iex elixir awk gawk mawk nawk bc dc m4 gnuplot osascript
            powershell pwsh nu elvish dart crystal nim nimble swift zig v wasmtime wasmer xonsh hy
            emacs emacsclient gdb lldb pdb bpftrace stap dtrace csh tcsh fish ksh mksh rbash ash
            dash zsh sh bash busybox toybox scheme gsi gosh chez applescript vbs cscript wscript
            qjs d8 js jsc rhino osh ysh jq-repl duktape yaegi goja gore posh yash es rc sash slsh
            jjs jrunscript pry nroff groff troff tbl eqn pic soelim zsoelim gforth newlisp picolisp
            jimsh
            """,
        _BUILD: """
            make gmake bmake cmake ctest cpack ninja meson scons waf bazel bazelisk buck buck2
            pants please ant mvn mvnw gradle gradlew sbt mill rake rspec minitest bundle bundler
            just task mage invoke fab doit tox nox pytest py.test unittest nose2 nosetests coverage
            hypothesis mutmut pre-commit ruff-lsp ruff mypy dmypy pylint flake8 isort black bandit
            pyright basedpyright sphinx-build mkdocs cargo rustc rustup rustfmt go gofmt gcc g++ cc
            c++ clang clang++ cpp tcc ld gold lld as nasm ar gfortran gnat dmd ldc2 ghc fpc javac
            msbuild dotnet xbuild mono csc fsc jest mocha vitest karma ava tap cypress playwright
            nyc c8 eslint prettier stylelint tsc swc esbuild rollup webpack webpack-cli vite parcel
            gulp grunt turbo nx lerna rush grunt-cli babel next nuxt astro gatsby hexo jekyll hugo
            eleventy storybook ng vue-cli-service react-scripts autoconf automake autoreconf
            aclocal libtool libtoolize configure autogen.sh xcodebuild xcrun phpunit pest composer
            artisan drush symfony behat psalm phpstan mix rebar rebar3 latex pdflatex xelatex
            lualatex tex pdftex luatex latexmk bibtex biber makeindex context pandoc quarto dvips
            ghostscript gs convert magick mogrify montage identify ffmpeg terraform tofu terragrunt
            packer vagrant ansible ansible-playbook ansible-galaxy puppet chef salt pulumi
            serverless sam cdk helm helmfile kustomize skaffold tilt flux argocd docker
            docker-compose podman podman-compose buildah nerdctl kubectl oc minikube kind k3s ctr
            snakemake nextflow cwltool luigi airflow dvc dbt prefect dagster
            """,
        _PACKAGES: """
            npm npx pnpm pnpx yarn bunx corepack nvm fnm volta pip pipx uv uvx poetry pdm hatch
            pipenv conda mamba micromamba easy_install virtualenv pyenv rbenv asdf mise direnv gem
            bower cpan cpanm luarocks apt apt-get aptitude dpkg rpm yum dnf zypper pacman apk brew
            port snap flatpak nix nix-shell nix-build nix-env guix emerge opam stack conan vcpkg
            go-task deb-get
            """,
        _FILES: """
            foreman honcho supervisord supervisorctl overmind hivemind pm2 nodemon watchexec
            procfile uvicorn gunicorn hypercorn daphne flask django-admin manage.py celery rq
            streamlit gradio crontab systemctl systemd service launchctl init rc-service at batch
            atd anacron ld.so ldd ld-linux.so ld-linux-x86-64.so patch ed ex red sqlite-utils
            run-parts dpkg-buildpackage rpmbuild debuild makepkg git-lfs hg svn bzr fossil cvs jj
            sl
            """,
        _OPENS: """
            vi vim nvim view vimdiff rvim rview nano pico emacs joe micro helix hx kak mcedit mc
            ranger nnn less more most pg man info lynx w3m links elinks browse www-browser
            sensible-browser xdg-open sensible-editor sensible-pager editor pager open start mutt
            neomutt mail mailx nmh fzf sk screen tmux zellij dialog whiptail top htop
            """,
        _DATABASE: """
            psql pgcli mysql mariadb mycli sqlite3 sqlite litecli duckdb redis-cli mongo mongosh
            clickhouse clickhouse-client cqlsh sqlplus isql usql pg_dump pg_restore mysqldump
            """,
        _UNPACKS: """
            cpio pax unzip unar unrar rar 7z 7za 7zr zip jar ar bsdtar shar uudecode gunzip gzip
            bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd lz4 compress uncompress pigz brotli split
            csplit rsync scp sftp rclone wget aria2c git-annex ftp lftp tftp yt-dlp youtube-dl
            httrack restic borg duplicity debugfs mkisofs xorriso
            """,
        _RIGHTS: "chmod chown chgrp install setfacl setcap setfattr chattr chcon visudo",
        _OTHERS: """
            socat nc ncat netcat inotifywait watchman entr expect dbus-send gdbus busctl gsettings
            xdotool wmctrl screen nsenter runc crun capsh newgrp sg pkexec unshare ip openvpn
            tcpdump nmap openssl gpg gpg2 gpgsm pass ssh-keygen ssh-add ssh-copy-id git-shell
            run-one parallel-ssh pssh start-stop-daemon daemonize logrotate update-alternatives
            choom dmesg mount umount losetup aa-exec ab alpine agetty batcat bat byebug c89 c99
            certbot check_by_ssh cobc cowsay cowthink crash csvtool distcc dmsetup dosbox dstat eb
            enscript facter fping gcloud gcore genie genisoimage gimp ginsh grc gtester hping3
            iftop journalctl knife ksu ldconfig loginctl logsave lwp-download lwp-request minicom
            mosquitto msfconsole msgfilter msgattrib multitime ncdu ncftp neofetch nginx openvt
            opkg perf perlbug pidstat pkg psftp rlogin rtorrent run-mailcap scanmem smbclient
            socket softlimit setlock sqlmap sshpass sysctl tasksh tdbtool tic timedatectl tmate
            torify tshark unsquashfs virsh vigr vipw volatility xdg-user-dir zathura
            """,
        _SHELL: """
            . alias bind builtin command compgen complete compopt coproc declare enable eval exec
            export fc getopts hash history let local logout mapfile popd pushd read readarray
            readonly return set shift shopt source suspend trap typeset unset
            """,
    }
)  # fmt: skip

_PLAIN: Final = """
    ls dir vdir cat tac nl head tail wc cut paste tr fold fmt expand unexpand comm join cksum
    md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum sum shasum base64 base32 basename
    dirname realpath readlink pwd echo true false date cal uname hostname id whoami groups who w
    uptime arch nproc tty seq sleep yes factor expr numfmt stat du df free ps printenv cmp diff od
    hexdump strings file grep egrep fgrep rev column look which type tsort getconf locale jq : exit
    kill times break continue help dirs ulimit umask sync zcat bzcat xzcat zstdcat lz4cat pdfinfo
    pdffonts colrm pidof pgrep lsof lscpu lsblk vmstat iostat nslookup dig host ping
"""


_plain: Final = partial(Program, kind="plain")
_BACKUPS: Final = ("-S", "--suffix", "-b", "--backup")
"They write a second file, whose name is put together."
_INTO: Final = ("-t", "--target-directory")

_WITH_OPTIONS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "git": Program(kind="guarded"),
        "cd": _plain(check="cd"),
        "sed": _plain(check="sed", runs=("-f", "--file"), takes="eEl"),
        "tar": _plain(check="tar"),
        "dd": _plain(check="dd"),
        "find": _plain(
            runs=(
                "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
                "-fls", "-files0-from",
            )
        ),
        "fd": _plain(runs=("-x", "-X", "--exec", "--exec-batch"), takes="edEtSog"),
        "fdfind": _plain(runs=("-x", "-X", "--exec", "--exec-batch"), takes="edEtSog"),
        "rg": _plain(runs=("--pre", "--hostname-bin", "-z", "--search-zip"), takes="efgtTABCmjEM"),
        "sort": _plain(
            runs=("--compress-program", "--files0-from"), writes=("-o", "--output"), takes="kStT"
        ),
        "test": _plain(runs=("-v", "-R")),
        "[": _plain(runs=("-v", "-R")),
        "printf": _plain(runs=("-v",)),
        "wait": _plain(runs=("-p",)),
        "date": _plain(runs=("-s", "--set"), takes="dfrI"),
        "hostname": _plain(runs=("-F", "--file", "-b", "--boot")),
        "jobs": _plain(runs=("-x",)),
        "diff3": _plain(runs=("--diff-program",), takes="L"),
        "sdiff": _plain(runs=("--diff-program",), writes=("-o", "--output"), takes="Iw"),
        "file": _plain(runs=("-C", "--compile", "-m", "--magic-file"), takes="eFfP"),
        "uniq": _plain(writes_to="second", takes="fsw"),
        "xxd": _plain(writes_to="second", takes="cglosn"),
        "pdftotext": _plain(writes_to="second"),
        "iconv": _plain(writes=("-o", "--output"), takes="ft"),
        "shuf": _plain(writes=("-o", "--output"), takes="in"),
        "tree": _plain(writes=("-o",), takes="LPI"),
        "ptx": _plain(writes_to="second"),
        "mktemp": _plain(writes_to="all", takes="p", writes=("-p", "--tmpdir")),
        "tee": _plain(writes_to="all"),
        "touch": _plain(writes_to="all", takes="drt"),
        "truncate": _plain(writes_to="all", takes="sr"),
        "mkdir": _plain(writes_to="all", runs=("-m", "--mode"), takes=""),
        "mkfifo": _plain(writes_to="all", runs=("-m", "--mode")),
        "rmdir": _plain(writes_to="all"),
        "rm": _plain(writes_to="all"),
        "unlink": _plain(writes_to="all"),
        "shred": _plain(writes_to="all", runs=("--random-source",), takes="ns"),
        "link": _plain(writes_to="all"),
        "ln": _plain(writes_to="all", copies=True, check="ln", runs=_BACKUPS, writes=_INTO),
        "mv": _plain(writes_to="all", copies=True, runs=_BACKUPS, writes=_INTO),
        "cp": _plain(
            writes_to="last",
            copies=True,
            runs=(*_BACKUPS, "-l", "--link", "-s", "--symbolic-link", "--parents"),
            writes=_INTO,
        ),
        "curl": _plain(
            runs=(
                "-K", "--config", "-O", "--remote-name", "--remote-name-all", "-J",
                "--remote-header-name", "--output-dir", "--engine", "--libcurl", "-T",
                "--upload-file", "-w", "--write-out",
            ),
            writes=(
                "-o", "--output", "-c", "--cookie-jar", "-D", "--dump-header", "--trace",
                "--trace-ascii", "--stderr", "--etag-save", "--hsts", "--alt-svc", "--ssl-sessions",
            ),
            takes="AbCdeEFhHmPQruUxXyYz",
            check="curl",
        ),
        "ssh": _plain(
            runs=("-o", "-F", "-I", "-S", "-E", "-J", "-W", "-w", "-O", "-D", "-L", "-R"),
            takes="bceilmpQB",
        ),
    }
)  # fmt: skip

_NAMED: Final[Mapping[str, Program]] = MappingProxyType(
    {
        **{name: Program(kind="code", why=_OTHERS) for name in WRAPPERS},
        **{
            name: Program(kind="code", why=why)
            for why, names in _CODE.items()
            for name in names.split()
        },
        **{name: Program(kind="plain") for name in _PLAIN.split()},
        **_WITH_OPTIONS,
    }
)
PROGRAMS: Final = _NAMED
"The table: every known program by its name."

UNKNOWN: Final = Program(kind="unknown")
_INTERPRETERS: Final = frozenset((*_CODE[_TEXT].split(), "gcc", "cc", "clang", "ld"))
"Known also by a part of a longer name: `perl5.36-x86_64-linux-gnu`, `x86_64-linux-gnu-gcc-12`."
_PARTS: Final = late_pattern(r"[-_.]")
_VERSION: Final = late_pattern(r"(?<=[A-Za-z+])(?:[-_.]?\d[\d.]*\w{0,2})$", re.ASCII)


def look_up(name: str) -> Program:
    """Return what is known of the program that a command's first word names.

    A path counts by its last part, and a version at the end does not count: `/usr/bin/python3.11`
    is `python`. Letters are compared as they are, and small, for file systems that do not tell. An
    interpreter counts by a part of a longer name.
    """
    last = name.rpartition("/")[2]
    for each in (last, last.casefold()):
        for known in (each, _VERSION.sub("", each), each.removesuffix(".exe")):
            if known in PROGRAMS:
                return PROGRAMS[known]
    for part in _PARTS.split(last.casefold()):
        if (known := _VERSION.sub("", part)) in _INTERPRETERS:
            return PROGRAMS[known]
    return UNKNOWN
