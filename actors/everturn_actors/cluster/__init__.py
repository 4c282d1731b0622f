"""Several processes that share one store: who works on which session, and on what else.

`partitions` and `leases` are pure; `heartbeat` asks the referee, which is the store. A process that
is alone loads none of it (`ports.ownership.LocalOwnership`).

- `addresses`: where nodes listen and are reached: a Unix socket, or a host and a port
- `frames`: what two nodes say to each other: a frame is one value, one JSON object
- `greeting`: two nodes find out that both know the secret, and which version they speak
- `heartbeat`: holds leases: asks the referee once a second, and tells who is concerned what came
  and went
- `hub`: the side that other nodes call: lets in who knows the secret, and answers what they ask
- `leases`: what a process holds, how long, and what it asks the referee for
- `link`: links between nodes: each calls every other, and asks and follows over the stream it
  opened
- `node`: a node's two ends of links: the one that others call, and the one by which it calls others
- `ownership`: what this process holds and knows of the others, by leases
- `partitions`: which partition a session is in, and which process should hold what
- `relay`: what happens in a session that another node has, brought to those who follow it here
- `routing`: commands on their way to the node that works on a session, and what follows from them
  here
- `wire`: frames over one stream: read whole, written in order, bounded in both directions
"""
