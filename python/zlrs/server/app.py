"""The aiohttp application: routes, and what happens around every request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.server import (
    access,
    chat,
    count_tokens,
    health,
    limits,
    messages,
    models,
    preheat,
    session_routes,
    validation_routes,
    verify_route,
)
from zlrs.server.connections import Connection
from zlrs.server.context import CONTEXT, REQUEST_ID, ServerContext
from zlrs.server.errors import Refusal, as_refusal, encode, error_object, refuse, status_for
from zlrs.server.ids import new_id
from zlrs.server.log import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zlrs.wire import Protocol

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CHAT_PREFIXES = ("/v1/chat/", "/v1/completions", "/v1/responses", "/v1/embeddings")
SERVER_FAILURE = 500


def create_app(context: ServerContext) -> web.Application:
    """All routes over one context.

    The application needs a runner with `handler_cancellation=True`, so that a client that goes away ends its
    generation.
    """
    body_limit = context.config.server.body_limit_bytes
    app = web.Application(middlewares=[around], client_max_size=body_limit)
    app[CONTEXT] = context
    app.router.add_post("/v1/messages", messages.handle, expect_handler=expect_continue)
    app.router.add_post("/v1/messages/count_tokens", count_tokens.handle, expect_handler=expect_continue)
    app.router.add_post("/v1/chat/completions", chat.handle, expect_handler=expect_continue)
    app.router.add_post("/v1/preheat", preheat.handle, expect_handler=expect_continue)
    app.router.add_post("/verify", verify_route.handle, expect_handler=expect_continue)
    session = app.router.add_resource("/v1/sessions/{session}")
    session.add_route("GET", session_routes.handle_get)
    session.add_route("DELETE", session_routes.handle_delete)
    app.router.add_post("/v1/sessions/{session}/flush", session_routes.handle_flush)
    app.router.add_post(
        "/v1/sessions/{session}/draft", session_routes.handle_draft, expect_handler=expect_continue
    )
    heads = app.router.add_resource("/v1/validation-heads")
    heads.add_route("GET", validation_routes.handle_list)
    heads.add_route("POST", validation_routes.handle_upload, expect_handler=expect_continue)
    app.router.add_delete("/v1/validation-heads/{head}", validation_routes.handle_delete)
    app.router.add_get("/v1/models", models.handle_list)
    app.router.add_get("/v1/models/{model:.+}", models.handle_one)
    app.router.add_get("/", health.handle_root)
    app.router.add_get("/livez", health.handle_live)
    for path in ("/readyz", "/health", "/healthz"):
        app.router.add_get(path, health.handle_ready)
    app.router.add_get("/startupz", health.handle_started)
    app.router.add_get("/metrics", health.handle_metrics)
    app.on_response_prepare.append(_sign)
    return app


def protocol_of(request: web.Request) -> Protocol:
    """Whose error shape a request expects: by path, then by the headers only one protocol has."""
    if request.path.startswith(CHAT_PREFIXES):
        return "chat"
    if request.path.startswith("/v1/messages") or "anthropic-version" in request.headers:
        return "messages"
    bearer = request.headers.get("authorization", "").lower().startswith("bearer ")
    return "chat" if bearer and "x-api-key" not in request.headers else "messages"


async def expect_continue(request: web.Request) -> web.StreamResponse | None:
    """Answer `Expect: 100-continue` only where the body would be read; this runs before the middleware."""
    context = request.app[CONTEXT]
    request[REQUEST_ID] = new_id("req_")
    if isinstance(request.protocol, Connection):
        request.protocol.head_complete()
    try:
        access.require_target(request, context.hosts)
        access.require_key(request, context.keys)
        limits.require_size(request, context.config.server.body_limit_bytes)
        if request.headers.get("expect", "").lower() != "100-continue":
            raise refuse("invalid_request_error", "the only expectation known is 100-continue", status=417)
    except Refusal as refusal:
        return _error(request, refusal)
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0
    return None


@web.middleware
async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its id, check access, time it, and turn every failure into the protocol's shape."""
    context = request.app[CONTEXT]
    request[REQUEST_ID] = new_id("req_")
    started = context.monotonic()
    connection = request.protocol
    if isinstance(connection, Connection):
        connection.head_complete()
    status = 499
    try:
        try:
            access.require_target(request, context.hosts)
            access.require_key(request, context.keys)
            response = await handler(request)
        except ConnectionError:
            raise
        except web.HTTPException as error:
            response = _error(request, _http_refusal(request, error))
        except Exception as error:  # noqa: BLE001 - the last line: a failed request must not end the server
            refusal = as_refusal(error)
            if refusal.error.status >= SERVER_FAILURE and not isinstance(error, Refusal):
                log("request_failed", request_id=request[REQUEST_ID], path=_route(request), error=repr(error))
            response = _error(request, refusal)
        status = response.status
        return response
    finally:
        if isinstance(connection, Connection):
            connection.head_expected()
        route = _route(request)
        context.metrics.requests.add(route=route, status=str(status))
        context.metrics.seconds.observe(context.monotonic() - started, route=route)


def _route(request: web.Request) -> str:
    """The route's pattern: a bounded label, whatever paths are asked for."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "other"


def _http_refusal(request: web.Request, error: web.HTTPException) -> Refusal:
    """What the framework refuses, in the catalogue's terms."""
    path = request.path[:80]
    if isinstance(error, web.HTTPNotFound):
        return refuse("not_found_error", f"there is no {path!r} here")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return refuse(
            "invalid_request_error",
            f"{request.method[:20]} is not a method of {path!r}, {allowed} is",
            status=405,
            headers={"allow": allowed},
        )
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        limit = request.app[CONTEXT].config.server.body_limit_bytes
        return limits.too_large(limit, f"more than {limit}")
    return refuse("invalid_request_error", error.reason, status=error.status)


def _error(request: web.Request, refusal: Refusal) -> web.Response:
    protocol = protocol_of(request)
    body = encode(error_object(refusal, protocol, request[REQUEST_ID]))
    response = web.Response(
        status=status_for(refusal, protocol),
        body=body,
        content_type="application/json",
        headers=refusal.headers,
    )
    if refusal.headers.get("connection") == "close":
        response.force_close()
    return response


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    """The request's id under both protocols' names, and nothing about our libraries."""
    request_id = request.get(REQUEST_ID)
    if request_id is not None:
        response.headers["request-id"] = request_id
        response.headers["x-request-id"] = request_id
    response.headers["server"] = "zlrs"
