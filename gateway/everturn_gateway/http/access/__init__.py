"""Who asks, what is open to them, and which sessions they see.

- `addresses`: from which address a request comes, also where a proxy passes it on
- `auth`: who asks: bearer tokens, and on loopback without a token programs of this machine
- `callers`: who calls a route, as its function gets to know it
- `cookies`: the cookie of a login, and when it counts: in requests of the gateway's own page alone
- `front`: what every request of a listener meets first, in one place
- `guard`: turns requests away before anything of them is read: who asks, how often, from where
- `lease`: an answer that lasts no longer than the right to it
- `protected`: stands around every route: asks for its scope, and hides what is not the caller's
- `scopes`: which scope each route asks for: one table, and what is not in it is closed
- `visibility`: what a principal gets to see: what is not its own is answered like what is not there
"""
