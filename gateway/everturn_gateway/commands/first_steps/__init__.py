"""`everturn setup`: from nothing to an answer of a real model.

- `bots`: `everturn setup telegram` and `discord`: a bot's token, a look whether it works, the files
- `checking`: `everturn setup --check`: what is set up, and whether it works, in words for newcomers
- `keyring`: the key of one provider while it is being set up
- `offer`: offers a setup to whoever begins where nothing is set up
- `owners`: whose the agents are: an owner is written into the configuration
- `prompts`: the questions of a setup: an option answers each, and where nobody sits none is asked
- `services`: `everturn setup service`: the gateway starts with the machine, as a service of its
  user
- `setup`: `everturn setup`: which model, its key, one call, and then the files
- `trying`: one call to a model, to see that it answers, whether it calls tools, and what that costs
- `writing`: writes what a setup has found out: a key, and the model of an agent
"""
