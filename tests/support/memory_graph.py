"""A graph without store or proof, for tests of the sidecar's own rooms: it remembers, and can fail."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

from support.mock_upstream import chat_chunks, messages_events


@dataclass
class MemoryDecision:
    """What `MemoryGraph` decided."""

    kind: str
    node: str
    header: str
    audit: str
    content_type: str = ""
    pieces: list[bytes] = field(default_factory=list)
    key: str = ""
    recheck: bool = False

    def replay(self) -> list[bytes]:
        """The answer in the form asked for."""
        return self.pieces


class MemoryGraph:
    """Remembers the text of every whole 200 to a request at temperature 0."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.decided = 0
        self.changes: list = []
        self.settled: list[tuple[str, int, bool]] = []
        self.fail_decide = False
        self.fail_settle = False
        self.decide_delay_s = 0.0
        self.settle_delay_s = 0.0
        self.closed = False
        self._lock = threading.Lock()

    def decide_now(self, *_request) -> None:
        """What is told by `decide` may take its time."""

    def decide(self, method, path, query, headers, body, upstream, now_ms) -> MemoryDecision:
        """Equal in everything but `stream`."""
        self.decided += 1
        time.sleep(self.decide_delay_s)
        if self.fail_decide:
            raise OSError("disk gone")
        if (b"x-zlrs-no-graph", b"true") in headers:
            return MemoryDecision("skipped", "", "skipped;reason=no_graph_header", "aud_1")
        try:
            fields = json.loads(body)
        except ValueError:
            return MemoryDecision("skipped", "", "skipped;reason=malformed", "aud_1")
        if not isinstance(fields, dict) or fields.get("temperature") != 0:
            return MemoryDecision("skipped", "", "skipped;reason=temperature", "aud_1")
        stream = bool(fields.pop("stream", False))
        fields.pop("stream_options", None)
        credentials = sorted(v for n, v in headers if n.lower() in {b"x-api-key", b"authorization"})
        key = repr((upstream, method, path, query, credentials, json.dumps(fields, sort_keys=True)))
        node = f"n{abs(hash(key)):x}"
        with self._lock:
            text = self.texts.get(key)
        if text is None:
            return MemoryDecision("miss", node, f"miss;route=same;node={node}", "aud_2", key=key)
        return self._hit(key, node, text, fields, stream=stream, chat=path.endswith("completions"))

    @staticmethod
    def _hit(key, node, text, fields, *, stream, chat) -> MemoryDecision:
        header = f"hit;route=same;node={node};bound=replay"
        if stream:
            pieces = chat_chunks(text, fields["model"]) if chat else messages_events(text, fields["model"])
            pieces = [piece.replace(b"upstream", b"fresh") for piece in pieces]
            return MemoryDecision("hit", node, header, "aud_3", "text/event-stream", pieces, key)
        if chat:
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            whole = {
                "id": "chatcmpl-fresh",
                "object": "chat.completion",
                "created": 1,
                "model": fields["model"],
                "choices": [choice],
            }
        else:
            whole = {
                "id": "msg_fresh", "type": "message", "role": "assistant", "model": fields["model"],
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
                "usage": {"input_tokens": 11, "output_tokens": 7},
            }  # fmt: skip
        return MemoryDecision(
            "hit", node, header, "aud_3", "application/json", [json.dumps(whole).encode()], key
        )

    def settle(self, decision, status, headers, body, complete, now_ms) -> str:
        """Keep the text of a whole 200."""
        time.sleep(self.settle_delay_s)
        with self._lock:
            self.settled.append((decision.kind, status, complete))
        if self.fail_settle:
            raise OSError("disk full")
        if not decision.key:
            return "not_eligible"
        if status != 200 or not complete:
            return "incomplete" if status == 200 else "status"
        text = text_of(body)
        if text is None:
            return "form"
        with self._lock:
            self.texts[decision.key] = text
        return "stored"

    def note_changes(self, decision, changes) -> None:
        """Remember what was changed."""
        self.changes.append(changes)

    def state(self) -> str:
        """Always in use."""
        return "ready"

    def stats(self) -> dict[str, int]:
        """Numbers for metrics."""
        return {"entries": len(self.texts)}

    def notices(self) -> list[str]:
        """Nothing to say."""
        return []

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Remember that it was asked to."""
        self.closed = True


def text_of(body: bytes) -> str | None:
    """The text of a whole answer in any of the four forms; None when it is not whole."""
    if body.startswith(b"{"):
        answer = json.loads(body)
        if "choices" in answer:
            return answer["choices"][0]["message"]["content"]
        return (
            "".join(block["text"] for block in answer["content"]) if answer.get("type") == "message" else None
        )
    events = [
        json.loads(line[5:])
        for line in body.decode().split("\n")
        if line.startswith("data:") and "[DONE]" not in line
    ]
    if b"message_stop" in body:
        return "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
    if b"[DONE]" in body:
        return "".join(c["choices"][0]["delta"].get("content") or "" for c in events if c["choices"])
    return None
