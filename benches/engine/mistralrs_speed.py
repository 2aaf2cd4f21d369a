"""Speed of mistral.rs on one model, as JSON on standard output. Runs in the peers' environment.

python mistralrs_speed.py MODEL.gguf PROMPT_TOKENS NEW_TOKENS
"""

import json
import sys
import time
from pathlib import Path

from mistralrs import CompletionRequest, Runner, Which


def main() -> None:
    """Load, warm up, ask once."""
    path, prompt_tokens, new_tokens = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    start = time.perf_counter()
    which = Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name)
    runner = Runner(which, no_paged_attn=True, prefix_cache_n=0)
    load_seconds = time.perf_counter() - start

    def ask(words: int, tokens: int) -> object:
        # Plain completion: a base model has no chat template.
        prompt = " river" * words
        options = {"max_tokens": tokens, "temperature": 0.0, "ignore_eos": True}
        request = CompletionRequest(model="default", prompt=prompt, **options)
        return runner.send_completion_request(request).usage

    ask(4, 2)
    usage = ask(prompt_tokens, new_tokens)
    rates = {
        f"pp{prompt_tokens}": usage.avg_prompt_tok_per_sec,
        f"tg{new_tokens}@0": usage.avg_compl_tok_per_sec,
    }
    print(json.dumps({"load_seconds": load_seconds, "tok_per_s": rates}))


if __name__ == "__main__":
    main()
