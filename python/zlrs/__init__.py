"""zlrs answers the same request with less work, and shows the receipt.

`Engine` runs an open model from a GGUF file in this process. The command `zlrs serve` puts a web server
around it, `zlrs proxy` stands in front of any other server. Importing this package loads neither a model nor
a web server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlrs._core import build_info
    from zlrs.branches import Branch
    from zlrs.engine import Engine

    __version__: str

__all__ = ["Branch", "Engine", "__version__", "build_info"]


def __getattr__(name: str) -> object:
    """Load what is asked for, the first time it is asked for."""
    if name == "Engine":
        value: object = import_module("zlrs.engine").Engine
    elif name == "Branch":
        value = import_module("zlrs.branches").Branch
    elif name == "build_info":
        value = import_module("zlrs._core").build_info
    elif name == "__version__":
        value = import_module("zlrs._core").build_info()["version"]
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
