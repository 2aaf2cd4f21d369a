"""Re-scoring heads of the validation ring: made from texts with faults put in by rule."""

from zlrs._core import RingHead, Validation
from zlrs.ring.corrupt import KINDS, Faulty, corrupt
from zlrs.ring.texts import Pair, read_pairs
from zlrs.ring.train import Report, train

__all__ = ["KINDS", "Faulty", "Pair", "Report", "RingHead", "Validation", "corrupt", "read_pairs", "train"]
