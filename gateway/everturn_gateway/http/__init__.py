"""The HTTP surface: routes over the entry point, access, limits, and the server that listens."""

from importlib import import_module

from pydantic import BaseModel

# FastAPI makes validators for the whole of OpenAPI when it is imported, which takes 50 ms of each
# start. Only who asks for the document needs them; they are made then.
BaseModel.model_config["defer_build"] = True
try:
    import_module("fastapi")
finally:
    del BaseModel.model_config["defer_build"]
