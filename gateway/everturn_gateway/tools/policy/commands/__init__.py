"""Command lines: which commands they run, as far as that can be known before they do.

- `analysis`: a command line as a policy judges it: what may be allowed of it, and what must not be
  missed
- `bash_parser`: tree-sitter's parser of bash
- `git`: what git does with its arguments, and what a repository's configuration makes it run
- `git_state`: what the repositories of a workspace would make git run
- `grammar`: what tree-sitter's grammar of bash sees in a text: every command, however it is nested
- `loose`: splits any text into what may be its commands: nothing is refused, nothing is certain
- `options`: options among the words of a command: what may be one, and what its value is
- `programs`: what known programs do with their arguments: the table behind `bash:` patterns
- `strict`: reads the part of bash that can be allowed by a pattern, and refuses all else
- `targets`: words of a command that name files
- `uses`: what one simple command does with its words, as the table of programs knows it
- `words`: words of a command line: what is fixed in them, and what the shell fills in
- `wrappers`: programs that run what stands behind their name
"""
