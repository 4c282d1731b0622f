"""The responder that needs nothing: no key, no network, no weights, and no model.

It works on what it is given and nothing else, so the same request always gets the same reply. It
is not a language model and says so. Plain wishes it fulfils with the tools that it is offered.
"""

from everturn_gateway.providers.builtin.responder import (
    MODEL_NAME,
    BuiltinResponder,
    reply_to,
    words,
)
from everturn_gateway.providers.builtin.talk import HELP, WHAT_IT_IS, answer

__all__ = ["HELP", "MODEL_NAME", "WHAT_IT_IS", "BuiltinResponder", "answer", "reply_to", "words"]
