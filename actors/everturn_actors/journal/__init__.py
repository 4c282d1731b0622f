"""Where sessions are kept: on disk (`files`), or in memory for tests and passing turns (`memory`).

Small values beside them live in `keyed`.

Only the composition root chooses between them; everything else knows `ports.SessionStore` and
`ports.KeyedStore`.

- `commit`: one batch of the writer: write every log, then sync every log
- `compaction`: saving a snapshot, and letting go of the log behind it
- `disk`: writing files so that they survive a crash of the machine
- `handles`: one handle for each session in use: its files, who is at it, and what is known of them
- `health`: whether the workspace can be written: learnt from what failed, and tried out where in
  doubt
- `loading`: loading one session: snapshot, log, archive, and what is set right on the way
- `lock`: the lock that keeps a second process out of a workspace
- `opening`: a workspace on disk: taken, kept by one process, given back
- `operations`: what is done to the files of one session, in a thread
- `places`: a limit on how many do something at a time
- `results`: what is too large for the log: one file each, in a folder of the session
- `writer`: group commit: the one thread through which everything is appended
- `doctor/`: looks what is wrong with the files of sessions, and rebuilds them from what is good
- `files/`: the file store: plain files in a workspace, one folder for each session
- `index/`: which sessions there are, without reading them all
- `keyed/`: small values by key: in files of the workspace (`files`), or in memory (`memory`)
- `log/`: the log of a session: lines, files, archives, and where they lie
- `memory/`: a store in memory, with the semantics of the one on disk; its disk can be made to fail
- `snapshot/`: `state.yaml`: a session's state as people read it, written and read back
"""
