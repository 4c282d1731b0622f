"""A browser of the agent's: a local Chromium, whose every connection goes to a checked address.

- `actions`: what a browser does for a call, and what the page says then
- `browsers`: the browser sessions of a gateway: one for each conversation that uses one, closed
  when idle
- `launching`: starts a Chromium of this machine, walled in
- `opening`: where the browsers of a gateway are opened from; nothing of them is loaded before one
  is used
- `plugin`: the plug-in `browser`
- `proxy`: the way of a browser to the net: each connection goes to an address that was checked for
  it
- `tool`: the tool by which an agent uses a browser
"""
