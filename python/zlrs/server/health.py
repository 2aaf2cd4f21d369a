"""Probes and metrics. They ask the process only, never a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from zlrs import _core
from zlrs.server.context import CONTEXT, State
from zlrs.server.errors import Refusal, encode
from zlrs.server.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from zlrs.server.context import ServerContext

READY = 200
NOT_READY = 503


def _lost(context: ServerContext) -> bool:
    """Whether the engine cannot compute any more."""
    try:
        return bool(context.engine.statistics.get("backend_lost"))
    except Refusal:
        return False


def _probe(context: ServerContext, *, good: bool) -> web.Response:
    body: dict[str, object] = {"status": context.state.value}
    if context.state is State.READY and not good:
        body = {"status": "failed", "reason": "the device does not answer; restart the server"}
    if context.state is State.STARTING:
        body["loaded"] = round(context.loading_share, 3)
    return web.Response(
        status=READY if good else NOT_READY,
        body=encode(body),
        content_type="application/json",
        headers={"cache-control": "no-store"},
    )


async def handle_live(request: web.Request) -> web.Response:
    """The event loop answers."""
    return _probe(request.app[CONTEXT], good=True)


async def handle_ready(request: web.Request) -> web.Response:
    """Requests are taken: 503 while loading, from the first sign of the end, and while a GPU is lost."""
    context = request.app[CONTEXT]
    return _probe(context, good=context.state is State.READY and not _lost(context))


async def handle_started(request: web.Request) -> web.Response:
    """The model is loaded."""
    context = request.app[CONTEXT]
    return _probe(context, good=context.state in {State.READY, State.DRAINING})


async def handle_root(request: web.Request) -> web.Response:
    """What this is; official clients ask with HEAD whether anyone is there."""
    context = request.app[CONTEXT]
    body = {"name": "zlrs", "version": _core.build_info()["version"], "status": context.state.value}
    return web.Response(body=encode(body), content_type="application/json")


async def handle_metrics(request: web.Request) -> web.Response:
    """Prometheus text."""
    context = request.app[CONTEXT]
    gauges = {
        "zlrs_requests_in_flight": (
            "Requests waiting or being answered.",
            float(context.admission.in_flight),
        ),
        "zlrs_queue_limit": ("Requests admitted at once.", float(context.admission.limit)),
        "zlrs_sessions": ("Sessions that are open.", float(len(context.sessions))),
        "zlrs_session_kept_tokens": (
            "Tokens whose state sessions keep.",
            float(context.sessions.kept_tokens),
        ),
        "zlrs_ready": (
            "1 when requests are taken.",
            float(context.state is State.READY and not _lost(context)),
        ),
    }
    build = _core.build_info()
    facts = {"zlrs_build_info": {"version": build["version"]}}
    try:
        engine, model = context.engine, context.facts
    except Refusal:
        pass
    else:
        for name, value in engine.statistics.items():
            gauges[f"zlrs_engine_{name}"] = ("Of the engine, now or since its start.", float(value))
        facts["zlrs_model_info"] = {"model": model.name, "quantization": model.quantization}
    page = context.metrics.render(gauges, facts)
    return web.Response(body=page.encode(), headers={"content-type": CONTENT_TYPE})
