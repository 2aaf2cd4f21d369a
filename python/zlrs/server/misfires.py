"""Re-runs of some masked answers by the full model, in the background: would it have chosen otherwise?"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from zlrs.errors import OverloadedError, ZlrsError
from zlrs.server.log import log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.engine import Engine
    from zlrs.options import GenerateOptions
    from zlrs.server.metrics import Metrics
    from zlrs.server.variants import Variant

STEP_TOKENS = 16
"""Tokens asked for at once: those after the first difference are computed in vain."""

TOKENS_LIMIT = 512
"""Of an answer so many tokens are compared."""

STOP = -1
"""Stands for the choice to end the answer."""


class Rerun:
    """One masked answer that is to be compared."""

    def __init__(
        self,
        variant: Variant,
        ids: Sequence[int],
        answer: Sequence[int],
        options: GenerateOptions,
        *,
        ended: bool,
    ) -> None:
        """Keep what a re-run needs.

        Args:
            variant: Who answered.
            ids: The prompt.
            answer: The tokens of the answer.
            options: What the answer was made with.
            ended: The model ended the answer itself.
        """
        self.variant = variant
        self.ids = list(ids)
        self.answer = list(answer[:TOKENS_LIMIT])
        self.ended = ended and len(answer) <= TOKENS_LIMIT
        self.greedy = options.get("temperature", 0.0) == 0
        # What the choice of a token depends on; the other options are about drawing among tokens.
        kept: GenerateOptions = {"temperature": 0.0, "priority": "batch"}
        kept["repetition_penalty"] = options.get("repetition_penalty", 1.0)
        kept["logit_bias"] = options.get("logit_bias")
        kept["tenant"] = options.get("tenant")
        self.options = kept

    async def run(self, full: Engine) -> tuple[int, int]:
        """Tokens compared, and how many differ.

        Raises:
            ZlrsError: The engine refuses or fails.
        """
        wanted = [*self.answer, STOP] if self.ended else self.answer
        theirs = await first_choices(full, self.ids, wanted, self.options)
        if self.greedy:
            ours: Sequence[int] = wanted
        else:
            ours = await first_choices(self.variant.engine, self.ids, wanted, self.options)
        return len(wanted), sum(one != other for one, other in zip(ours, theirs, strict=True))


async def first_choices(
    engine: Engine, ids: Sequence[int], answer: Sequence[int], options: GenerateOptions
) -> list[int]:
    """What an engine would choose at each place of an answer, given the answer before it.

    It continues the answer until it differs, and goes on behind that place; its memory of the prefix makes
    each step cost about one token. O(answer) steps.

    Args:
        engine: Who chooses.
        ids: The prompt.
        answer: Tokens; a last `STOP` asks whether it ends there.
        options: Greedy.

    Raises:
        ZlrsError: The engine refuses, fails or is closed.
    """
    found: list[int] = []
    while len(found) < len(answer):
        asked = min(STEP_TOKENS, len(answer) - len(found))
        before = [*ids, *answer[: len(found)]]
        own: GenerateOptions = {**options, "max_tokens": asked}
        completion = await engine.complete_async(before, **own)
        if completion.finish_reason not in {"stop", "max_tokens"}:
            raise OverloadedError(f"a re-run was cut short: {completion.finish_reason}")
        chosen = list(completion.token_ids[:asked])
        if len(chosen) < asked:
            chosen.append(STOP)
        for token in chosen:
            place = len(found)
            found.append(token)
            if token != answer[place]:
                break
    return found


class Reruns:
    """Draws answers and re-runs them, one at a time. Used on the event loop only."""

    def __init__(self, share: float, metrics: Metrics, draw: Callable[[], float] = random.random) -> None:
        """Say how many.

        Args:
            share: Of the masked answers, 0 … 1.
            metrics: Where results are counted.
            draw: Gives numbers from 0 to below 1.
        """
        self._share = share
        self._metrics = metrics
        self._draw = draw
        self._task: asyncio.Task[None] | None = None

    def offer(self, rerun: Callable[[], Rerun], full: Engine) -> bool:
        """Re-run an answer, if it is drawn and no other one is under way."""
        if self._draw() >= self._share or (self._task is not None and not self._task.done()):
            return False
        self._task = asyncio.ensure_future(self._run(rerun(), full))
        return True

    async def _run(self, rerun: Rerun, full: Engine) -> None:
        try:
            tokens, differing = await rerun.run(full)
        except ZlrsError as error:
            # A full queue, the end of the process: the next one will do.
            log("rerun_left", mask=rerun.variant.name, type=error.type)
            return
        rerun.variant.misfires.add(tokens, differing)
        self._metrics.checked.add(tokens, mask=rerun.variant.name)
        self._metrics.misfires.add(differing, mask=rerun.variant.name)

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """End what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
