"""Who may talk to an agent: rules, pairing, owners. Closed by default."""
