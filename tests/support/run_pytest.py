"""`pytest` as a program, for `warm_start.python_command`: a test that a reader of a page runs."""

import sys

import pytest

if __name__ == "__main__":
    sys.path[0] = ""  # as the command has it: the folder that it is run in comes by its root
    sys.exit(pytest.main(sys.argv[1:]))
