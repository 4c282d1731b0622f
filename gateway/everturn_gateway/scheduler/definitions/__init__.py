"""Jobs as people and programs write them down: the fields of a file, and the folder of files.

- `job_store`: the folder of job files: read, watched, and written to
- `kept_jobs`: jobs that programs make, kept in a store that several machines open; their files
  mirror it
- `making`: from the section of a file to the job it describes, or to what is wrong with it, by
  field
- `reading`: instants, spans of time and texts, as people write them in a job
- `settings`: a job as it is written: the fields of its YAML, and their way back to a file
- `words`: times in words, as people say them when they make a job: `tomorrow 9:00`, `in 10 minutes`
"""
