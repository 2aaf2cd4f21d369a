"""Tables that the documentation and the commands print: the systems zlrs consists of."""

from zlrs.reference.systems import System, systems

__all__ = ["System", "systems"]
