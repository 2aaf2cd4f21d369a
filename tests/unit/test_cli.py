"""The `zlrs` command: help, typos, exit codes, errors, configuration verbs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from zlrs.cli import main
from zlrs.cli import verbs as verb_table
from zlrs.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quiet_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in [name for name in os.environ if name.startswith("ZLRS_")]:
        monkeypatch.delenv(name)


def use_verb(monkeypatch: pytest.MonkeyPatch, command: verb_table.Command) -> None:
    """Make `zlrs try` run `command`."""
    table = {"try": verb_table.Verb("try", "for the test", lambda: command)}
    monkeypatch.setattr("zlrs.cli.dispatch.all_verbs", lambda: table)


def test_help_names_every_verb(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for verb in verb_table.OWN:
        assert f"  {verb.name} " in shown
    assert main([]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("verb", [verb.name for verb in verb_table.OWN])
def test_every_verb_loads_and_helps(verb: str, capsys: Captured) -> None:
    assert main([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: zlrs {verb}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["srve"], "Did you mean `serve`?"),
        (["xyzzy"], "Verbs: "),
        (["serve", "--prot", "1"], "Did you mean `--port`?"),
        (["serve", "--prot=1"], "Did you mean `--port`?"),
        (["serve", "--port", "x"], "invalid int value"),
        (["serve", "--receipts", "onn"], "Did you mean `on`?"),
        (["serve", "--por", "1"], "--port"),
        (["config", "chekc"], "Did you mean `check`?"),
        (["models"], "ACTION"),
    ],
)
def test_wrong_usage_is_2_and_names_the_nearest(arguments: list[str], says: str, capsys: Captured) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert says in captured.err


def test_failures_are_1_with_message_and_hint(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def fail(_: Sequence[str]) -> int:
        raise ConfigError("the limit is 5 (given 6)", "Give 5")

    use_verb(monkeypatch, fail)
    assert main(["try"]) == 1
    assert capsys.readouterr().err == "error: the limit is 5 (given 6)\nhint: Give 5\n"


def test_faults_of_ours_show_where(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def fail(_: Sequence[str]) -> int:
        raise ZeroDivisionError

    use_verb(monkeypatch, fail)
    assert main(["try"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interruption_is_130_and_verbs_get_their_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> int:
        seen.append(arguments)
        if arguments:
            raise KeyboardInterrupt
        return 0

    use_verb(monkeypatch, run)
    assert main(["try"]) == 0
    assert main(["try", "--a", "b"]) == 130
    assert seen == [[], ["--a", "b"]]


def test_colour_is_a_matter_of_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["srve"])
    assert "\x1b[31merror:" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    main(["srve"])
    assert "\x1b[" not in capsys.readouterr().err


def test_a_closed_pipe_is_no_failure() -> None:
    command = f"{sys.executable} -m zlrs config schema | head -c 1 > /dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_and_build_info(capsys: Captured) -> None:
    import zlrs

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"zlrs {zlrs.__version__}\n"
    assert main(["build-info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == zlrs.build_info()


def test_config_check(tmp_path: Path, capsys: Captured) -> None:
    assert main(["config", "check"]) == 0
    path = tmp_path / "other.toml"
    path.write_text("[server]\nprot = 1\n", encoding="utf-8")
    assert main(["config", "check", str(path)]) == 1
    assert "unknown key `server.prot`" in capsys.readouterr().err


def test_config_show_round_trips_and_names_origins(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zlrs.toml").write_text("[server]\nport = 81\n", encoding="utf-8")
    monkeypatch.setenv("ZLRS_SERVER_HOST", "::1")
    assert main(["config", "show", "--origin"]) == 0
    shown = capsys.readouterr().out
    assert f"port = 81  # {tmp_path / 'zlrs.toml'}" in shown
    assert 'host = "::1"  # environment ZLRS_SERVER_HOST' in shown
    again = tmp_path / "again.toml"
    again.write_text(shown, encoding="utf-8")
    assert main(["config", "check", str(again)]) == 0
    capsys.readouterr()
    assert main(["config", "show", "--json", "--origin"]) == 0
    entry = json.loads(capsys.readouterr().out)["server"]["host"]
    assert entry == {"value": "::1", "origin": "environment ZLRS_SERVER_HOST"}


def test_config_schema_is_json(capsys: Captured) -> None:
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "zlrs.toml"


def test_an_installed_package_cannot_replace_a_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    points = [
        EntryPoint("serve", "evil:command", verb_table.GROUP),
        EntryPoint("more", "m:c", verb_table.GROUP),
    ]
    monkeypatch.setattr(verb_table, "entry_points", lambda group: points if group == verb_table.GROUP else [])
    table = verb_table.all_verbs()
    assert table["serve"] in verb_table.OWN
    assert "more" in table
