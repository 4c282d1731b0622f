"""The HTTP surface: routes over the entry point, access, limits, and the server that listens."""

from pydantic import BaseModel

# FastAPI makes validators for the whole of OpenAPI when it is imported, which takes 50 ms of each
# start. Only who asks for the document needs them; they are made then.
BaseModel.model_config["defer_build"] = True
try:
    import fastapi  # noqa: F401 - for what it does when it is imported
finally:
    del BaseModel.model_config["defer_build"]
