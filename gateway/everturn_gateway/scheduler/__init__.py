"""Scheduled jobs: what they are, when they are due, and that each run runs once.

- `admission`: whether a new job may be: what could not run is refused, with the field and the
  reason
- `client`: what can be asked of the scheduler
- `definition_reload`: job definitions that change while the gateway runs: taken over, or read again
  later
- `dispatcher`: which job is looked at when: what is due runs, what is too late is passed over
- `errors`: errors of the scheduler
- `housekeeping`: what is put away and forgotten of jobs that are over
- `job_changes`: which jobs changed, for whoever shows a list of them: names, and never a queue
- `job_registry`: which jobs there are, and how far each is: definitions from all sources, and their
  run logs
- `job_runner`: runs one run of a job: says its message, or lets the agent work on its task
- `jobs`: what a scheduled job is, and what became of its runs
- `places`: how files are named to those who must not know where this machine keeps them
- `run_attempts`: one run, tried until it is done or given up
- `scheduler`: the scheduler: when each job is due, and that every run runs once
- `schemas`: how jobs are shown to programs: over HTTP, and to the command line on either of its
  ways
- `definitions/`: jobs as people and programs write them down: the fields of a file, and the folder
  of files
- `rules/`: when a job is due, and what its runs were
- `run_logs/`: what happened to each job: the lines of its run log (`lines`, pure) and their files
  (`files`)
- `sharing/`: scheduled jobs of several gateways that share a store: one runs, all show and change
  them
"""
