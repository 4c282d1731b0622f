"""The web console: its files, as they are, and its login. What it shows comes from the API."""
