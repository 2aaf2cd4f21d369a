"""`zlrs serve`: load a model and answer both APIs until told to stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.config import ConfigError, load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from zlrs.config import Config
    from zlrs.config.layers import Value
    from zlrs.engine import Engine
    from zlrs.graph import Graph

EPILOG = """\
examples:
  zlrs serve smollm2-135m-instruct-q4_1
  zlrs serve ./model.gguf --port 0 --context-tokens 8192
  zlrs serve qwen2.5-coder-0.5b-instruct-q4_k_m --graph

When requests are answered, one line goes to stdout: `zlrs serve: http://HOST:PORT`.
SIGTERM or Ctrl-C lets running answers finish; a second one ends at once.
"""

FLAGS = {
    "model": "engine.model",
    "threads": "engine.threads",
    "device": "engine.device",
    "kv_precision": "engine.kv_precision",
    "compute": "engine.compute",
    "context_tokens": "engine.context_tokens",
    "kv_bytes": "engine.kv_bytes",
    "mask": "zero_layer.mask",
    "exits": "zero_layer.exits",
    "neurons": "zero_layer.neurons",
    "host": "server.host",
    "port": "server.port",
    "keys_file": "server.keys_file",
    "alias": "server.model_aliases",
    "allow_host": "server.allowed_hosts",
    "queue_limit": "server.queue_limit",
    "drain_seconds": "server.drain_seconds",
    "warmup": "server.warmup",
    "sessions_path": "session.path",
    "receipts": "headers.receipts",
    "log_level": "server.log_level",
    "graph": "graph.enabled",
    "graph_path": "graph.path",
}
"""Flag -> setting."""


def _parser() -> Parser:
    parser = Parser("zlrs serve", "Answer the Messages and Chat APIs with a local model.", EPILOG)
    add = parser.add_argument
    add("model", nargs="?", help="name from `zlrs models list`, path or URL of a GGUF file")
    add("--host", help="address to listen on (127.0.0.1); beyond loopback needs --keys-file")
    add("--port", type=int, help="port (8080); 0 takes a free one")
    add("--threads", type=int, metavar="N", help="worker threads (the cores this process has)")
    add("--device", choices=["auto", "cpu", "cuda"], help="where to compute (a GPU if one can be used)")
    add(
        "--kv-precision",
        choices=["f16", "q8", "q4", "governed"],
        help="aggressive requests' keys and values on a GPU",
    )
    add("--compute", choices=["exact", "aggressive"], help="what requests without X-ZLRS-Compute get (exact)")
    add("--context-tokens", type=int, metavar="N", help="longest prompt plus answer (the model's own window)")
    add("--kv-bytes", type=int, metavar="N", help="hard limit of the KV memory")
    add("--mask", metavar="FILE", help="leave out the parts that a mask names (`zlrs mask build`)")
    add("--neurons", metavar="FILE", help="thresholds for aggressive requests (`zlrs neurons train`)")
    add("--exits", metavar="FILE", help="exit heads for aggressive requests (`zlrs exits train`)")
    add("--keys-file", metavar="FILE", help="one API key a line; then every request needs one")
    add("--alias", action="append", metavar="NAME", help="further model name to answer as; '*' = any")
    add("--allow-host", action="append", metavar="NAME", help="further name a Host header may carry")
    add("--queue-limit", type=int, metavar="N", help="requests waiting and running at once (64)")
    add("--drain-seconds", type=float, metavar="S", help="time answers get to finish after SIGTERM (30)")
    add("--warmup", type=int, metavar="N", help="one-token requests before the server is ready (0)")
    add("--sessions-path", metavar="DIR", help="save sessions there, so that a restart keeps them")
    add("--receipts", choices=["on", "off"], help="response headers that say what was computed (on)")
    add("--log-level", choices=["info", "debug"], help="`debug` tells of every layer that is loaded (info)")
    add("--graph", action="store_const", const=True, help="put the decision graph in front of the engine")
    add("--graph-path", metavar="DIR", help="where the graph is stored, or `memory`")
    add("--config", metavar="FILE", help="configuration instead of ./zlrs.toml")
    return parser


def command(arguments: Sequence[str]) -> int:
    """Serve until a signal."""
    options = _parser().parse_args(arguments)
    config = load(file=options.config, flags=_flags(options)).config
    model = config.engine.model
    if model is None:
        raise ConfigError("no model is named", "Give one: `zlrs serve NAME` (`zlrs models list` shows names)")
    # Imported late: `zlrs serve --help` and errors in settings need no web server.
    from zlrs.server import serve

    asyncio.run(
        serve(
            config,
            lambda progress: _load(model, config, config.zero_layer.mask, progress),
            load_masked=lambda mask: _load(model, _beside(config), mask),
            open_graph=(lambda: _open_graph(config)) if config.graph.enabled else None,
            announce=lambda address: _announce(address, model),
        )
    )
    return 0


def _flags(options: argparse.Namespace) -> dict[str, Value]:
    return {setting: getattr(options, flag) for flag, setting in FLAGS.items()}


def _beside(config: Config) -> Config:
    """The settings of a load with a mask beside the full model.

    Masks run on the processor. Exit heads, thresholds and guesses were measured on the full model, and what
    they promise does not hold for another one.
    """
    structs = msgspec.structs
    return structs.replace(
        config,
        engine=structs.replace(config.engine, device="cpu", kv_precision="f16"),
        zero_layer=structs.replace(config.zero_layer, exits=None, neurons=None),
        self_drafting=structs.replace(config.self_drafting, mode="off", mask=None),
    )


def _load(
    model: str, config: Config, mask: str | None, progress: Callable[[int, int], None] = lambda *_: None
) -> Engine:
    from zlrs.engine import Engine
    from zlrs.governor import Governor
    from zlrs.models import resolve
    from zlrs.progress import Progress

    path = resolve(model)
    with Progress(f"loading {path.name}", path.stat().st_size) as bar:

        def report(done_bytes: int, total_bytes: int) -> None:
            bar.update(done_bytes)
            progress(done_bytes, total_bytes)

        engine = Engine.load(
            model,
            threads=config.engine.threads,
            context_tokens=config.engine.context_tokens,
            kv_bytes=config.engine.kv_bytes,
            drafting=config.engine.drafting,
            device=config.engine.device,
            kv_precision=config.engine.kv_precision,
            governor=Governor(config.engine.governor_policy, config.engine.thermal_limit_c),
            queue_limit=config.server.queue_limit,
            mask=mask,
            mask_fallback=config.zero_layer.fallback,
            self_drafting=config.self_drafting.mode,
            draft_mask=config.self_drafting.mask,
            draft_vocabulary=config.self_drafting.vocabulary_tokens,
            exits=config.zero_layer.exits,
            neurons=config.zero_layer.neurons,
            progress=report,
        )

        _note_mask(engine)
        _note_device(engine, config.engine.device)
        return engine


def _note_device(engine: Engine, wanted: str) -> None:
    """Say where the model is computed, and why not on a GPU, where a GPU was asked for."""
    if wanted == "cpu":
        return
    device, reason = engine.device
    note(f"computing on {device}" if reason is None else f"computing on the processor: {reason}")


def _note_mask(engine: Engine) -> None:
    """Say what became of a mask; the full model needs no word."""
    mask = str(engine.info["mask"])
    if mask == "none":
        return
    if mask != "used":
        note(f"The full model is loaded: {mask}.")
        return
    for index, layer in enumerate(engine.model.layers):
        if not (layer.attention_bytes and layer.mlp_bytes):
            left = (
                "an MLP alone" if layer.mlp_bytes else "attention alone" if layer.attention_bytes else "empty"
            )
            note(f"layer {index}: {left}")


def _open_graph(config: Config) -> Graph:
    from zlrs.graph import DecisionGraph

    # The engine is the upstream itself: who may ask it was decided by its keys.
    return DecisionGraph.open(config.graph, credential_check=False, factors=config.factor)


def _announce(address: str, model: str) -> None:
    print(f"zlrs serve: {address}", flush=True)
    note(
        f"answering as {model}; try:\n"
        f"  curl -s {address}/v1/messages -H 'content-type: application/json' -d "
        f'\'{{"model":"{model}","max_tokens":64,"messages":[{{"role":"user","content":"Hello"}}]}}\''
    )
