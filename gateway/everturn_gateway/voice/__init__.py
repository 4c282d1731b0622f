"""What people say and hear: voice notes become text.

- `endpoint`: has a file transcribed by a server that speaks OpenAI's API
- `sound`: how long a file sounds, where it says so itself
- `transcription`: the bounds around whoever transcribes, and what is no transcript
- `voices`: makes what an agent hears with, of what `everturn.yaml` says
- `whisper/`: Whisper on this machine, in a process of its own
"""
