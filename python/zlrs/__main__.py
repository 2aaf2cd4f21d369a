"""`python -m zlrs`: the same as the `zlrs` command."""

from zlrs.cli import main

raise SystemExit(main())
