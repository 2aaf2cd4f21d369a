"""Metrics of several workers as one."""

from __future__ import annotations

from zlrs_proxy.tally import Tally, merged, retire

ONE = """\
# HELP zlrs_proxy_requests_total Requests.
# TYPE zlrs_proxy_requests_total counter
zlrs_proxy_requests_total{endpoint="chat"} 3
# TYPE zlrs_proxy_in_flight gauge
zlrs_proxy_in_flight 2
# TYPE zlrs_graph_entries gauge
zlrs_graph_entries 7
# TYPE zlrs_graph_hits gauge
zlrs_graph_hits 5
"""
TWO = ONE.replace(" 3\n", " 4\n").replace("hits 5", "hits 1").replace("entries 7", "entries 6")


def values(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_counts_are_added_and_what_is_shared_is_not() -> None:
    assert values(merged([ONE, TWO])) == {
        'zlrs_proxy_requests_total{endpoint="chat"}': "7",
        "zlrs_proxy_in_flight": "4",
        "zlrs_graph_entries": "7",
        "zlrs_graph_hits": "6",
    }
    assert merged([ONE, TWO]).count("# TYPE zlrs_proxy_requests_total") == 1


def test_what_ended_keeps_its_counts_only() -> None:
    assert values(merged([ONE], TWO)) == {
        'zlrs_proxy_requests_total{endpoint="chat"}': "7",
        "zlrs_proxy_in_flight": "2",
        "zlrs_graph_entries": "7",
        "zlrs_graph_hits": "6",
    }


def test_sums_do_not_go_down_when_a_worker_ends(tmp_path) -> None:
    mine, folder = Tally(str(tmp_path), 0), str(tmp_path)
    (tmp_path / "1.4242.prom").write_text(TWO, encoding="utf-8")
    assert values(mine.sums(ONE))["zlrs_proxy_workers"] == "2"
    retire(folder, 1, 4242)
    (tmp_path / "1.4243.prom").write_text(TWO, encoding="utf-8")
    retire(folder, 1, 4243)
    retire(folder, 1, 4244)  # one that died before it had published anything
    got = values(mine.sums(ONE))
    assert got['zlrs_proxy_requests_total{endpoint="chat"}'] == "11"
    assert (got["zlrs_proxy_in_flight"], got["zlrs_proxy_workers"]) == ("2", "1")
    mine.publish(ONE)
    assert values(mine.sums(ONE))["zlrs_proxy_workers"] == "1"
