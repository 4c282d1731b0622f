"""The plug-ins that come with Everturn, found through entry points as all others are.

`pyproject.toml` names each of them. Nothing imports these modules but the registry.
"""
