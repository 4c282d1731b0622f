"""The program that keeps one background process. It imports nothing from outside this folder.

- `folder`: the folder of one background process: what stands in it, and how it is written
- `log`: what a background process prints: kept in pieces, and passed on
- `run`: starts the program that keeps a background process: `python -I -S run.py FOLDER`
- `supervisor_process`: keeps one background process: runs its command, without the gateway and
  beyond its end
- `system`: what the system knows of processes: which there are, since when, and signals to just
  these
"""
