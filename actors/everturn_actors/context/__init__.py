"""What the model sees: from a conversation and an agent to a request that fits. Pure.

Start reading at `render`; `window` bounds what a session holds, `budget` what a request holds.

- `beside`: what the prompt says beside the agent's own texts: notes of earlier, and pinned messages
- `catalog`: what an agent's policy is, and what it works with
- `fingerprint`: whether a request begins with the one before it, byte for byte
- `headroom`: whether the window is so far from full that nobody has to look what is to be done
- `history`: the finished turns of a session as they are shown, kept from one request to the next
- `outlook`: what will happen to a session's context next, and when, in sentences for people
- `policy`: a policy: how a system counts, what it takes for its budget, and its stages
- `prompt`: the system prompt
- `render`: from a conversation and an agent to the request that a model gets
- `rendered`: a request as it was made for a conversation, and what is kept of how it was made
- `report`: what stands in a session's context now, for people: `/context`, HTTP, the command line
- `summaries`: what a summary is made of, how a model is asked for one, and what stands in when none
  answers
- `summary_prompts`: what a model is told that writes a summary
- `transcripts`: what was said, written out: for the model that summarises it, and for people
- `estimation/`: how large a request is, and how much of the window is left for it
- `model_stats/`: what answers and refusals of a provider teach of its model
- `past/`: requests of the past: why they looked as they did, and what two of them have otherwise
- `policies/`: context policies: what a request leaves out or shortens, and in which order
- `projection/`: the history as messages that a request could show, and what was reduced of them
- `stages/`: stages: each makes a projection smaller in one way, and says what it did
"""
