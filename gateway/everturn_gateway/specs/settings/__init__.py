"""The fields of `agent.yaml`, as models: what may stand there, not what is done with it.

The texts under the fields are their descriptions in the JSON Schema.
Source: Duragent's format v1alpha1, and Everturn's additions to it.

- `access`: `spec.access`: who may talk to the agent on a chat platform
- `commands`: `spec.commands`: what people say to the agent often, by a name
- `context`: `spec.session.context`: which policy renders a request, with the numbers that the
  policy has
- `document`: the whole of `agent.yaml`
- `hooks`: `spec.hooks`: guards that refuse, notes that steer
- `model`: `spec.model`: which model answers, and its limits
- `tools`: `spec.tools`: what every entry has to be, whichever tools it names
"""
