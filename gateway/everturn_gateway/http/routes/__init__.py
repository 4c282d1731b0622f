"""The routes, by subject. Each module builds one router around an open gateway."""
