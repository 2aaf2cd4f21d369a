"""The zlrs sidecar: a reverse proxy that answers what it has proven and forwards the rest byte for byte.

One room a file, and the arrows between them point one way::

    accept -> route -> decide -> (replay | forward + tap) -> settle

`pipeline.py` is the walk through the rooms; `sidecar.py` puts them together and starts and stops them.
"""

from __future__ import annotations

__version__ = "0.1.0"
