"""The files of a workspace that a call names, or that others run."""
