"""What a request would cost, asked of the provider by a route of its own, or counted here.

- `contents`: a request in the words of Gemini's own API
- `question`: the question, and how an answer is read
- `tokenizing`: prompts counted here, by the model's own tokenizer
"""

from __future__ import annotations

from everturn_gateway.providers.counting.contents import gemini_question
from everturn_gateway.providers.counting.question import CountQuestion, counted

__all__ = ["CountQuestion", "counted", "gemini_question"]
