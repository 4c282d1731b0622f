"""`web_fetch` and `web_search`: pages of the public Internet, and of what the owner allows."""

from __future__ import annotations

from typing import Final

FETCH: Final = "web_fetch"
SEARCH: Final = "web_search"
