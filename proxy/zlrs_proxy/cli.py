"""`zlrs proxy`: flags over `zlrs.toml`, then the sidecar until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import logging
import resource
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from zlrs.config import Config, ConfigError, load
from zlrs.texts import RULES, SAFE_RULES
from zlrs_proxy import logs
from zlrs_proxy.keys_cli import command as keys_command
from zlrs_proxy.settings import (
    CaptureSettings,
    RewriteSettings,
    RuleSettings,
    Settings,
    SettingsError,
    UpstreamSettings,
)
from zlrs_proxy.sidecar import Sidecar
from zlrs_proxy.state import default_folder
from zlrs_proxy.store import graph_opener
from zlrs_proxy.supervisor import Supervisor
from zlrs_proxy.worker import Place, Worker, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from typing_extensions import Self

    from zlrs.config import RewriteSettings as RewriteSection
    from zlrs.config.layers import Value

_LOG = logging.getLogger("zlrs_proxy")
EXIT_FAILED = 1
EXIT_USAGE = 2
_COLLECT_AFTER = 10_000

# Flags that are settings of `zlrs.toml`, by the name of the parsed argument.
_CONFIGURED = {
    "upstream": "proxy.upstream",
    "upstream_is_zlrs": "proxy.upstream_is_zlrs",
    "upstream_ca_file": "proxy.upstream_ca_file",
    "upstream_key_env": "proxy.upstream_key_env",
    "upstream_key_file": "proxy.upstream_key_file",
    "admin": "proxy.admin",
    "admin_token_file": "proxy.admin_token_file",
    "via": "proxy.via",
    "retries": "proxy.retries",
    "recount": "proxy.recount",
    "access_log": "proxy.access_log",
    "host": "proxy.host",
    "port": "proxy.port",
    "workers": "proxy.workers",
    "keys_file": "proxy.keys_file",
    "allowed_hosts": "proxy.allowed_hosts",
    "drain_seconds": "proxy.drain_seconds",
    "first_byte_seconds": "proxy.first_byte_seconds",
    "idle_seconds": "proxy.idle_seconds",
    "store": "graph.path",
    "receipts": "headers.receipts",
}


def command(argv: Sequence[str]) -> int:
    """Run the sidecar, or `keys`; returns the exit code."""
    if argv and argv[0] == "keys":
        return keys_command(argv[1:])
    options = _parser().parse_args(list(argv))

    def settings() -> tuple[Settings, Config]:
        config = load(file=options.config, flags=_flags(vars(options))).config
        return settings_from(config), config

    try:
        first, config = settings()
        opener = None if options.no_graph else graph_opener(config.graph, config.factor)
        logs.to_stderr()
        _allow_descriptors()
        worker = Worker(Place.decode(options.worker)) if options.worker is not None else None
        if worker is None and first.workers > 1:
            with _PlainRunner(asyncio.new_event_loop) as runner:
                return runner.run(_supervise(argv, first))
        with _runner() as runner:
            sidecar = Sidecar(first, opener, worker=worker)
            return runner.run(_serve(sidecar, lambda: settings()[0], worker))
    except (ConfigError, SettingsError) as error:
        return _fail(str(error), EXIT_USAGE)
    except OSError as error:
        return _fail(_explain(error), EXIT_FAILED)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main() -> int:
    """Entry point of `zlrs-proxy`."""
    return command(sys.argv[1:])


def settings_from(config: Config) -> Settings:
    """The sidecar's settings from the configuration.

    Raises:
        SettingsError: There is no upstream, or an address is malformed.
    """
    proxy = config.proxy
    if proxy.upstream is None and not config.upstream:
        raise SettingsError(
            "no upstream: give --upstream URL (for example https://api.anthropic.com), "
            "or set proxy.upstream in zlrs.toml"
        )
    admin_host, admin_port = _address(proxy.admin) if proxy.admin is not None else ("127.0.0.1", None)
    # An upstream that is named alone, by a flag for example, goes before the list.
    listed = () if proxy.upstream is not None else tuple(config.upstream)
    return Settings(
        upstream=proxy.upstream or "",
        upstream_is_zlrs=proxy.upstream_is_zlrs,
        upstream_ca_file=proxy.upstream_ca_file,
        upstream_key_env=proxy.upstream_key_env,
        upstream_key_file=proxy.upstream_key_file,
        upstreams=tuple(UpstreamSettings(**msgspec.structs.asdict(one)) for one in listed),
        retries=proxy.retries,
        retry_after_limit_seconds=proxy.retry_after_limit_seconds,
        breaker_failures=proxy.breaker_failures,
        breaker_open_seconds=proxy.breaker_open_seconds,
        rewrite=_rewrite(config.rewrite),
        capture=CaptureSettings(**msgspec.structs.asdict(config.capture)),
        rules=tuple(RuleSettings(**msgspec.structs.asdict(one)) for one in config.rule),
        cache_ratio=dict(proxy.cache_ratio),
        window_tokens=proxy.window_tokens,
        cut_max_tokens=proxy.cut_max_tokens,
        recount=proxy.recount,
        recount_model=proxy.recount_model,
        access_log=proxy.access_log,
        state_folder=proxy.state_path or str(default_folder()),
        usage_ledger=proxy.usage_ledger,
        host=proxy.host,
        port=proxy.port,
        workers=proxy.workers,
        admin_host=admin_host,
        admin_port=admin_port,
        admin_token_file=proxy.admin_token_file,
        keys_file=proxy.keys_file,
        allowed_hosts=tuple(proxy.allowed_hosts),
        receipts=config.headers.receipts == "on",
        via=proxy.via,
        unknown_paths=proxy.unknown_paths,
        body_limit_bytes=proxy.body_limit_bytes,
        first_byte_seconds=proxy.first_byte_seconds,
        idle_seconds=proxy.idle_seconds,
        ping_seconds=proxy.ping_seconds,
        decide_seconds=proxy.decide_seconds,
        drain_seconds=proxy.drain_seconds,
    )


def _rewrite(section: RewriteSection) -> RewriteSettings:
    rules = {"off": (), "safe": SAFE_RULES, "all": RULES}[section.hygiene]
    return RewriteSettings(
        hygiene=rules,
        redact=tuple(section.redact),
        redact_kept=section.redact_kept,
        auto_temper=tuple(section.auto_temper),
    )


def _runner() -> _PlainRunner:
    """The event loop: uvloop's where it is installed, the standard library's else."""
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return _PlainRunner(asyncio.new_event_loop)
    return _PlainRunner(uvloop.new_event_loop)


def _allow_descriptors() -> None:
    """Two sockets a request: take as many as this process may, often more than it is given."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _PlainRunner:
    """`asyncio.Runner` for Python 3.10, which has none."""

    def __init__(self, make: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._loop = self._make()
        asyncio.set_event_loop(self._loop)
        return self

    def run(self, main: Coroutine[None, None, int]) -> int:
        """Run to the end."""
        assert self._loop is not None  # noqa: S101 - entered
        return self._loop.run_until_complete(main)

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None  # noqa: S101 - entered
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        self._loop.close()


async def _reload(sidecar: Sidecar, read: Callable[[], Settings]) -> None:
    """Read the configuration again; a bad one changes nothing."""
    try:
        kept = sidecar.reload(await asyncio.to_thread(read))
    except (ConfigError, SettingsError) as error:
        sidecar.metrics.reloads.add("bad")
        _LOG.error("the configuration is bad; the old one stays", extra={"fields": {"problem": str(error)}})
        return
    sidecar.metrics.reloads.add("good")
    _LOG.info("configuration reloaded", extra={"fields": {"needs_restart": kept} if kept else {}})


async def _supervise(argv: Sequence[str], settings: Settings) -> int:
    supervisor, ready = Supervisor(argv, settings), asyncio.Event()

    async def say() -> None:
        await ready.wait()
        names = ", ".join(one.name if settings.upstreams else one.url for one in settings.all_upstreams())
        _say(f"zlrs proxy: {supervisor.address} -> {names} ({settings.workers} workers)")
        if supervisor.admin_address is not None:
            _say(f"zlrs proxy: probes and metrics at {supervisor.admin_address}")

    saying = asyncio.ensure_future(say())
    try:
        return await supervisor.run(ready)
    finally:
        saying.cancel()


async def _serve(sidecar: Sidecar, read: Callable[[], Settings], worker: Worker | None) -> int:
    loop = asyncio.get_running_loop()
    reloads: set[asyncio.Task[None]] = set()

    def hang_up() -> None:
        task = loop.create_task(_reload(sidecar, read))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    stopping = asyncio.Event()

    def stop() -> None:
        # A second signal ends the process at once, as it would without us.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await sidecar.start()
    # What is here now stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 50)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    if worker is not None:
        worker.start(sidecar.own_metrics, lambda: cut() if stopping.is_set() else stopping.set())
    else:
        _say(f"zlrs proxy: {sidecar.address} -> {sidecar.upstream_name}")
        if sidecar.admin_address is not None:
            _say(f"zlrs proxy: probes and metrics at {sidecar.admin_address}")
    try:
        await stopping.wait()
    finally:
        await sidecar.stop()
        if worker is not None:
            await worker.stop(sidecar.own_metrics)
    return 0


def _flags(options: Mapping[str, object]) -> dict[str, Value]:
    flags: dict[str, Value] = {}
    for name, key in _CONFIGURED.items():
        value = options.get(name)
        if isinstance(value, (str, int, float, list)):
            flags[key] = list(value) if isinstance(value, list) else value
    return flags


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:  # noqa: PLR2004 - the highest port
        raise SettingsError(f"--admin wants HOST:PORT, for example 127.0.0.1:9090 (given {text!r})")
    return host.strip("[]") or "127.0.0.1", int(port)


def _explain(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{error.strerror or error}. Choose another port with --port, or 0 for a free one"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"{error.strerror or error}. Ports below 1024 need privileges; choose one with --port"
    return error.strerror or str(error)


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(text, flush=True)  # noqa: T201 - the address is this command's output


def _fail(text: str, code: int) -> int:
    print(f"zlrs proxy: {text}", file=sys.stderr)  # noqa: T201 - the command line's own message
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zlrs proxy",
        description="A sidecar between an app and an Anthropic- or OpenAI-compatible API: answers what it "
        "has proven, forwards the rest byte for byte, and says in headers what it did.",
        epilog="Then point the client's base URL at the address that is printed. SIGHUP reads the "
        "configuration again. `zlrs proxy keys --help` makes client keys.",
    )
    add = parser.add_argument
    add("--upstream", metavar="URL", help="what stands behind, for example https://api.anthropic.com")
    add("--host", help="address to listen on (127.0.0.1); beyond loopback needs --keys-file")
    add("--port", type=int, help="port to listen on (8090); 0 takes a free one and prints it")
    add("--worker", help=argparse.SUPPRESS)
    add("--workers", type=int, help="processes that answer, on one address and one store (1)")
    add("--store", metavar="PATH", help="folder of the decision graph; 'memory' keeps it in memory only")
    add("--config", metavar="FILE", help="instead of ./zlrs.toml")
    add("--no-graph", action="store_true", help="relay everything")
    add("--keys-file", metavar="FILE", help="client keys, one a line")
    add(
        "--allowed-host",
        dest="allowed_hosts",
        action="append",
        metavar="NAME",
        help="a name clients use for us",
    )
    add(
        "--upstream-is-zlrs",
        action="store_const",
        const=True,
        help="the upstream is a zlrs: relay its X-ZLRS-* headers",
    )
    add(
        "--upstream-key-env", metavar="NAME", help="variable with the key that replaces the callers' upstream"
    )
    add("--upstream-key-file", metavar="FILE", help="file with that key, instead of a variable")
    add("--upstream-ca-file", metavar="FILE", help="authority of the upstream's certificate (PEM)")
    add("--admin", metavar="HOST:PORT", help="serve probes and metrics there instead of under /zlrs/")
    add("--admin-token-file", metavar="FILE", help="token that metrics need; needed beyond loopback")
    add("--first-byte-seconds", type=float, help="longest wait for the upstream's first byte")
    add("--idle-seconds", type=float, help="longest silence in the middle of an answer")
    add("--drain-seconds", type=float, help="time that answers get to finish after SIGTERM (30)")
    add("--no-receipts", dest="receipts", action="store_const", const="off", help="send no headers of ours")
    add("--retries", type=int, help="further tries, before the first byte, of what is safe to repeat (0)")
    add("--recount", action="store_const", const=True, help="count input tokens beside the upstream's count")
    add("--access-log", action="store_const", const=True, help="one log line for each answer")
    add(
        "--no-via", dest="via", action="store_const", const=False, help="do not add Via to what goes upstream"
    )
    return parser
