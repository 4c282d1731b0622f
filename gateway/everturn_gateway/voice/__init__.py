"""What people say and hear: voice notes become text, and answers sound.

- `aloud`: what of an answer is read aloud: its words, and neither code, tables nor addresses
- `endpoint`: has a file transcribed by a server that speaks OpenAI's API
- `server`: one request to a server that hears or speaks, tried again where that may help
- `sound`: how long a file sounds, where it says so itself
- `speech`: has an answer spoken by a server that speaks OpenAI's API
- `transcription`: the bounds around whoever transcribes, and what is no transcript
- `voices`: makes what an agent hears and speaks with, of what `everturn.yaml` says
- `whisper/`: Whisper on this machine, in a process of its own
"""
