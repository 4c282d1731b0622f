"""What a command sees, may do and may use up: the sandbox, or another user.

- `environment`: what a command finds in its environment
- `filters`: what a confined command may ask of the kernel, as a filter for seccomp
- `hiding`: which places no confined command sees, though they lie in a folder that is shown
- `mounts`: what a confined command sees, place by place, and how bubblewrap is told
- `run_as`: commands without a sandbox, as another user: `sandbox: plain` with `run_as`
- `sandbox`: confines the commands of an agent with bubblewrap, or runs them plainly where that was
  chosen
- `system`: what of this machine every confined command sees: programs, and what a C library reads
- `view`: what a command of an agent finds in its sandbox
- `warden`: starts one confined command, holds it to its limits, and ends it where it exceeds them
"""
