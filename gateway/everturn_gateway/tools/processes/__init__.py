"""`background_process`: commands that outlive a call, a turn and the gateway itself.

The program that keeps them loads this package: nothing is imported here.
"""
