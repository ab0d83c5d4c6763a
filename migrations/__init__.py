"""Bring stored checkpoints up to the code that is to load them."""
