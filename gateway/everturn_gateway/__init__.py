"""The program: configuration, agents, models, HTTP and the command line around the core."""
