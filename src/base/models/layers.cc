#include "base/models/layers.h"

#include <algorithm>
#include <cmath>

namespace weft::models {
namespace {

// Reads what a layer's own number decides.
class LayerReader {
 public:
  LayerReader(Keys& keys, const Family& family, const Shared& shared, Model& model)
      : keys_(keys), family_(family), shared_(shared), model_(model) {
    experts_ = keys.count_or(
        {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "ffn_config.moe_num_experts"}, 0);
    if (!keys.flag("is_moe", true)) experts_ = 0;  // Doge counts experts that it does not have
    if (experts_ > 0) read_experts();
    const Mixer plain = shared.attention.kv_rank > 0 ? Mixer::kLatent : Mixer::kAttention;
    attention_ = plain;
  }

  Layer layer(std::int64_t l) {
    Layer layer;
    layer.mixer = mixer_of_layer(keys_, family_.hybrid, l, shared_.layers, attention_);
    layer.attention = attention(l);
    if (layer.recurs()) {
      if (!recurrent_) recurrent_ = recurrent_mixer(keys_, family_.hybrid, model_, shared_.attention);
      layer.recurrent = *recurrent_;
    }
    layer.feed = feed(l);
    block_config(l, layer);
    compressed_cache(l, layer);
    return layer;
  }

 private:
  void read_experts() {
    sparse_.experts = experts_;
    sparse_.top_k = keys_.need({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k",
                                "moe_topk", "moe_k", "top_k_experts", "num_selected_experts", "ffn_config.moe_top_k"});
    sparse_.expert_width =
        keys_.count_or({"moe_intermediate_size", "expert_ffn_hidden_size", "ffn_config.ffn_hidden_size"}, shared_.ffn);
    sparse_.latent = keys_.count_or({"moe_latent_size", "routed_expert_hidden_size"}, 0);
    const std::int64_t shared =
        keys_.count_or({"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"}, 0);
    sparse_.shared_width = keys_
                               .count({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                                       "shared_intermediate_size"})
                               .value_or(shared * sparse_.expert_width);
    if (keys_.flag("dense_beside_experts", false)) sparse_.shared_width += shared_.ffn;
    if (sparse_.top_k > sparse_.experts)
      keys_.fail(fmt::format("{}: {} experts per token, but there are {}", keys_.file(), sparse_.top_k, experts_));
    if (sparse_.expert_width == 0 && keys_.asks_for_model())
      keys_.fail(fmt::format("{}: key moe_intermediate_size is missing", keys_.file()));
  }

  bool has_experts(std::int64_t l) {
    if (experts_ == 0) return false;
    if (const std::string word = keys_.word_of_layer("mlp_layer_types", l); !word.empty()) return word != "dense";
    if (const auto* list = keys_.find({"mlp_only_layers"}); list != nullptr && list->is_array())
      for (const auto& dense : *list)
        if (dense.is_number_integer() && dense == l) return false;
    if (const auto* list = keys_.find({"moe_layers"}); list != nullptr && list->is_array())
      return std::any_of(list->begin(), list->end(), [&](const auto& e) { return e.is_number_integer() && e == l; });
    if (const auto* freq = keys_.find({"moe_layer_freq"}); freq != nullptr && freq->is_array())
      return keys_.count_of_layer({"moe_layer_freq"}, l).value_or(1) != 0;
    if (l < keys_.count_or({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"}, 0)) return false;
    if (const auto last = keys_.find({"moe_layer_end_index"});
        last != nullptr && last->is_number_integer() && *last >= 0 && l > *last)
      return false;
    if (const auto period = keys_.count({"expert_layer_period"}); period && *period > 0)
      return l % *period == keys_.count_or({"expert_layer_offset"}, 0) % *period;
    if (const auto step = keys_.count(
            {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", "moe_layer_frequency"});
        step && *step > 0)
      return (l + 1) % *step == 0;
    const std::int64_t every = std::max<std::int64_t>(1, keys_.count_or({"moe_layer_freq"}, 1));
    return l % every == 0;
  }

  Feed feed(std::int64_t l) {
    if (family_.hybrid == "nemotron") {
      const char letter = nemotron_letter(keys_, l);
      return letter == 'E' ? sparse_ : Feed{.width = letter == '-' ? shared_.ffn : 0};
    }
    if (family_.hybrid == "mamba1_only" || family_.hybrid == "mamba2_only") return {};
    if (has_experts(l)) return sparse_;
    // Llama 4 names the width of layers without experts apart; Granite's hybrids that of their only MLP.
    if (experts_ > 0) return {.width = keys_.count_or({"intermediate_size_mlp"}, shared_.ffn)};
    return {.width =
                family_.hybrid == "mamba2" ? keys_.count_or({"shared_intermediate_size"}, shared_.ffn) : shared_.ffn};
  }

  // The window of layer `l`; 0: it sees all.
  std::int64_t window(std::int64_t l) {
    const std::int64_t size = keys_.count_or({"sliding_window", "sliding_window_size"}, 0);
    if (const std::string word = keys_.word_of_layer("layer_types", l); !word.empty())
      return word == "sliding_attention"   ? size
             : word == "chunked_attention" ? keys_.count_or({"attention_chunk_size"}, 0)
                                           : 0;
    if (const auto pattern = keys_.count_of_layer({"hybrid_layer_pattern"}, l); pattern && size > 0)
      return *pattern == 1 ? size : 0;  // MiMo: 1 is a window
    if (family_.window == "all") return size;
    if (family_.window == "alternate") return l % 2 == 0 ? size : 0;
    if (family_.window == "chunked") return (l + 1) % 4 != 0 ? keys_.count_or({"attention_chunk_size"}, 0) : 0;
    if (family_.window == "flagged")
      return keys_.flag("use_sliding_window", false) && l >= keys_.count_or({"max_window_layers"}, 0) ? size : 0;
    if (family_.window == "pattern") {
      if (const std::string letters = keys_.word({"sliding_window_pattern"}); !letters.empty())  // "LLLG"
        return letters[static_cast<std::size_t>(l) % letters.size()] == 'L' ? size : 0;
      const std::int64_t every = keys_.count_or({"sliding_window_pattern"}, 0);
      return every > 0 && (l + 1) % every == 0 ? 0 : size;
    }
    return 0;
  }

  Attention attention(std::int64_t l) {
    Attention a = shared_.attention;
    a.window = window(l);
    const bool bounded =
        keys_.count({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"}).has_value();
    if (bounded && a.window >= model_.seq) a.window = 0;         // it never binds
    if (a.window > 0 && keys_.has("swa_num_key_value_heads")) {  // MiMo: layers with a window have heads of their own
      a.heads = keys_.count_or({"swa_num_attention_heads"}, a.heads);
      a.kv_heads = keys_.count_or({"swa_num_key_value_heads"}, a.kv_heads);
      a.head_dim = keys_.count_or({"swa_head_dim"}, a.head_dim);
      a.value_dim = keys_.count_or({"swa_v_head_dim"}, a.value_dim);
    }
    if (keys_.has("global_head_dim") && a.window == 0) {  // Gemma 4: layers without a window have heads of their own
      a.head_dim = a.value_dim = keys_.need({"global_head_dim"});
      a.kv_heads = keys_.count_or({"num_global_key_value_heads"}, a.kv_heads);
      a.one_projection = keys_.flag("attention_k_eq_v", false);
    }
    if (const std::string word = keys_.word_of_layer("indexer_types", l); word == "shared")
      a.index_heads = a.index_dim = 0;
    if (const std::int64_t sharing = keys_.count_or({"num_kv_shared_layers"}, 0); l >= shared_.layers - sharing)
      a.cached = sharing == 0;
    // Hunyuan's cross-layer attention: each factor-th layer has keys and values, those behind it read them.
    if (const std::int64_t factor = keys_.count_or({"cla_share_factor"}, 1); factor > 1 && keys_.flag("use_cla", false))
      a.cached = a.cached && l % factor == 0;
    return a;
  }

  // Nemotron-NAS: each layer has a block_config of its own.
  void block_config(std::int64_t l, Layer& layer) {
    const auto* blocks = keys_.find({"block_configs"});
    if (blocks == nullptr || !blocks->is_array()) return;
    if (static_cast<std::size_t>(l) >= blocks->size())
      return keys_.fail(
          fmt::format("{}: block_configs has {} elements, but there is a layer {}", keys_.file(), blocks->size(), l));
    const Keys::Json none = Keys::Json::object();
    Keys block(keys_.file(), (*blocks)[static_cast<std::size_t>(l)], none, none);
    const auto flag = [&](const char* name) {
      const auto* at = block.find({name});
      return at != nullptr && at->is_boolean() && at->get<bool>();
    };
    if (flag("attention.no_op") || flag("attention.replace_with_linear")) {
      layer.mixer = Mixer::kNone;
      if (flag("attention.replace_with_linear")) layer.more_parameters += model_.hidden * model_.hidden;
    } else {
      const std::int64_t group = std::max<std::int64_t>(1, block.count_or({"attention.n_heads_in_group"}, 1));
      layer.attention.kv_heads = layer.attention.heads / group;
      layer.attention.window = block.count_or({"attention.window_length"}, 0);
    }
    layer.feed = {};
    if (flag("ffn.replace_with_linear")) layer.more_parameters += model_.hidden * model_.hidden;
    if (flag("ffn.no_op") || flag("ffn.replace_with_linear")) return;
    if (const auto width = block.count({"ffn.intermediate_size"}); width && *width > 0) {
      layer.feed.width = *width;
      return;
    }
    // ffn_mult times hidden, two thirds of it for a gated MLP, rounded up to a multiple of 256.
    const auto* times = block.find({"ffn.ffn_mult"});
    if (times == nullptr || !times->is_number())
      return keys_.fail(fmt::format("{}: block_configs: layer {} has no ffn_mult", keys_.file(), l));
    const auto width = static_cast<std::int64_t>(2 * times->get<double>() * static_cast<double>(model_.hidden) / 3);
    layer.feed.width = (width + 255) / 256 * 256;
  }

  // DeepSeek-V4: compress_ratios says how many tokens share one entry of the cache; 0: the window only. Compressors
  // are two projections per entry, of doubled width where entries overlap (ratio 4, which also has the indexer).
  void compressed_cache(std::int64_t l, Layer& layer) {
    std::int64_t ratio = 0;
    if (keys_.has("compress_ratios"))
      ratio = keys_.count_of_layer({"compress_ratios"}, l).value_or(0);
    else if (keys_.has("compress_rates"))  // transformers 5: by the kind of the layer
      ratio = keys_.count_or({("compress_rates." + keys_.word_of_layer("layer_types", l)).c_str()}, 0);
    else
      return;
    Attention& a = layer.attention;
    a.one_tensor = true;
    a.window = keys_.count_or({"sliding_window"}, 0);
    a.compress = std::max<std::int64_t>(1, ratio);
    constexpr std::int64_t kOverlapping = 4;
    if (ratio != kOverlapping) a.index_heads = a.index_dim = 0;
    if (ratio == 0) return;
    const std::int64_t times = ratio == kOverlapping ? 2 : 1;
    layer.more_parameters += 2 * times * model_.hidden * (a.head_dim + a.index_dim);
  }

  Keys& keys_;
  const Family& family_;
  const Shared& shared_;
  Model& model_;
  std::int64_t experts_ = 0;
  Feed sparse_;
  Mixer attention_ = Mixer::kAttention;
  std::optional<Recurrent> recurrent_;
};

}  // namespace

void read_layers(Keys& keys, const Family& family, const Shared& shared, Model& model) {
  LayerReader reader(keys, family, shared, model);
  for (std::int64_t l = 0; l < shared.layers && keys.error().empty(); ++l) {
    model.layers.push_back(reader.layer(l));
    for (int block = 1; block < family.blocks; ++block) {
      if (block == 1 && model.layers.back().has_experts()) model.layers.back().feed.shared_width += shared.ffn;
      Layer dense = reader.layer(l);
      dense.feed = {.width = shared.ffn};
      model.layers.push_back(std::move(dense));
    }
  }
}

}  // namespace weft::models
