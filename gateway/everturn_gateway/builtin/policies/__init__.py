"""The context policies that come with Everturn: a module each, with the numbers that it has.

- `baseagent`: the policy `baseagent`
- `duragent`: the policy `duragent`
- `everturn`: the policy `everturn`
- `jutul`: the policy `jutul`
- `native`: the policy `native`
- `picoclaw`: the policy `picoclaw`
- `settings`: numbers that several policies have, and what has to hold between them
"""
