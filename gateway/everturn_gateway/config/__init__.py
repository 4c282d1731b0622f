"""`everturn.yaml`: what it may say, read and checked.

- `changes`: what differs between two configurations, and what of it a running gateway takes over
- `channels`: what `everturn.yaml` says of channels and routes
- `checks`: faults that single fields of `everturn.yaml` do not show, and what has no effect there
- `cluster`: what `everturn.yaml` says of several gateways that share one store
- `env_file`: variables in a file, `.env`, beside the configuration
- `home`: where the configuration is for whoever works in a folder that has none
- `keep`: `sessions.keep`: for how long what belongs to sessions is kept
- `links`: which private chats and principals are one person, as `everturn.yaml` says
- `owners`: what `everturn.yaml` says of owners: whose the agents are, by their accounts on the
  channels
- `providers`: what `everturn.yaml` says of providers and prices
- `schemas`: the fields of `everturn.yaml`, as models: what may stand there, not what is done with
  it
- `settings`: the gateway's own configuration: `everturn.yaml`, loaded once into one frozen value
- `stores`: what `everturn.yaml` says of the store of sessions
- `system_keyring`: secrets in the system's keyring: Keychain, Secret Service, KWallet
- `voice`: `voice` of `everturn.yaml`: who writes down what people say
"""
