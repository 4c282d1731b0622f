"""Jobs as people and programs write them down: the fields of a file, and the folder of files."""
