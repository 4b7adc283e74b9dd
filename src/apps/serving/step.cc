#include "apps/serving/step.h"

#include <algorithm>
#include <cmath>

namespace weft::serving {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

// A kernel of its own writes activations in fewer bits.
bool quantised(kernels::Precision precision) { return kernels::activation_bytes(precision) < 2; }

}  // namespace

void StepModel::gemm(Parts& parts, kernels::Precision precision, double rows, double width, double from) const {
  parts.dense += kernels_.gemm(precision, rows, width, from);
  parts.kernels += 1 + quantised(precision);
}

void StepModel::move(Parts& parts, double bytes, double times) const {
  parts.small += times * small(bytes);
  parts.kernels += times;
}

void StepModel::attention(Parts& parts, const kernels::Sequences& s, double seconds) const {
  parts.attention += seconds;
  if (s.count > 0) parts.kernels += 2;  // parts of the context, which a second kernel combines
}

// The work of the fullest replica of attention.
struct StepModel::Rows {
  double tokens = 0;                   // decoded and read
  double queries = 1;                  // tokens of a sequence that decodes: its next one and drafts
  kernels::Sequences decode, prefill;  // heads are filled in per layer
  double all = 0;                      // tokens of all replicas
};

Parts& Parts::operator+=(const Parts& o) {
  dense += o.dense, attention += o.attention, experts += o.experts, small += o.small;
  tensor += o.tensor, exchange += o.exchange, pipeline += o.pipeline, host += o.host;
  kernels += o.kernels;
  return *this;
}

Parts Parts::operator*(double f) const {
  return {dense * f,    attention * f, experts * f, small * f,  tensor * f,
          exchange * f, pipeline * f,  host * f,    kernels * f};
}

// Every query scores all cached keys of one narrow head (DeepSeek Sparse Attention).
void StepModel::index(const LayerKind& k, const Rows& rows, Parts& parts) const {
  if (k.index_heads == 0) return;
  const double from = d(k.q_rank > 0 ? k.q_rank : shape_.hidden);
  gemm(parts, types_.attention, rows.tokens, d(k.index_heads * k.index_dim), from);
  for (kernels::Sequences s : {rows.decode, rows.prefill}) {
    s.heads = d(k.index_heads) * (s.tokens > 1 ? 1 : rows.queries), s.kv_heads = 1,
    s.head_dim = d(k.index_dim) / 2;  // keys alone
    s.past /= d(k.compress);
    attention(parts, s, kernels_.attention(s, 1));
  }
  move(parts, rows.tokens * d(k.index_top_k) * 4, 2);  // the largest scores
}

void StepModel::attend(const LayerKind& k, const Rows& rows, Parts& parts) const {
  const double tp = d(plan_.tp), h = d(shape_.hidden);
  const double q = d(k.query_width()) / tp, kv = d(k.kv_heads) / tp;
  const double kv_heads = std::max(1.0, kv);
  const double kv_width = kv_heads * d(k.one_tensor || k.one_projection ? k.head_dim : k.head_dim + k.value_dim);
  const double queries = q * (k.output_gate ? 2 : 1);
  gemm(parts, types_.attention, rows.tokens, (k.q_rank > 0 ? d(k.q_rank) : queries) + kv_width, h);
  if (k.q_rank > 0) gemm(parts, types_.attention, rows.tokens, queries, d(k.q_rank));
  move(parts, rows.tokens * (q + kv_width) * 4);  // rotary embedding, write to the cache
  index(k, rows, parts);
  for (kernels::Sequences s : {rows.decode, rows.prefill}) {
    s.heads = std::max(1.0, d(k.heads) / tp) * (s.tokens > 1 ? 1 : rows.queries);
    s.kv_heads = kv_heads;
    s.head_dim = d(k.head_dim);
    s.window = d(k.window);
    if (k.compress > 1) {  // entries of compressed tokens beside the window, of a query in the middle
      const double entries = (s.past + s.tokens / 2) / d(k.compress);
      s.window += k.index_heads > 0 ? std::min(entries, d(k.index_top_k)) : entries;
    }
    if (!k.one_tensor) {
      attention(parts, s, kernels_.attention(s, types_.cache_bytes));
      continue;
    }
    // One tensor for all heads is what latent attention reads, whose prefill's table has 192 + 128 dimensions.
    if (s.tokens > 1) s.heads *= d(k.head_dim + k.value_dim) / 320;
    attention(parts, s, kernels_.latent_attention(s, types_.cache_bytes));
  }
  if (k.out_rank > 0) {
    gemm(parts, types_.attention, rows.tokens, d(k.out_rank), d(k.value_width()) / tp);
    gemm(parts, types_.attention, rows.tokens, h, d(k.out_groups * k.out_rank) / tp);
    return;
  }
  gemm(parts, types_.attention, rows.tokens, h, d(k.value_width()) / tp);
}

void StepModel::latent(const LayerKind& k, const Rows& rows, Parts& parts) const {
  const double tp = d(plan_.tp), h = d(shape_.hidden), heads = d(k.heads) / tp, rank = d(k.kv_rank);
  const double query = heads * d(k.head_dim), value = heads * d(k.value_dim);
  // One GEMM for the compressed queries, keys and values.
  gemm(parts, types_.attention, rows.tokens, d(k.q_rank + k.kv_rank + k.rope_dim), h);
  gemm(parts, types_.attention, rows.tokens, query, d(k.q_rank > 0 ? k.q_rank : shape_.hidden));
  move(parts, rows.tokens * (d(k.q_rank) + rank + query) * 4, 2);  // norms; rotary embedding and cache
  const double index_keys = d(k.index_top_k);
  index(k, rows, parts);
  if (rows.decode.count > 0) {
    kernels::Sequences s = rows.decode;
    s.heads = heads * rows.queries;
    if (k.index_heads > 0) s.window = index_keys;
    // Queries into the latent space and values out of it, head by head.
    const double queries = s.count * rows.queries;
    gemm(parts, kernels::Precision::kBf16, queries, heads * rank, d(k.nope_dim));
    attention(parts, s, kernels_.latent_attention(s, types_.cache_bytes));
    gemm(parts, kernels::Precision::kBf16, queries, value, rank);
  }
  if (rows.prefill.count > 0) {
    kernels::Sequences s = rows.prefill;
    s.heads =
        heads * (d(k.head_dim) + d(k.value_dim)) / 320;  // of DeepSeek's 192 + 128 dimensions, which the table has
    if (k.index_heads > 0) s.window = index_keys;
    gemm(parts, types_.attention, s.count * (s.tokens + s.past), heads * d(k.nope_dim + k.value_dim), rank);
    attention(parts, s, kernels_.latent_attention(s, types_.cache_bytes));
  }
  if (k.output_gate) gemm(parts, types_.attention, rows.tokens, value, h);
  gemm(parts, types_.attention, rows.tokens, h, value);
}

// A state per sequence instead of a cache: linear attention, Mamba, short convolutions.
void StepModel::recur(const LayerKind& k, const Rows& rows, Parts& parts) const {
  const double tp = d(plan_.tp), h = d(shape_.hidden);
  const double values = d(k.recurrent.value_width()) / tp, mixed = d(k.recurrent.mixed_width()) / tp;
  gemm(parts, types_.attention, rows.tokens, d(k.recurrent_inputs(shape_.hidden)) / tp, h);
  move(parts, rows.tokens * mixed * 4, 3);  // short convolution, gates, norm with the output's gate
  if (k.recurrent.state > 0) {
    // The recurrence reads and writes each sequence's state, in 32 bits; a prefill does so once per chunk of 64 tokens.
    const double state = d(k.recurrent.state) / tp * 4;
    const double chunks = rows.prefill.count * std::ceil(rows.prefill.tokens / 64);
    attention(parts, rows.decode, small(2 * state * rows.decode.count));
    if (chunks > 0) attention(parts, rows.prefill, 4 * small(2 * state * chunks));
  }
  gemm(parts, types_.attention, rows.tokens, h, values);
}

void StepModel::mixer(const LayerKind& k, const Rows& rows, Parts& parts) const {
  if (k.attention == Attention::kHeads) attend(k, rows, parts);
  if (k.attention == Attention::kLatent) latent(k, rows, parts);
  if (k.recurs) recur(k, rows, parts);
  const double h = d(shape_.hidden);
  if (k.more_parameters > 0) gemm(parts, types_.attention, rows.tokens, d(k.more_parameters) / h / d(plan_.tp), h);
}

void StepModel::feed(const LayerKind& k, const Rows& rows, Parts& parts) const {
  const double tp = d(plan_.tp), h = d(shape_.hidden), matrices = d(shape_.matrices);
  const auto mlp = [&](double width) {
    gemm(parts, types_.dense, rows.tokens, (matrices - 1) * width / tp, h);
    move(parts, rows.tokens * width / tp * 2 * matrices);
    gemm(parts, types_.dense, rows.tokens, h, width / tp);
  };
  if (!k.feeds()) return;
  if (k.experts == 0) return mlp(d(k.ffn));
  gemm(parts, kernels::Precision::kBf16, rows.tokens, d(k.experts), h);
  move(parts, rows.tokens * d(k.experts) * 4);  // the best experts
  if (k.shared_ffn > 0) mlp(d(k.shared_ffn));
  const double width = d(k.expert_hidden);
  if (width > 0) {  // into the experts' width and back
    gemm(parts, types_.dense, rows.tokens, width, h);
    gemm(parts, types_.dense, rows.tokens, h, width);
  }
  // Tokens are sorted by expert, two GEMMs with the activation between them, the sum; inputs of both are quantised.
  parts.kernels += 5 + 2 * quantised(types_.experts);
  parts.experts += kernels_.experts(types_.experts, {.tokens = rows.all,
                                                     .hidden = width > 0 ? width : h,
                                                     .width = d(k.expert_ffn),
                                                     .experts = d(k.experts),
                                                     .top_k = d(k.top_k),
                                                     .matrices = matrices,
                                                     .tensor = d(plan_.moe_tp()),
                                                     .expert_parallel = d(plan_.ep)});
}

// The collectives of a stage's GPUs in a layer.
Result<Parts> StepModel::between(const LayerKind& k, const Rows& rows) {
  Parts parts;
  const double h = d(shape_.hidden);
  const Network::Group tensor{plan_.tp, 1}, stage{plan_.stage(), 1};
  WEFT_TRY(const double reduced, network_(Collective::kAllReduce, tensor, rows.tokens * h * 2));
  const double times = reduced > 0 ? 1 : 0;
  if (k.mixes()) parts.tensor = reduced, parts.kernels += times;
  if (plan_.dp == 1 || k.experts == 0) {
    if (k.feeds()) parts.tensor += reduced, parts.kernels += times;
    return parts;
  }
  parts.kernels += 2;
  // Replicas of attention bring their tokens to the experts and take the sums back: all of them to everybody, or each
  // to the GPUs of its experts, whichever is faster. They go there in the experts' type and come back in 16 bits.
  const double sent = k.expert_hidden > 0 ? d(k.expert_hidden) : h;
  WEFT_TRY(const double gathered, network_(Collective::kAllGather, stage, rows.all * sent * 2));
  WEFT_TRY(const double scattered, network_(Collective::kReduceScatter, stage, rows.all * sent * 2));
  parts.exchange = gathered + scattered;
  if (plan_.ep == plan_.stage()) {
    // Where the experts do not divide, some lie on several ranks, so that each has as many.
    const std::int64_t placed = (k.experts + plan_.ep - 1) / plan_.ep * plan_.ep;
    const auto bytes = [&](double each) { return static_cast<Bytes>(sent * each); };
    training::Traffic::Experts experts{.token_bytes = bytes(kernels::activation_bytes(types_.experts)),
                                       .per_token = static_cast<int>(k.top_k),
                                       .experts = static_cast<int>(placed)};
    const double tokens = std::ceil(rows.tokens / d(plan_.tp));
    WEFT_TRY(const double there, network_(Collective::kDispatch, stage, tokens, experts));
    experts.token_bytes = bytes(2);
    WEFT_TRY(const double back, network_(Collective::kCombine, stage, tokens, experts));
    // Kernels for one NVLink domain (TensorRT-LLM's) store each copy where it goes, as an all-to-all does.
    const double copies = std::min(d(k.top_k), d(plan_.ep)) * rows.tokens / d(plan_.tp) * sent;
    WEFT_TRY(const double stored,
             network_(Collective::kAllToAll, stage, copies * kernels::activation_bytes(types_.experts)));
    WEFT_TRY(const double taken, network_(Collective::kAllToAll, stage, copies * 2));
    parts.exchange = std::min({parts.exchange, there + back, stored + taken});
  }
  return parts;
}

Result<Parts> StepModel::layer(const LayerKind& kind, const Rows& rows) {
  Parts parts;
  const double norms = (kind.mixes() ? 1 : 0) + (kind.feeds() ? 1 : 0);
  move(parts, rows.tokens * d(shape_.hidden) * 6, norms);  // with the residual sum
  mixer(kind, rows, parts);
  feed(kind, rows, parts);
  WEFT_TRY(const Parts sent, between(kind, rows));
  parts += sent;
  return parts;
}

Result<Parts> StepModel::sample(double outputs) {
  Parts parts;
  if (outputs <= 0) return parts;
  gemm(parts, kernels::Precision::kBf16, outputs, d(shape_.vocab) / d(plan_.tp), d(shape_.hidden));
  WEFT_TRY(parts.tensor, network_(Collective::kAllGather, {plan_.tp, 1}, outputs * d(shape_.vocab) * 2));
  move(parts, outputs * d(shape_.vocab) * 8);
  return parts;
}

// One draft of each sequence: a layer like the most frequent one, behind a projection of the last layer's output and
// the token's embedding, and the output layer (multi-token prediction, EAGLE).
Result<Parts> StepModel::draft(const Rows& like, double decodes) {
  Rows rows{.tokens = like.decode.count, .decode = like.decode, .all = decodes};
  const LayerKind& kind = *std::ranges::max_element(shape_.kinds, {}, &LayerKind::count);
  WEFT_TRY(Parts parts, layer(kind, rows));
  gemm(parts, types_.dense, rows.tokens, d(shape_.hidden) / d(plan_.tp), 2 * d(shape_.hidden));
  WEFT_TRY(const Parts last, sample(rows.tokens));
  parts += last;
  return parts;
}

// Each replica of attention has a scheduler of its own, which sees its own sequences.
double StepModel::host(const Work& work, double layers, const Parts& parts) const {
  double host = engine_.host + engine_.host_per_sequence * std::ceil(work.outputs / d(plan_.dp));
  if (engine_.overlapped) host *= engine_.overlapped_share;
  // Outside CUDA graphs the host launches each layer's kernels.
  if (work.prefills > 0) host = std::max(host, engine_.prefill_host_per_layer * layers);
  const double waited = engine_.overlapped ? std::max(0.0, host - parts.gpu()) : host;
  return waited + kernels::waits_for_host(engine_.launch, parts.kernels * kernels::eager_kernel(), parts.gpu());
}

Result<Parts> StepModel::operator()(const Work& work) {
  // The batch is cut into as many parts as there are stages, which work on them in turn.
  const double pp = d(plan_.pp), dp = d(plan_.dp);
  Rows rows;
  rows.decode.count = std::ceil(work.decodes / dp) / pp;
  rows.decode.past = work.decodes > 0 ? work.context / work.decodes : 0;
  // A sequence is read by one replica: the fullest has at least one. Chunks are not cut: fewer than there are stages
  // leave stages idle, and each crosses all of them.
  const double each = work.prefills > 0 ? std::max(work.prefills / dp, 1.0) : 0;
  const double parts_of_prefill = std::clamp(each, 1.0, pp);
  const double sequences = each / parts_of_prefill;
  if (sequences > 0)
    rows.prefill = {.count = sequences,
                    .tokens = std::max(2.0, work.prefill_tokens / work.prefills),
                    .past = work.prefill_past / work.prefills};
  rows.queries = 1 + engine_.drafts;
  rows.tokens = rows.decode.count * rows.queries + rows.prefill.count * rows.prefill.tokens;
  rows.all = std::max(work.decodes * rows.queries / pp + work.prefill_tokens / parts_of_prefill, rows.tokens);
  Parts total;
  double layers = 0;
  for (const LayerKind& kind : shape_.kinds) {
    WEFT_TRY(const Parts parts, layer(kind, rows));
    total += parts * d(kind.count);
    layers += d(kind.count);
  }
  const double outputs = std::ceil((work.outputs + work.decodes * (rows.queries - 1)) / dp) / pp;
  WEFT_TRY(const Parts last, sample(outputs));
  total += last;
  if (engine_.drafts > 0 && work.decodes > 0) {
    WEFT_TRY(const Parts drafts, draft(rows, work.decodes / pp));
    total += drafts * d(engine_.drafts);
  }
  if (plan_.pp > 1) {
    WEFT_TRY(const double hop,
             network_(Collective::kSendReceive, {2, plan_.stage()}, rows.tokens * d(shape_.hidden) * 2 / d(plan_.tp)));
    total.pipeline = (pp - 1) * hop;
  }
  // The last chunk of a prompt follows the first one stage by stage.
  total = total * (1 + work.behind / pp);
  total.dense *= slow_, total.attention *= slow_, total.experts *= slow_, total.small *= slow_;
  total.host = host(work, layers, total);
  return total;
}

}  // namespace weft::serving
