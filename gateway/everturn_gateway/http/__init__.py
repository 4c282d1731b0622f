"""The HTTP surface: routes over the entry point, access, limits, and the server that listens.

- `application`: the API in FastAPI: its routes behind their rules, its document, and one shape for
  every error
- `asgi`: the ASGI application: what each request meets first, and behind it the API
- `direct`: the way of what programs ask most often, past what FastAPI does for each request
- `job_problems`: the problems that answer what a request says of a scheduled job
- `limits`: limits on what requests may take: connections, body bytes, time
- `masking`: takes secrets that stand literally in an agent's file out of what is shown
- `openapi`: what stands in `/openapi.json` beside the routes: problems, tokens, and the shapes of
  errors
- `ports`: what the HTTP surface needs from the gateway, so that it does not import what builds it
- `preferences`: what a client prefers of an answer: `Prefer: respond-async`
- `probes`: what whoever watches the process asks: is it alive, does it take messages, what does it
  count
- `problems`: every error of the HTTP surface, as an RFC 9457 problem document
- `protocol`: uvicorn's protocol for HTTP/1.1, with limits that hold before and between requests
- `server`: listens: uvicorn inside the caller's task, without its signal handlers
- `sse`: the one writer of server-sent events
- `streams`: what is sent on the event streams of a session and of a turn
- `turns`: how the end of a turn is told
- `uploads`: files that come with a message, and files that are given back
- `validation`: tells in words, and by place, why a request was not understood
- `waiting`: requests that wait for a conversation: who is waiting, until when, and why a wait ended
  early
- `access/`: who asks, what is open to them, and which sessions they see
- `console/`: the web console: its files, as they are, and its login
- `live/`: what goes on in all sessions: their list by activity, what waits for a person, one stream
- `mcp/`: the MCP server at `/mcp`: the agents for MCP clients, over streamable HTTP
- `openai/`: the OpenAI-compatible requests and answers
- `routes/`: the routes, by subject
- `schemas/`: the bodies of requests and answers, as pydantic models
"""
