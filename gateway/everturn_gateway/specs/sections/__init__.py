"""The fields of `agent.yaml`, as models: what may stand there, not what is done with it.

The texts under the fields are their descriptions in the JSON Schema.
Source: Duragent's format v1alpha1, and Everturn's additions to it.
"""
