"""The OpenAI-compatible requests and answers.

- `answer`: writes chat completions as OpenAI's clients read them
- `approvals`: calls that wait for a person: asked about in an answer, and answered by a message
- `call_ids`: ids of calls that a client runs, by which it names the turn that waits
- `client_headers`: the headers by which clients of OpenAI's API name their conversations
- `pages`: the chats of pages that keep a history of their own, and send all of it with each message
- `parameters`: what a chat completion request asks of the model beside its messages
- `passed_on`: routes of OpenAI's API that are no agent's work, passed on to the provider that is
  named for it
- `questions`: what an answer tells of calls that wait to be allowed
- `refusals`: refuses requests of OpenAI's clients
- `request`: reads a chat completion request of OpenAI's clients
- `side_requests`: what chat pages ask a model for themselves: titles, tags, what to ask next
- `turn_request`: hands a request of OpenAI's clients in: to a conversation, to a turn that waits,
  or for once
- `responses/`: the Responses API: what it takes, its answer as a whole, and as a stream of events
"""
