"""What becomes of everything that people write, press and command, whatever their platform."""
