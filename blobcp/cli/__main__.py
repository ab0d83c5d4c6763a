"""``python -m blobcp.cli``: the same as ``blobcp``."""

from __future__ import annotations

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
