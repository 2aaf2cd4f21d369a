"""Fit a re-scoring head: a model reads answers with faults and tells right tokens from wrong ones."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.errors import InvalidRequestError
from zlrs.ring.corrupt import KINDS, corrupt, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from zlrs.ring.texts import Pair

WINDOW_TOKENS = 768
BETWEEN = "\n\nIn short: "
"""Stands between a source and an answer about it."""
HELD_OUT = 0.3
TRANSFER_KIND = "name"
"""The kind of fault that the head is not shown."""
HIDDEN = 48
EPOCHS = 6
FALSE_ALARMS = 0.01
CLEAN_SHARE = 0.25
"""Of the answers, so many are read without a fault."""
LEAST_PAIRS = 20
PASSES = 6
"""Most times an answer is read, each time with other faults."""


@dataclass(frozen=True)
class Report:
    """What a head does on texts that it was not fitted to.

    Attributes:
        model_sha256: The model's file.
        documents: Sources, and how many of them were held out.
        tokens: Tokens fitted to, and how many of those were wrong.
        auroc: Area under the curve of hits against false alarms, faults of the kinds it was shown.
        auroc_surprise: The same by -ln p of the token alone: what the head has to beat.
        marked_wrong: Share of the wrong tokens it marks at its threshold.
        marked_right: Share of the right tokens it marks.
        transfer_kind: A kind of fault it was not shown.
        transfer_auroc: The area there.
        transfer_auroc_surprise: That of -ln p there.
        transfer_marked_wrong: Share of the wrong tokens it marks there.
        seconds: All of it.
    """

    model_sha256: str
    documents: tuple[int, int]
    tokens: tuple[int, int]
    auroc: float
    auroc_surprise: float
    marked_wrong: float
    marked_right: float
    transfer_kind: str
    transfer_auroc: float
    transfer_auroc_surprise: float
    transfer_marked_wrong: float
    seconds: float


def train(
    path: Path,
    pairs: Sequence[Pair],
    *,
    tokens: int = 60_000,
    threads: int | None = None,
    seed: int = 1,
    int8: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[bytes, Report]:
    """Fit a head to a model.

    Args:
        path: The model file.
        pairs: Sources with right answers.
        tokens: Answer tokens to fit to; the rest of the pairs is left aside.
        threads: Worker threads.
        seed: Decides which faults are made, what is held out, and the first weights.
        int8: Write the large tensors in int8.
        progress: Told what is being done.

    Returns:
        The head's file, and what was measured.

    Raises:
        InvalidRequestError: Fewer than 20 pairs, or none with a fault of each kind.
    """
    started = time.monotonic()
    if len(pairs) < LEAST_PAIRS:
        raise InvalidRequestError(f"{len(pairs)} sources with answers; {LEAST_PAIRS} are the least")
    random = Random(seed)  # noqa: S311 - a repeatable choice, no secret
    shuffled = random.sample(list(pairs), len(pairs))
    cut = int(len(shuffled) * HELD_OUT)
    held, shown = shuffled[:cut], shuffled[cut:]
    names = sorted({name for pair in pairs for name in names_of(pair.answer)})
    teacher = _core.RingTeacher.load(path, window_tokens=WINDOW_TOKENS, threads=threads)
    reader = _Reader(teacher, random, names)
    known = [kind for kind in KINDS if kind != TRANSFER_KIND]
    progress(f"reading answers about {len(shown)} sources")
    reader.read("fit", shown, known, tokens)
    progress(f"reading answers about {len(held)} held-out sources")
    reader.read("test", held, known, int(tokens * HELD_OUT))
    reader.read("transfer", held, [TRANSFER_KIND], int(tokens * HELD_OUT))
    for group in ("fit", "test", "transfer"):
        if not all(teacher.count(group)):
            raise InvalidRequestError(
                f"the texts give no {group} sample: answers with numbers, dates, names and verbs are needed"
            )
    progress(f"fitting to {teacher.count('fit')[0]} tokens")

    def write(metadata: dict[str, str]) -> bytes:
        return teacher.fit(
            "fit",
            "test",
            hidden=HIDDEN,
            epochs=EPOCHS,
            false_alarms=FALSE_ALARMS,
            int8=int8,
            metadata=metadata,
        )

    head = _core.RingHead(write({}))
    inside, outside = teacher.judge("test", head), teacher.judge("transfer", head)
    if inside is None or outside is None:
        raise InvalidRequestError("the held-out texts have no wrong, or no right, token")
    report = Report(
        model_sha256=teacher.model_sha256,
        documents=(len(pairs), len(held)),
        tokens=teacher.count("fit"),
        auroc=inside[0],
        auroc_surprise=inside[1],
        marked_wrong=inside[2],
        marked_right=inside[3],
        transfer_kind=TRANSFER_KIND,
        transfer_auroc=outside[0],
        transfer_auroc_surprise=outside[1],
        transfer_marked_wrong=outside[2],
        seconds=round(time.monotonic() - started, 1),
    )
    # The same samples give the same head; this time its file says what was measured.
    return write({"report": json.dumps(asdict(report))}), report


class _Reader:
    def __init__(self, teacher: _core.RingTeacher, random: Random, names: Sequence[str]) -> None:
        self.teacher, self.random, self.names = teacher, random, names

    def read(self, group: str, pairs: Sequence[Pair], kinds: Sequence[str], tokens: int) -> None:
        """Read an answer of each pair, with a fault of one kind or none, until there are so many tokens.

        Where the pairs are few they are read again, with other faults.
        """
        count = 0
        for pair in [pair for _ in range(PASSES) for pair in pairs]:
            if count >= tokens:
                return
            order = self.random.sample(list(kinds), len(kinds))
            faulty = next(
                (made for kind in order if (made := corrupt(pair.answer, kind, self.random, self.names))),
                None,
            )
            text, wrong = (pair.answer, ()) if faulty is None else (faulty.text, faulty.wrong)
            if self.random.random() < CLEAN_SHARE:
                text, wrong = pair.answer, ()
            count += self.teacher.read(group, pair.source + BETWEEN, text, list(wrong))
