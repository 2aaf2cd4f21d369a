"""`python -m zlrs` is the `zlrs` command."""

from __future__ import annotations

import sys

from zlrs.cli import main

if __name__ == "__main__":
    sys.exit(main())
