"""The program that keeps one background process. It imports nothing from outside this folder."""
