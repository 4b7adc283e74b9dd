"""Times training steps of transformers' models with random weights on one GPU, and says what memory they take.

    python3 bench/gpu/training_steps.py [FOLDER [kept]]    rows for `weft train --compare` in FOLDER/steps.csv

Weights, gradients and AdamW's states are bfloat16, attention is PyTorch's scaled_dot_product_attention, kernels are not
compiled unless the row says so. A row is the median of ten steps by events after three; memory is the peak of what
the allocator had reserved during them, and of what was allocated. A plan that does not fit is a row that says so.
"""

import csv
import gc
import pathlib
import sys
import time

import torch
import transformers

# name: model type, then hidden, layers, heads, kv heads, ffn, vocabulary (as the published config.json of each)
MODELS = {
    "gpt2": ("gpt2", 768, 12, 12, 12, 3072, 50257),
    "gpt2-xl": ("gpt2", 1600, 48, 25, 25, 6400, 50257),
    "llama-3.2-1b": ("llama", 2048, 16, 32, 8, 8192, 128256),
    "llama-3.2-3b": ("llama", 3072, 28, 24, 8, 8192, 128256),
    "llama-3.1-8b": ("llama", 4096, 32, 32, 8, 14336, 128256),
    "qwen2.5-1.5b": ("qwen2", 1536, 28, 12, 2, 8960, 151936),
    "qwen2.5-7b": ("qwen2", 3584, 28, 28, 4, 18944, 152064),
    "mistral-7b": ("mistral", 4096, 32, 32, 8, 14336, 32000),
    "gpt2-medium": ("gpt2", 1024, 24, 16, 16, 4096, 50257),
    "llama2-7b": ("llama", 4096, 32, 32, 32, 11008, 32000),
    "qwen3-1.7b": ("qwen3", 2048, 28, 16, 8, 6144, 151936),
    "qwen3-8b": ("qwen3", 4096, 36, 32, 8, 12288, 151936),
}
TIED = {"gpt2", "gpt2-medium", "gpt2-xl", "llama-3.2-1b", "llama-3.2-3b", "qwen2.5-1.5b", "qwen3-1.7b"}
# model, sequence, sequences of a step, recomputation, compiled
ROWS = [
    ("gpt2", 1024, 8, "none", False),
    ("gpt2", 1024, 32, "none", False),
    ("gpt2-xl", 1024, 8, "none", False),
    ("llama-3.2-1b", 2048, 4, "none", False),
    ("llama-3.2-1b", 8192, 2, "none", False),
    ("llama-3.2-1b", 4096, 8, "full", False),
    ("qwen2.5-1.5b", 4096, 2, "none", False),
    ("llama-3.2-3b", 4096, 2, "none", False),
    ("llama-3.2-3b", 4096, 8, "full", False),
    ("llama-3.1-8b", 4096, 1, "none", False),
    ("llama-3.1-8b", 8192, 2, "full", False),
    ("mistral-7b", 2048, 4, "none", False),
    ("qwen2.5-7b", 4096, 4, "full", False),
    ("llama-3.1-8b", 8192, 8, "none", False),
    ("llama-3.2-1b", 2048, 4, "none", True),
    ("llama-3.1-8b", 4096, 1, "none", True),
]
# Not known when the model learnt from the rows above.
KEPT = [
    ("gpt2-medium", 1024, 16, "none", False),
    ("qwen3-1.7b", 2048, 4, "none", False),
    ("qwen3-1.7b", 8192, 4, "full", False),
    ("llama2-7b", 4096, 2, "none", False),
    ("llama2-7b", 2048, 8, "full", False),
    ("qwen3-8b", 4096, 1, "none", False),
    ("qwen3-8b", 4096, 2, "full", False),
    ("gpt2-medium", 512, 32, "full", False),
    ("llama-3.2-3b", 2048, 2, "none", True),
]


def make(name):
    kind, hidden, layers, heads, kv, ffn, vocabulary = MODELS[name]
    tied = name in TIED
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=hidden, n_layer=layers, n_head=heads, vocab_size=vocabulary, n_positions=1024
        )
    else:
        of = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config, "mistral": transformers.MistralConfig,
              "qwen3": transformers.Qwen3Config}
        config = of[kind](
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv,
            intermediate_size=ffn,
            vocab_size=vocabulary,
            max_position_embeddings=131072,
            tie_word_embeddings=tied,
            **({"head_dim": 128} if kind == "qwen3" else {}),
        )
    config.use_cache = False
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    torch.set_default_dtype(torch.float32)
    return model.train()


def steps(model, optimizer, tokens, count):
    times = []
    for _ in range(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times)[count // 2]


def measure(name, sequence, batch, recompute, compiled):
    model = make(name)
    if recompute == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if compiled:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    tokens = torch.randint(0, MODELS[name][6], (batch, sequence), device="cuda")
    steps(model, optimizer, tokens, 3)
    torch.cuda.reset_peak_memory_stats()
    seconds = steps(model, optimizer, tokens, 10)
    return seconds, torch.cuda.max_memory_allocated() / 2**30, torch.cuda.max_memory_reserved() / 2**30


COLUMNS = (
    "id set group role model arch params_b layers hidden heads kv_heads ffn vocab tied seq gbs mbs gpus gpu network "
    "precision gradient_bytes optimizer_bytes tp pp dp sharding recompute overlap step_s mem_gib extra software source"
).split()


def row(number, name, sequence, batch, recompute, compiled, card):
    kind, hidden, layers, heads, kv, ffn, vocabulary = MODELS[name]
    return dict(
        id=f"G{number:04}", set="one-gpu", group="one-gpu", role="one GPU", model=name, arch="dense", layers=layers,
        hidden=hidden, heads=heads, kv_heads=kv, ffn=ffn, vocab=vocabulary, seq=sequence, gbs=batch, mbs=batch, gpus=1,
        gpu=card, network="one GPU", precision="bf16", gradient_bytes=2, optimizer_bytes=4, tp=1, pp=1, dp=1,
        recompute=recompute, overlap="compiled" if compiled else "eager", tied=int(name in TIED),
        software="transformers 2026.10",
        source=f"bench/gpu/training_steps.py, transformers {transformers.__version__}, torch {torch.__version__}",
    )  # fmt: skip


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    kept = sys.argv[2:] == ["kept"]
    card = torch.cuda.get_device_name().replace("NVIDIA ", "")
    with open(folder / "steps.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for number, plan in enumerate(KEPT if kept else ROWS, 101 if kept else 1):
            line = row(number, *plan, card)
            began = time.time()
            try:
                seconds, allocated, reserved = measure(*plan)
                line |= dict(step_s=f"{seconds:.5f}", mem_gib=f"{reserved:.3f}", extra=f"allocated {allocated:.3f} GiB")
            except torch.OutOfMemoryError:
                line["mem_gib"] = "OOM"
            except Exception as error:  # the other rows are still measured
                line["extra"] = f"{type(error).__name__}: {str(error)[:100]}"
            writer.writerow(line)
            file.flush()
            print(*plan, line.get("step_s"), line.get("mem_gib"), line.get("extra"), f"{time.time() - began:.1f} s", flush=True)
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
