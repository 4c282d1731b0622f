"""`background_process`: commands that outlive a call, a turn and the gateway itself.

The program that keeps them loads this package: nothing is imported here.

- `arguments`: what a call of `background_process` may say, and the keys it may press
- `files`: the text from outside that is behind a process: in files that it opens, and those it
  changes
- `follower`: follows processes to their end, and tells their conversations of it and of still
  screens
- `leftovers`: ends what a process left behind when its supervisor process was killed
- `notifications`: tells conversations of their processes, each thing once: an end, a screen that
  stands still
- `output`: reads what a process printed, as text for a model
- `plugin`: the plug-in `background_process`
- `process`: one process as the gateway holds it: its record, the lines to its supervisor, and its
  end
- `records`: what is kept of a process, and the folder it is kept in
- `table`: all background processes of a gateway: started, followed to their end, told of, kept for
  a while
- `texts`: what is said of a process, to the model and to people
- `tmux`: terminals for interactive processes: tmux sessions on a server of the gateway's own
- `tool`: `background_process`: commands that go on while the conversation does
- `supervisor/`: the program that keeps one background process
"""
