"""JSON lines on stderr. What is logged is chosen field by field; what slips through is redacted."""

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


def to_stderr(level: int = logging.INFO) -> None:
    """Send every logger's records to stderr in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
