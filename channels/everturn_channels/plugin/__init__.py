"""Channels that are programs of their own: lines of JSON on standard input and output."""
