"""JSON lines on stderr, plain ones on a terminal. What is logged is chosen field by field, and redacted."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import datetime, timezone

_SECRETS = (
    re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',;]+"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{6,}"),
    re.compile(
        r"(?i)([\"']?\b(?:x-api-key|api[-_]?key|authorization|token|secret|key)\b[\"']?\s*[:=]\s*)[^\s&,}]+"
    ),
)


def redact(text: str) -> str:
    """Text without what looks like a credential."""
    for pattern in _SECRETS:
        text = pattern.sub("[redacted]", text)
    return text


class JsonLines(logging.Formatter):
    """One record, one line: time, level, logger, event, and the fields given with `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Render a record. Exceptions appear by name and place: their texts may quote requests."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": redact(record.getMessage()),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= {
                str(key): redact(value) if isinstance(value, str) else value for key, value in fields.items()
            }
        if record.exc_info is not None and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            line["at"] = [f"{frame.filename}:{frame.lineno}" for frame in frames[-8:]]
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """The same for a terminal: time, level, event and fields as a person reads them."""

    def format(self, record: logging.LogRecord) -> str:
        """Render a record."""
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        fields = getattr(record, "fields", None)
        told = "".join(f" {key}={value}" for key, value in fields.items()) if isinstance(fields, dict) else ""
        text = f"{when} {level}{record.getMessage()}{told}"
        if record.exc_info is not None and record.exc_info[0] is not None:
            text += f" ({record.exc_info[0].__name__})"
        return redact(text)


def to_stderr(level: int = logging.INFO) -> None:
    """Send every logger's records to stderr: JSON lines, or plain ones when a person watches."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainLines() if sys.stderr.isatty() else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
