"""Scheduled jobs of several gateways that share a store: one runs, all show and change them."""
