"""`zlrs serve --graph` with a real model: the repeat comes from the graph, also after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anthropic
import openai
import pytest

from support.real_model import small_model
from support.serve_process import Serving, serve_process, wait_for_metrics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.t1


def ask(serving: Serving, question: str, **headers: str) -> tuple[str, str]:
    """Text and decision of one Messages request."""
    with anthropic.Anthropic(base_url=serving.url, api_key="one-client", max_retries=0) as client:
        response = client.messages.with_raw_response.create(
            model=small_model().stem,
            max_tokens=12,
            messages=[{"role": "user", "content": question}],
            extra_body={"temperature": 0},
            extra_headers=headers,
        )
        return response.parse().content[0].text, response.headers["X-ZLRS-Decision"]  # type: ignore[union-attr]


def test_the_repeat_comes_from_the_graph_also_after_a_restart(tmp_path: Path) -> None:
    start = (str(small_model()), "--graph", "--graph-path", str(tmp_path / "graph"))
    question = "What is the capital of France? One word."
    with serve_process(*start) as serving:
        first, decision = ask(serving, question)
        assert decision.startswith("miss;")
        wait_for_metrics(serving, 'zlrs_graph_settled_total{result="stored"} 1')
        again, decision = ask(serving, question)
        assert decision.startswith("hit;route=same;")
        assert "bound=replay" in decision
        assert again == first
        _, decision = ask(serving, "What is the capital of Italy? One word.")
        assert decision.startswith("miss;")
        _, decision = ask(serving, question, **{"X-ZLRS-No-Graph": "true"})
        assert not decision.startswith("hit")
        with openai.OpenAI(base_url=serving.url + "/v1", api_key="one-client", max_retries=0) as client:
            stream = client.chat.completions.create(
                model=small_model().stem,
                messages=[{"role": "user", "content": question}],
                max_tokens=12,
                temperature=0,
                stream=True,
            )
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    with serve_process(*start) as serving:
        kept, decision = ask(serving, question)
        assert decision.startswith("hit;route=same;")
        assert kept == first


def test_a_store_that_cannot_be_used_costs_only_the_hits(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text("a file where a directory should be", encoding="utf-8")
    with serve_process(str(small_model()), "--graph", "--graph-path", str(tmp_path / "graph")) as serving:
        text, decision = ask(serving, "Say hello.")
        assert text
        assert decision.startswith("skipped;")
        assert "graph_out_of_service" in serving.errors.read_text()
