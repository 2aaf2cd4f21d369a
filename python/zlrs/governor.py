"""The governor of the precision of keys and values on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Governor:
    """When keys and values that are kept from now on get 4 bits in place of f16.

    Attributes:
        policy: `idle`: while less than 40 % of the memory's peak bandwidth is asked for, and f16 above 75 %.
            `saturated`: the other way round.
        thermal_limit_c: °C from which on nothing is changed, until it is 5 °C cooler.
    """

    policy: Literal["idle", "saturated"] = "idle"
    thermal_limit_c: int = 75
