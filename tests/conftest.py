"""What all tests share: how hypothesis behaves."""

from __future__ import annotations

from hypothesis import settings

# Runs must not fail because a machine is busy; pytest-timeout bounds them.
settings.register_profile("blobcp", deadline=None, print_blob=True)
settings.load_profile("blobcp")
