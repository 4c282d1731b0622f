"""What becomes of everything that people write, click and command, whatever their platform."""
