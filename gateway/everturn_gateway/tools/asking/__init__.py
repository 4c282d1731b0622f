"""Questions of the agent to people, with choices; the core keeps them as it keeps approvals."""
