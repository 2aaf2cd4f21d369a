"""Every error zlrs raises: one class for each type of the error catalogue.

Over HTTP the same names are `error.type`. The table is in the native core (`zlrs._core.error_catalogue()`);
the classes are written out here so that type checkers know them, and a test holds the two together.
"""

from __future__ import annotations

from typing import ClassVar, Protocol


class ZlrsError(Exception):
    """An error of zlrs.

    Attributes:
        type: Its name in the catalogue.
        status: Its HTTP status; 0 for what is raised before there is a server.
        message: What is wrong, the limit, what was given.
        suggestion: What to do.
        code: A fixed code that clients know, where there is one.
    """

    type: ClassVar[str] = "api_error"
    default_status: ClassVar[int] = 500
    default_suggestion: ClassVar[str] = "Try again; report it with the request id if it stays."
    default_code: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        suggestion: str | None = None,
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = self.default_suggestion if suggestion is None else suggestion
        self.status = self.default_status if status is None else status
        self.code = self.default_code if code is None else code


class InvalidRequestError(ZlrsError):
    """The request is malformed, or a value is not allowed."""

    type = "invalid_request_error"
    default_status = 400
    default_suggestion = "Correct the field that the message names."


class AuthenticationError(ZlrsError):
    """There is no credential, or it is not valid."""

    type = "authentication_error"
    default_status = 401
    default_suggestion = "Send a valid key in x-api-key or as a bearer token."
    default_code = "invalid_api_key"


class BillingError(ZlrsError):
    """The account cannot pay for the request."""

    type = "billing_error"
    default_status = 402
    default_suggestion = "Check the account at the upstream."
    default_code = "billing_error"


class PermissionDeniedError(ZlrsError):
    """The credential is valid and does not allow this."""

    type = "permission_error"
    default_status = 403
    default_suggestion = "Use a credential that may do this, or ask the operator."


class NotFoundError(ZlrsError):
    """There is no such path, model or object."""

    type = "not_found_error"
    default_status = 404
    default_suggestion = "Check the path and the name; GET /v1/models lists the models."


class ConflictError(ZlrsError):
    """The object is in a state that does not allow this."""

    type = "conflict_error"
    default_status = 409
    default_suggestion = "Read the object again and repeat the request."


class RequestTooLargeError(ZlrsError):
    """The body is larger than the limit."""

    type = "request_too_large"
    default_status = 413
    default_suggestion = "Send less, or raise the limit in zlrs.toml."


class RateLimitError(ZlrsError):
    """Too many requests wait or ran in the last period."""

    type = "rate_limit_error"
    default_status = 429
    default_suggestion = "Wait as long as retry-after says and try again."
    default_code = "rate_limit_exceeded"


class APIError(ZlrsError):
    """Something failed inside the server."""

    type = "api_error"
    default_status = 500
    default_suggestion = "Try again; report it with the request id if it stays."
    default_code = "server_error"


class UpstreamUnreachableError(ZlrsError):
    """The upstream cannot be reached, or what it sent is not HTTP."""

    type = "upstream_unreachable"
    default_status = 502
    default_suggestion = "Check that the upstream runs and that its address in zlrs.toml is right."
    default_code = "upstream_unreachable"


class TimeoutError(ZlrsError):  # noqa: A001 - the name says it; use it as `errors.TimeoutError`
    """The answer did not come before its deadline."""

    type = "timeout_error"
    default_status = 504
    default_suggestion = "Try again, ask for less, or stream the answer."
    default_code = "timeout"


class OverloadedError(ZlrsError):
    """The queue is full."""

    type = "overloaded_error"
    default_status = 529
    default_suggestion = "Wait as long as retry-after says and try again."
    default_code = "overloaded"


class ContextOverflowError(ZlrsError):
    """The model's window would hold the prompt but this machine's KV memory does not."""

    type = "context_overflow"
    default_status = 400
    default_suggestion = "Remove what the message names, or give the engine more kv_bytes."


class ComputeProfileMismatchError(ZlrsError):
    """Headers contradict each other, or do not fit the session or the hardware."""

    type = "compute_profile_mismatch"
    default_status = 400
    default_suggestion = "Send the headers that the session's first request had, or open a new session."


class ExitHeadInstabilityError(ZlrsError):
    """Early exits were required and are not stable on this input."""

    type = "exit_head_instability"
    default_status = 400
    default_suggestion = "Send the request with X-ZLRS-Compute: exact."


class ZeroLayerMismatchError(ZlrsError):
    """A zero-layer mask and the weights differ, so the load stops."""

    type = "zero_layer_mismatch"
    default_status = 0
    default_suggestion = "Make the mask again for this file, or set zero_layer.fallback = true."
    default_code = "ERR_ZERO_LAYER_MISMATCH"


class KvIncompatibleError(ZlrsError):
    """A session's state cannot be moved to the model asked for."""

    type = "kv_incompatible"
    default_status = 400
    default_suggestion = "Name a model with the same weights or the same tokenizer."
    default_code = "ERR_KV_INCOMPATIBLE_0x1A"


class KvCorruptError(ZlrsError):
    """A session's saved state failed its checks."""

    type = "kv_corrupt"
    default_status = 409
    default_suggestion = "Send the whole conversation again; the state is computed anew."
    default_code = "ERR_KV_CORRUPT_0x7F"


class SessionExpiredError(ZlrsError):
    """The session is over or was never there."""

    type = "session_expired"
    default_status = 404
    default_suggestion = "Open a new session with X-ZLRS-Session: create."


class SessionForbiddenError(ZlrsError):
    """The session belongs to another credential."""

    type = "session_forbidden"
    default_status = 403
    default_suggestion = "Use the credential that opened the session."


class CacheOnlyMissError(ZlrsError):
    """X-ZLRS-Cache-Only was set and the graph has no answer."""

    type = "cache_only_miss"
    default_status = 504
    default_suggestion = "Try again later, or without X-ZLRS-Cache-Only."


class ModelNotFoundError(ZlrsError):
    """The model is neither loaded nor known by that name."""

    type = "model_not_found"
    default_status = 404
    default_suggestion = "Use one of the names in the message, a path or a URL."
    default_code = "model_not_found"


class ModelInvalidError(ZlrsError):
    """The model's file is damaged or not a model."""

    type = "model_invalid"
    default_status = 0
    default_suggestion = "Run zlrs models verify, then pull the model again."


class ModelUnsupportedError(ZlrsError):
    """The model's file is well formed and of a kind that is not supported."""

    type = "model_unsupported"
    default_status = 0
    default_suggestion = "Use a model of a supported architecture and quantisation."


class ModelDownloadError(ZlrsError):
    """No source of the model could be read, or what came has the wrong sum."""

    type = "model_download_error"
    default_status = 0
    default_suggestion = "Check the network and try again; what was downloaded is kept."


class ConfigurationError(ZlrsError):
    """`zlrs.toml`, an option or an environment variable holds what is not allowed."""

    type = "configuration_error"
    default_status = 0
    default_suggestion = "Correct the setting that the message names."


class EngineFailedError(ZlrsError):
    """A step of the engine failed: a worker panicked, or a logit is not finite."""

    type = "engine_failed"
    default_status = 500
    default_suggestion = "Try again; verify the model's file if it stays."
    default_code = "server_error"


class EngineClosedError(ZlrsError):
    """The engine is closed, or is used in a process forked after it was loaded."""

    type = "engine_closed"
    default_status = 503
    default_suggestion = "Load an engine in the process that uses it."
    default_code = "server_error"


CLASSES: dict[str, type[ZlrsError]] = {
    error.type: error
    for error in (
        InvalidRequestError,
        AuthenticationError,
        BillingError,
        PermissionDeniedError,
        NotFoundError,
        ConflictError,
        RequestTooLargeError,
        RateLimitError,
        APIError,
        UpstreamUnreachableError,
        TimeoutError,
        OverloadedError,
        ContextOverflowError,
        ComputeProfileMismatchError,
        ExitHeadInstabilityError,
        ZeroLayerMismatchError,
        KvIncompatibleError,
        KvCorruptError,
        SessionExpiredError,
        SessionForbiddenError,
        CacheOnlyMissError,
        ModelNotFoundError,
        ModelInvalidError,
        ModelUnsupportedError,
        ModelDownloadError,
        ConfigurationError,
        EngineFailedError,
        EngineClosedError,
    )
}
"""The class of each type in the catalogue."""


class CatalogueError(Protocol):
    """What the native core raises: a type of the catalogue and a message."""

    type: str
    message: str


def from_core(error: CatalogueError) -> ZlrsError:
    """The exception for an error of the native core; a type without a class becomes an `APIError`."""
    return CLASSES.get(error.type, APIError)(error.message)
