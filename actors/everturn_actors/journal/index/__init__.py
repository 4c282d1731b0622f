"""Which sessions there are, without reading them all."""
