"""Settings: precedence, origins, and what a wrong one says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zlrs.config import Config, ConfigError, load, schema
from zlrs.config.names import section_keys, sections


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "zlrs.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}


def test_without_any_layer_everything_is_default(tmp_path: Path, home: dict[str, str]) -> None:
    loaded = load(environment=home, folder=tmp_path)
    assert loaded.config == Config()
    assert set(loaded.origins.values()) == {"default"}
    keys = {f"{name}.{key}" for name in sections() for key in section_keys(name)}
    assert set(loaded.origins) == keys | {"upstream", "rule", "price", "factor"}


def test_lists_of_tables_are_checked_and_replaced_as_a_whole(tmp_path: Path, home: dict[str, str]) -> None:
    write(tmp_path / "xdg" / "zlrs", "[[rule]]\nname = 'a'\n[[rule]]\nname = 'b'\nshare = 0.5\n")
    config, origins = load(environment=home, folder=tmp_path)
    assert [(rule.name, rule.share) for rule in config.rule] == [("a", 1.0), ("b", 0.5)]
    project = write(tmp_path, "[[rule]]\nname = 'c'\n[[upstream]]\nname = 'x'\nurl = 'http://h'\n")
    config, origins = load(environment=home, folder=tmp_path)
    assert [rule.name for rule in config.rule] == ["c"]
    assert config.upstream[0].weight == 1.0
    assert origins["rule"] == origins["upstream"] == str(project)
    assert origins["price"] == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]]\nname = 'a'\nshar = 1\n", "unknown key `rule[0].shar`"),
        ("[[rule]]\nname = 'a'\nshare = 2\n", "rule[0].share: expected `float` <= 1.0"),
        ("[[rule]]\nshare = 0.1\n", "rule[0]: object missing required field `name`"),
        ("[rule]\nname = 'a'\n", "`rule` is not a list of tables"),
        ("rule = [1]\n", "`rule` is not a list of tables"),
    ],
)
def test_wrong_lists(tmp_path: Path, home: dict[str, str], text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(environment=home, folder=tmp_path)
    assert str(path) in caught.value.message
    assert message in caught.value.message


def test_later_layers_win_and_are_named(tmp_path: Path, home: dict[str, str]) -> None:
    user = write(
        tmp_path / "xdg" / "zlrs", "[server]\nport = 1\nhost = '::1'\nqueue_limit = 3\nping_seconds = 5\n"
    )
    project = write(tmp_path, "[server]\nport = 2\nqueue_limit = 4\nping_seconds = 6\n")
    environment = {**home, "ZLRS_SERVER_PORT": "3", "ZLRS_SERVER_QUEUE_LIMIT": "5"}
    config, origins = load(
        environment=environment, folder=tmp_path, flags={"server.port": 4, "server.host": None}
    )
    assert (config.server.host, origins["server.host"]) == ("::1", str(user))
    assert (config.server.ping_seconds, origins["server.ping_seconds"]) == (6.0, str(project))
    expected = (5, "environment ZLRS_SERVER_QUEUE_LIMIT")
    assert (config.server.queue_limit, origins["server.queue_limit"]) == expected
    assert (config.server.port, origins["server.port"]) == (4, "command line")


def test_a_named_file_replaces_the_project_file(tmp_path: Path, home: dict[str, str]) -> None:
    write(tmp_path, "[server]\nport = 2\n")
    other = write(tmp_path / "other", "[server]\nport = 7\n")
    assert load(file=str(other), environment=home, folder=tmp_path).config.server.port == 7
    by_variable = load(environment={**home, "ZLRS_CONFIG": str(other)}, folder=tmp_path)
    assert by_variable.config.server.port == 7


@pytest.mark.parametrize(
    ("text", "message", "suggestion"),
    [
        ("[server]\nprot = 1\n", "unknown key `server.prot`", "`port`"),
        ("[servr]\nport = 1\n", "unknown section [servr]", "`server`"),
        ("port = 1\n", "`port` stands outside a section", "[server]"),
        ("[server]\nport = 'a'\n", "server.port: expected `int`, got `str` (given 'a')", ""),
        ("[server]\nport = 70000\n", "<= 65535 (given 70000)", ""),
        ("[server]\nport = true\n", "got `bool`", ""),
        ("[server]\nallowed_hosts = [1]\n", "server.allowed_hosts[0]: expected `str`, got `int`", ""),
        ("[headers]\nreceipts = 'maybe'\n", "headers.receipts: invalid enum value 'maybe'", ""),
        ("[server\n", "is not TOML", ""),
    ],
)
def test_wrong_settings_name_file_key_and_way_out(
    tmp_path: Path, home: dict[str, str], text: str, message: str, suggestion: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(environment=home, folder=tmp_path)
    assert str(path) in caught.value.message
    assert message in caught.value.message
    assert suggestion in caught.value.suggestion


def test_an_error_in_an_overridden_layer_is_an_error_all_the_same(
    tmp_path: Path, home: dict[str, str]
) -> None:
    write(tmp_path, "[server]\nport = 'a'\n")
    with pytest.raises(ConfigError):
        load(environment=home, folder=tmp_path, flags={"server.port": 1})


@pytest.mark.parametrize(
    ("variable", "value", "message", "suggestion"),
    [
        ("ZLRS_SERVER_PROT", "1", "unknown environment variable ZLRS_SERVER_PROT", "`ZLRS_SERVER_PORT`"),
        ("ZLRS_SERVER_PORT", "x", "environment ZLRS_SERVER_PORT: server.port", ""),
        ("ZLRS_GRAPH_ENABLED", "perhaps", "graph.enabled", ""),
    ],
)
def test_wrong_variables(
    tmp_path: Path, home: dict[str, str], variable: str, value: str, message: str, suggestion: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environment={**home, variable: value}, folder=tmp_path)
    assert message in caught.value.message
    assert suggestion in caught.value.suggestion


def test_variables_of_others_and_lists(tmp_path: Path, home: dict[str, str]) -> None:
    environment = {**home, "ZLRS_HOME": "/x", "ZLRS_ISA": "naive", "ZLRS_SERVER_MODEL_ALIASES": "a, b,,c"}
    environment["ZLRS_GRAPH_ENABLED"] = "true"
    config = load(environment=environment, folder=tmp_path).config
    assert config.server.model_aliases == ["a", "b", "c"]
    assert config.graph.enabled is True


def test_files_that_cannot_be_read(tmp_path: Path, home: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(file=str(tmp_path / "absent.toml"), environment=home, folder=tmp_path)
    (tmp_path / "zlrs.toml").write_bytes(b"[server]\nhost = '\xff'\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(environment=home, folder=tmp_path)
    (tmp_path / "zlrs.toml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(ConfigError, match="may have"):
        load(environment=home, folder=tmp_path)


def test_the_schema_describes_every_key() -> None:
    described = json.dumps(schema())
    for name in sections():
        for key in section_keys(name):
            assert f'"{key}"' in described
    definitions = schema()["$defs"]
    assert isinstance(definitions, dict)
    assert all(entry["additionalProperties"] is False for entry in definitions.values())
