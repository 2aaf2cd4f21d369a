"""An answer from the graph: one JSON body, or the events of a natural stream, as the request asked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zlrs_proxy.respond import PlainResponse, whole_response
from zlrs_proxy.route import Endpoint

if TYPE_CHECKING:
    from zlrs.graph import Decision

_LOG = logging.getLogger("zlrs_proxy")


def replay(
    decision: Decision, endpoint: Endpoint, request_id: str, receipts: list[tuple[str, str]]
) -> PlainResponse | None:
    """The response to a hit; None when the stored answer cannot be made into one, and upstream must be asked.

    The ids in it are fresh: nothing of the upstream's earlier response head is repeated.
    """
    try:
        content = b"".join(decision.replay())
        content_type = decision.content_type
    except Exception as error:  # noqa: BLE001 - the upstream can still answer
        _LOG.warning("replay failed", extra={"fields": {"error": type(error).__name__}})
        return None
    name = "x-request-id" if endpoint is Endpoint.CHAT else "request-id"
    headers = [(name, request_id), ("Cache-Control", "no-store"), *receipts]
    if content_type.startswith("text/event-stream"):
        # Servers in front of us that collect answers before they send them are told not to.
        headers.append(("X-Accel-Buffering", "no"))
    return whole_response(200, content, content_type, headers)
