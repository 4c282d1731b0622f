"""What commands share: options, settings, errors, and how they print and ask.

- `crash`: where the traceback of an unexpected error is kept, so that a person need not read it
- `errors`: how errors end a command: one line a person can act on, and an exit code
- `extras`: commands that need the package of an extra
- `finding`: finds the gateway that serves a workspace, by the note that it has left there
- `moments`: instants for people at a terminal: by this machine's clock, with the name of its zone
- `options`: what every command can be told on the command line
- `printing`: writes to stdout what others may have written: for people and for programs, never for
  a terminal
- `progress`: shows a person how far something is that takes a while
- `questions`: questions to a person at a terminal; nobody else is asked anything
- `running`: the note that a running gateway leaves in its workspace, so that other commands find it
- `screens`: the screen of stdout
- `settings`: the configuration of a command, its log, and its event loop
- `tables`: tables for people, which stay whole when a program reads them
"""
