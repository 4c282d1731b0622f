"""What the commands do. `cli` reads the command line and imports the one that is called."""
