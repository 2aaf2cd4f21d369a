"""The exception classes against the table in the native core."""

from __future__ import annotations

import pickle

import pytest

from zlrs import _core, errors
from zlrs.errors import ZlrsError, from_core

TABLE = [
    (name, status, when, class_name, suggestion, code)
    for (name, status, when), (_, class_name, suggestion, code) in zip(
        _core.error_catalogue(), _core.error_classes(), strict=True
    )
]


@pytest.mark.parametrize(("name", "status", "when", "class_name", "suggestion", "code"), TABLE)
def test_each_type_has_its_class(
    name: str, status: int, when: str, class_name: str, suggestion: str, code: str | None
) -> None:
    found = errors.CLASSES[name]
    assert found is getattr(errors, class_name)
    assert (found.type, found.default_status) == (name, status)
    assert (found.default_suggestion, found.default_code) == (suggestion, code)
    assert found.__doc__ is not None
    assert found.__doc__.rstrip(".").replace("`", "").lower() == when.lower()


def test_there_is_no_class_without_a_type() -> None:
    assert list(errors.CLASSES) == [name for name, *_ in TABLE]
    assert set(ZlrsError.__subclasses__()) == set(errors.CLASSES.values())


def core_error(kind: str, message: str) -> _core.CoreError:
    error = _core.CoreError(kind, message)
    error.type, error.message = kind, message
    return error


def test_core_errors_find_their_class() -> None:
    error = from_core(core_error("kv_corrupt", "the state is damaged"))
    assert type(error) is errors.KvCorruptError
    assert (error.type, error.status, error.message) == ("kv_corrupt", 409, "the state is damaged")
    assert (error.code, str(error)) == ("ERR_KV_CORRUPT_0x7F", "the state is damaged")
    assert error.suggestion.startswith("Send the whole conversation")


def test_an_unknown_type_is_an_api_error() -> None:
    error = from_core(core_error("never_heard_of", "x"))
    assert (type(error), error.status) == (errors.APIError, 500)


def test_an_instance_may_say_more_than_its_class() -> None:
    error = errors.InvalidRequestError("no", suggestion="yes", status=405, code="c")
    copy = pickle.loads(pickle.dumps(error))
    for each in (error, copy):
        assert (each.type, each.status, each.suggestion, each.code) == (
            "invalid_request_error",
            405,
            "yes",
            "c",
        )
