"""The context policies that come with Everturn: a module each, with the numbers that it has."""
