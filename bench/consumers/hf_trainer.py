"""transformers' Trainer: a Llama of two layers from its configuration, random weights and tokens."""

import tempfile

import torch
from common import finish
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                     num_attention_heads=2, num_key_value_heads=2))  # fmt: skip
tokens = torch.randint(0, 128, (32, 16))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, use_cpu=True, ddp_backend="gloo", max_steps=4, per_device_train_batch_size=4,
                                  report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True)  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=[{"input_ids": t, "labels": t} for t in tokens])
    result = trainer.train()
finish(model, torch.tensor(result.training_loss))
