"""What happened to each job: the lines of its run log (`lines`, pure) and their files (`files`)."""
