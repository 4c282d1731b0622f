"""When a job is due, and what its runs were. Pure.

- `cron`: when wall clocks show what
- `job_state`: which of the jobs that are defined can run, and why others cannot
- `records`: what can happen to a job, and what follows from it
- `rules`: when jobs are due, and what becomes of the instants that passed
- `spans`: stretches of time, and what is left of them
- `timetable`: wakes whoever is due: one sleeping task and a heap, whatever the number of entries
"""
