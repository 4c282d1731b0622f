"""What is pending for people outside: the port of channels, and the worker that calls it.

How a platform sends is the business of `everturn_channels`.
"""
