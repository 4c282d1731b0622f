"""Models: remote ones behind their APIs, the embedded one, and two that are none.

- `adaptive`: one model behind an API, asked in the manner that it takes: what all formats have in
  common
- `builtin`: the responder that needs nothing: no key, no network, no weights, and no model
- `catalog`: which providers there are, and how an agent's `spec.model` becomes one of them
- `connected`: the providers behind connections and processes, and what they share
- `errors`: errors of the providers that the operator has to act on
- `fallbacks`: a model that is out of reach is replaced by the next one its agent names, and left
  alone a while
- `inquiry`: asking a provider, after the first call to a model, how large its window is
- `key_rings`: several keys of one provider: one is used until it is refused or limited, then
  the next
- `keys`: keys from files, for those who do not want them in the environment
- `limits`: how many calls a provider gets at the same time; the others wait for their place
- `openai_compatible`: streaming chat completions of OpenAI and of everything that speaks its format
- `passing_on`: passes requests that no agent answers on to a provider: embeddings, speech,
  transcriptions
- `scripted`: replays replies from a file, for tests and demos
- `servers`: finds model servers on this machine, and asks any server which models it has
- `anthropic/`: Claude, by Anthropic's own Messages API
- `counting/`: what a request would cost, asked of the provider by a route of its own
- `local/`: the small local model: its weights, its server, and the provider that asks it
- `ollama/`: models that Ollama runs, by its own API
- `transport/`: what the providers share: connections, streams, and the pieces of requests and
  replies
"""

from __future__ import annotations

from everturn_gateway.providers.catalog import Providers, open_providers
from everturn_gateway.providers.errors import ProviderConfigError, WeightsError

__all__ = ["ProviderConfigError", "Providers", "WeightsError", "open_providers"]
