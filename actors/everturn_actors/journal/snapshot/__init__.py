"""`state.yaml`: a session's state as people read it, written and read back.

- `checks`: whether a state that was read, perhaps after somebody edited it, is one to go on from
- `reader`: `state.yaml`, read
- `state_yaml`: `state.yaml`, written: a line for each field, and then one for each message
- `yaml_text`: YAML that people may have edited, read without harm to whoever reads it
"""
