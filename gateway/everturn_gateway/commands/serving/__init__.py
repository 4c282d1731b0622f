"""`everturn serve`.

- `descriptors`: how many files and connections this process may have open
- `reloads`: SIGHUP: a running gateway reads its configuration again, and says what came of it
- `serve`: `everturn serve`: the gateway until a signal stops it
- `supervision`: tells systemd the status of the gateway: it is ready, it stops, its event loop
  still turns
- `workers`: `everturn serve --workers N`: several processes behind one port, which share the work
  by leases
"""
