"""`web_fetch` and `web_search`: pages of the public Internet, and of what the owner allows.

- `addresses`: which IP addresses belong to the public Internet, and which others an owner allows
- `converter`: turns the bytes of one web page into text
- `converting`: has web pages turned into text by a process of its own, see `converter`
- `fetch_tool`: `web_fetch`: what the model is told of it, and what becomes of a call
- `fetching`: fetches one page over HTTP, from checked addresses alone
- `late_posting`: loads what posts to webhooks with the first result that goes to one: it brings an
  HTTP client
- `plugin`: the plug-in `web`, also called `web_fetch` and `web_search`, which give one of its tools
  each
- `posting`: posts results of scheduled jobs to addresses that their owners named; implements
  `Poster`
- `reaching`: from the host of a URL to the addresses that may be connected to
- `search_apis`: the search providers: what each is asked, and how its answer is read
- `search_tool`: `web_search`: what the model is told of it, and what becomes of a call
- `searching`: asks a search provider over HTTP
- `tools`: the web tools of one agent
- `values`: what a fetch gives: values, and the error that is told to the model
"""

from __future__ import annotations

from typing import Final

FETCH: Final = "web_fetch"
SEARCH: Final = "web_search"
