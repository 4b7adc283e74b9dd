#include <algorithm>

#include "base/models/layers.h"

namespace weft::models {
namespace {

// Gated delta net (Qwen3-Next): queries, keys, values, the output's gate, two numbers per value head; a matrix of key
// by value dimension per value head is the state.
Recurrent gated_delta_net(Keys& keys, std::int64_t hidden) {
  const std::int64_t key_heads = keys.need({"linear_num_key_heads"}),
                     value_heads = keys.need({"linear_num_value_heads"});
  const std::int64_t dk = keys.need({"linear_key_head_dim"}), dv = keys.need({"linear_value_head_dim"});
  const std::int64_t kernel = keys.count_or({"linear_conv_kernel_dim"}, 4);
  const std::int64_t k = key_heads * dk, v = value_heads * dv, mixed = 2 * k + v;
  return {"gated delta net",
          hidden * (mixed + v + 2 * value_heads) + kernel * mixed + v * hidden,
          value_heads * dk * dv,
          (kernel - 1) * mixed,
          key_heads,
          dk,
          value_heads,
          dv,
          kernel};
}

// Kimi Delta Attention: queries, keys, values with short convolutions; decay and gate through a rank of one head.
Recurrent kimi_delta(Keys& keys, std::int64_t hidden) {
  const std::int64_t heads = keys.need({"linear_attn_config.num_heads", "linear_num_heads"}),
                     d = keys.need({"linear_attn_config.head_dim", "linear_head_dim"});
  const std::int64_t kernel = keys.count_or({"linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"}, 4),
                     width = heads * d;
  // Of the decay, and of the output's gate, which Kimi-K3 has in full rank.
  const std::int64_t narrow = hidden * d + d * width,
                     gate = keys.flag("linear_attn_config.use_full_rank_gate", false) ? hidden * width : narrow;
  return {"Kimi delta attention",
          3 * hidden * width + narrow + gate + hidden * heads + 3 * kernel * width + width * hidden,
          heads * d * d,
          3 * (kernel - 1) * width,
          heads,
          d,
          heads,
          d,
          kernel};
}

// Lightning attention (MiniMax-01): queries, keys, values, gate, output; a square matrix per head is the state.
Recurrent lightning(std::int64_t hidden, const Attention& a) {
  const std::int64_t width = a.query_width();
  return {"lightning attention",
          5 * hidden * width,
          a.heads * a.head_dim * a.head_dim,
          0,
          a.heads,
          a.head_dim,
          a.heads,
          a.head_dim,
          0};
}

// Mamba 2 (arXiv 2405.21060): one input projection for gate, values, B, C and a step per head.
Recurrent mamba2(Keys& keys, std::int64_t hidden) {
  const std::int64_t expand = keys.count_or({"mamba_expand", "expand"}, 2);
  std::int64_t heads = keys.count_or({"mamba_num_heads", "mamba_n_heads"}, 0);
  std::int64_t d = keys.count_or({"mamba_head_dim", "mamba_d_head"}, 0);
  if (heads == 0 && d == 0) {  // Mamba2Config's own names
    heads = keys.need({"num_heads"});
    d = keys.need({"head_dim"});
  }
  const std::int64_t inner = keys.count({"mamba_d_ssm"}).value_or(heads > 0 && d > 0 ? heads * d : expand * hidden);
  if (heads == 0) heads = d > 0 ? inner / d : 1;
  const std::int64_t groups = keys.count_or({"mamba_n_groups", "n_groups"}, 1);
  const std::int64_t state = keys.need({"ssm_state_size", "mamba_d_state", "state_size"});
  const std::int64_t kernel = keys.count_or({"conv_kernel", "mamba_d_conv"}, 4), mixed = inner + 2 * groups * state;
  return {"Mamba 2",     hidden * (inner + mixed + heads) + kernel * mixed + inner * hidden,
          inner * state, (kernel - 1) * mixed,
          groups,        state,
          heads,         inner / std::max<std::int64_t>(1, heads),
          kernel};
}

// Mamba (arXiv 2312.00752).
Recurrent mamba1(Keys& keys, std::int64_t hidden) {
  const std::int64_t inner = keys.count_or({"mamba_expand", "expand"}, 2) * hidden;
  const std::int64_t state = keys.need({"mamba_d_state", "state_size"});
  const std::int64_t rank = keys.count_or({"mamba_dt_rank", "time_step_rank"}, (hidden + 15) / 16);
  const std::int64_t kernel = keys.count_or({"mamba_d_conv", "conv_kernel"}, 4);
  return {
      "Mamba",
      2 * hidden * inner + kernel * inner + inner * (rank + 2 * state) + rank * inner + inner * state + inner * hidden,
      inner * state,
      (kernel - 1) * inner,
      0,
      0,
      inner,
      1,
      kernel};
}

Recurrent short_convolution(Keys& keys, std::int64_t hidden) {
  const std::int64_t kernel = keys.count_or({"conv_L_cache"}, 3);
  return {
      "short convolution", 4 * hidden * hidden + kernel * hidden, 0, (kernel - 1) * hidden, 0, 0, hidden, 1, kernel};
}

bool listed(Keys& keys, const char* name, std::int64_t value) {
  const auto* list = keys.find({name});
  return list != nullptr && list->is_array() &&
         std::any_of(list->begin(), list->end(), [&](const auto& e) { return e.is_number_integer() && e == value; });
}

}  // namespace

Recurrent recurrent_mixer(Keys& keys, const std::string& hybrid, const Model& model, const Attention& attention) {
  if (hybrid == "gated_delta_net") return gated_delta_net(keys, model.hidden);
  if (hybrid == "kimi_delta") return kimi_delta(keys, model.hidden);
  if (hybrid == "lightning") return lightning(model.hidden, attention);
  if (hybrid == "short_convolution") return short_convolution(keys, model.hidden);
  if (hybrid == "jamba" || hybrid == "mamba1_only") return mamba1(keys, model.hidden);
  return mamba2(keys, model.hidden);
}

char nemotron_letter(Keys& keys, std::int64_t layer) {
  const std::string pattern = keys.word({"hybrid_override_pattern"});
  if (!pattern.empty()) {
    if (static_cast<std::size_t>(layer) < pattern.size()) return pattern[static_cast<std::size_t>(layer)];
    keys.fail(fmt::format("{}: hybrid_override_pattern has {} letters, but there is a layer {}", keys.file(),
                          pattern.size(), layer));
    return 'M';
  }
  const std::string word = keys.word_of_layer("layers_block_type", layer);
  if (word.empty()) {
    keys.fail(fmt::format("{}: neither hybrid_override_pattern nor layers_block_type says what layer {} is",
                          keys.file(), layer));
    return 'M';
  }
  // transformers 5 calls both by their kind.
  if (word == "mamba" || word == "linear_attention") return 'M';
  return word == "attention" || word == "full_attention" ? '*' : word == "moe" ? 'E' : '-';
}

Mixer mixer_of_layer(Keys& keys, const std::string& hybrid, std::int64_t layer, std::int64_t layers, Mixer attention) {
  if (hybrid.empty()) return attention;
  if (hybrid == "parallel_mamba2") return Mixer::kParallel;
  if (hybrid == "mamba1_only" || hybrid == "mamba2_only") return Mixer::kRecurrent;
  if (hybrid == "nemotron") {
    const char letter = nemotron_letter(keys, layer);
    return letter == '*' ? attention : letter == 'M' ? Mixer::kRecurrent : Mixer::kNone;
  }
  if (hybrid == "kimi_delta" && keys.has("linear_attn_config"))  // layers are counted from 1
    return listed(keys, "linear_attn_config.full_attn_layers", layer + 1) ? attention : Mixer::kRecurrent;
  if (hybrid == "jamba") {
    const std::int64_t period = keys.need({"attn_layer_period"}), offset = keys.count_or({"attn_layer_offset"}, 0);
    return layer % period == offset % period ? attention : Mixer::kRecurrent;
  }
  if (const std::string word = keys.word_of_layer("layer_types", layer); !word.empty())
    return word == "full_attention" || word == "attention" || word == "sliding_attention" || word == "chunked_attention"
               ? attention
               : Mixer::kRecurrent;
  if (const auto group = keys.count({"layer_group_size"}); group && *group > 0)  // Ling 2.5 and 3
    return (layer + 1) % *group == 0 ? attention : Mixer::kRecurrent;
  if (keys.has("attn_type_list"))  // MiniMax-01: 1 attention, 0 lightning
    return keys.count_of_layer({"attn_type_list"}, layer).value_or(1) == 1 ? attention : Mixer::kRecurrent;
  for (const char* list : {"attn_layer_indices", "full_attn_idxs"})
    if (keys.has(list)) return listed(keys, list, layer) ? attention : Mixer::kRecurrent;
  if (const auto interval = keys.count({"full_attention_interval"}); interval && *interval > 0)
    return (layer + 1) % *interval == 0 ? attention : Mixer::kRecurrent;
  keys.fail(fmt::format("{}: no key says which of {} layers attend", keys.file(), layers));
  return attention;
}

}  // namespace weft::models
