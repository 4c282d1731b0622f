"""Files below one folder, for tools that are given paths by a model."""

from __future__ import annotations

from everturn_gateway.tools.confined.folder import Confined, make_private
from everturn_gateway.tools.confined.place import TEMPORARY, Place, Version, is_temporary, kind_of

__all__ = ["TEMPORARY", "Confined", "Place", "Version", "is_temporary", "kind_of", "make_private"]
