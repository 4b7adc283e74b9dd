import torch, torch.distributed as dist
from weftcomm_torch import experts

dist.init_process_group("weft")
owners = experts.owners(8)                                 # 8 experts, in equal blocks over the ranks
layers = {e: torch.nn.Linear(16, 16) for e in range(8) if owners[e] == dist.get_rank()}
tokens, scores = torch.randn(5, 16), torch.randn(5, 8)     # any number of tokens, also none
weights, chosen = scores.softmax(dim=1).topk(2)
rows, routing = experts.dispatch(tokens, chosen, owners)   # rows for this rank's experts, one expert after the other
outputs = torch.cat([layers[e](part) for e, part in zip(routing.experts, rows.split(routing.counts))])
result = experts.combine(outputs, routing, weights)        # per token the sum of weight times output
result.square().sum().backward()
print(list(result.shape))
dist.destroy_process_group()
