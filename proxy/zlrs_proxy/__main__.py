"""`python -m zlrs_proxy`: the sidecar."""

import sys

from zlrs_proxy.cli import main

sys.exit(main())
