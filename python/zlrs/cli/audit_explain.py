"""`zlrs audit explain`: what was decided about a request and why, in words, and whether it would be again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.errors import ConflictError, NotFoundError
from zlrs.graph import repeat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_ROUTES = {
    "same": "the upstream's own answer to this very request",
    "canonical": "the answer to the same ask in other words, by rules that do not change it",
    "edge": "the answer to another form that was proven to share its answers",
}
_AGREEMENTS = {
    "agree": "says the same",
    "contradict": "contradicts it",
    "undecided": "could not be decided, which counts as wrong",
}


def explained(records: Iterable[Mapping[str, object]], wanted: str) -> tuple[list[str], bool]:
    """Lines for people, and whether the decision is repeated by what was recorded of it.

    Raises:
        NotFoundError: There is no decision of this id.
    """
    found = list(records)
    decision = next((one for one in found if one.get("kind") == "decision"), None)
    if decision is None:
        raise NotFoundError(
            f"no decision has the audit id {wanted}", suggestion="`zlrs audit show` lists ids"
        )
    lines = [f"decision  {wanted}", f"request   {_request(decision)}", f"outcome   {_outcome(decision)}"]
    for record in found:
        line = _more(record)
        if line:
            lines.append(line)
    same, said = _repeated(decision)
    lines.append(f"replay    {said}")
    return lines, same


def captured(folder: Path, audit_id: str) -> list[dict[str, object]]:
    """The kept bodies of a request, where the operator had them kept."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                if audit_id.encode() not in line or not line.endswith(b"\n"):
                    continue
                body: dict[str, object] = json.loads(line)
                if body.get("audit") == audit_id:
                    found.append(body)
    return found


def _request(decision: Mapping[str, object]) -> str:
    protocol = decision.get("protocol")
    if protocol is None:
        return "one that is relayed and not understood"
    form = "as an event stream" if decision.get("stream") else "as one body"
    where = ""
    if decision.get("node"):
        where = f"; node {_short(decision['node'])}, scope {_short(decision.get('scope'))}"
        where += f", tenant {_short(decision.get('tenant'))}"
    return f"a {protocol} request, to be answered {form}{where}"


def _outcome(decision: Mapping[str, object]) -> str:
    outcome, reason = decision.get("outcome"), decision.get("reason")
    if outcome == "hit":
        return (
            f"hit: answered from the graph with {_ROUTES.get(str(decision.get('route')), 'a stored answer')}"
        )
    meanings = dict(_core.reasons())
    why = meanings.get(str(reason), "no reason was recorded")
    what = "went upstream, and the answer may be stored" if outcome == "miss" else "went upstream"
    return f"{outcome}: {what}, because {why} ({reason})"


def _more(record: Mapping[str, object]) -> str:
    kind = record.get("kind")
    if kind == "settled":
        stored = record.get("outcome") == "stored"
        reason = str(record.get("reason"))
        what = "stored" if stored else f"not stored: {dict(_core.reasons()).get(reason, reason)} ({reason})"
        return f"answer    status {record.get('status')}, {what}"
    if kind == "rewritten":
        changes = record.get("changes")
        listed = changes if isinstance(changes, list) else []
        return "changed   " + "; ".join(_change(one) for one in listed if isinstance(one, dict))
    if kind in {"recheck", "trial"}:
        agreement = record.get("agreement")
        said = _AGREEMENTS.get(str(agreement), "there was none to compare with")
        return f"{kind:<9} asked upstream again: the fresh answer {said}"
    if kind == "withdrawn":
        return f"withdrawn the stored answer is not served any more: {record.get('reason')}"
    return ""


def _change(change: Mapping[str, object]) -> str:
    counts = change.get("counts")
    listed = counts if isinstance(counts, dict) else {}
    told = ", ".join(f"{name} {count}" for name, count in listed.items())
    return f"{change.get('path')}: {change.get('what')} ({told})"


def _repeated(decision: Mapping[str, object]) -> tuple[bool, str]:
    try:
        recorded, repeated = repeat(dict(decision))
    except ConflictError as error:
        return False, f"not possible: {error.message}"
    if recorded == repeated:
        return True, f"the recorded inputs give the same decision again ({repeated})"
    return False, f"the recorded inputs give another decision now: {repeated} instead of {recorded}"


def _short(name: object) -> str:
    return str(name)[:12]
