#include "apps/training/allocations.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "apps/training/layout.h"
#include "apps/training/tensors.h"

namespace weft::training {
namespace {

using Handle = CachingAllocator::Handle;

double d(std::int64_t n) { return static_cast<double>(n); }

constexpr int kSteps = 2;                   // until segments stop growing
constexpr std::int64_t kMoreUnits = 1;      // passes behind the first that are followed, of those that are all alike
constexpr int kGathers = 1, kScatters = 2;  // FSDP's streams

// The allocator, which remembers that a request failed.
class Memory {
 public:
  explicit Memory(const AllocatorSettings& settings) : allocator_(settings) {}

  Handle take(double bytes, int stream = 0) {
    if (bytes < 1 || failed_) return -1;
    const auto block = allocator_.allocate(std::llround(bytes), stream);
    failed_ = !block;
    return block.value_or(-1);
  }
  void drop(Handle& block) {
    if (block >= 0) allocator_.free(std::exchange(block, -1));
  }
  void drop(std::vector<Handle>& blocks) {
    for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) drop(*it);
    blocks.clear();
  }
  void pass(double bytes) {  // needed for a moment
    Handle block = take(bytes);
    drop(block);
  }
  bool failed() const { return failed_; }
  CachingAllocator& allocator() { return allocator_; }

 private:
  CachingAllocator allocator_;
  bool failed_ = false;
};

// A layer, or an embedding or output layer, as far as memory sees it; bytes.
struct Tensors {
  std::vector<SavedTensor> saved, recomputed;  // `recomputed`: what the backward pass makes again; empty: nothing
  std::vector<double> weights;                 // numbers
  double stream = 0;                           // of what passes from layer to layer
  bool wide_norms = false;                     // FP32 copies beside
};

class Steps {
 public:
  Steps(const Model& m, const Plan& plan, std::int64_t stage, const StageMemory& parts, std::int64_t units,
        const AllocatorSettings& settings)
      : m_(m), plan_(plan), stage_(stage), parts_(parts), units_(units), memory_(settings) {
    tokens_ = d(plan.micro_batch * plan.seq) / d(plan.cp);
    for (const bool moe : {false, true}) kinds_[moe ? 1 : 0] = tensors(moe);
    for (const Chunk& chunk : chunks_of(m, plan))
      if (chunk.stage == stage) chunks_.push_back(chunk);
    if (stage == 0) ends_.push_back(d(m.embedding_parameters()) / d(plan.tp));
    if (last() && (!m.tied || plan.pp > 1)) ends_.push_back(d(m.vocab * m.hidden) / d(plan.tp));
    for (const Chunk& chunk : chunks_)
      for (std::int64_t l = 0; l < chunk.layers; ++l) count(kinds_[m.moe_layer(chunk.first + l) ? 1 : 0].weights);
    count(ends_);
  }

  Held run() {
    states();
    std::int64_t before = -1;  // what was reserved when the step began
    for (int step = 0; step < kSteps && !memory_.failed() && memory_.allocator().reserved() != before; ++step) {
      before = step > 0 ? memory_.allocator().reserved() : -1;
      if (step > 0) memory_.allocator().reset_peaks();
      passes();
      if (step == 0) moments();
      memory_.drop(gradients_);
      fresh_ = true;
    }
    CachingAllocator& a = memory_.allocator();
    return {static_cast<double>(a.peak_requested()), static_cast<double>(a.peak_reserved()), a.retries(),
            memory_.failed()};
  }

 private:
  bool last() const { return stage_ == plan_.pp - 1; }
  bool sharded() const { return plan_.gathers_per_pass(); }
  // PyTorch's own modules, whose gradients are made by the backward pass and deleted behind the optimizer.
  bool separate() const { return sharded() || plan_.transformers(); }

  void count(const std::vector<double>& weights) { total_ += std::accumulate(weights.begin(), weights.end(), 0.0); }

  Tensors tensors(bool moe) const {
    Tensors t;
    t.saved = saved_tensors(m_, plan_, moe);
    if (plan_.recompute == Recompute::kFull) {
      Plan kept = plan_;
      kept.recompute = Recompute::kNone;
      t.recomputed = saved_tensors(m_, kept, moe);
    }
    for (SavedTensor& tensor : t.saved) tensor.bytes *= tokens_;
    for (SavedTensor& tensor : t.recomputed) tensor.bytes *= tokens_;
    t.weights = weights_of_layer(m_, plan_, moe);
    t.stream = tokens_ * 2 * d(m_.hidden) / (plan_.sequence_parallel ? d(plan_.tp) : 1);
    t.wide_norms = plan_.composes_layers() && m_.gated;
    return t;
  }

  template <class Each>
  void each_weight(Each&& each) {
    for (const Chunk& chunk : chunks_)
      for (std::int64_t l = 0; l < chunk.layers; ++l)
        for (const double w : kinds_[m_.moe_layer(chunk.first + l) ? 1 : 0].weights) each(w / total_);
    for (const double w : ends_) each(w / total_);
  }
  void state(double bytes, bool in_one) {
    if (in_one)
      memory_.take(bytes);
    else
      each_weight([&](double share) { memory_.take(bytes * share); });
  }

  // Before the first step: weights, the optimizer's copy of them, buffers for gradients.
  void states() {
    const double gathered = sharded() ? 2 * 2 * total_ / d(layers()) : 0;
    state(parts_.parameters - gathered, !separate() && plan_.zero > 0);
    if (!separate()) state(parts_.gradients, true);
    state(parts_.optimizer * copy_share(), flat());
  }
  // Behind the first one: Adam's moments, Muon's single one.
  void moments() {
    const int count = plan_.optimizer == Optimizer::kMuon ? 1 : 2;
    for (int i = 0; i < count; ++i) state(parts_.optimizer * (1 - copy_share()) / count, flat());
  }
  bool flat() const { return plan_.framework == "megatron-deepspeed"; }
  double copy_share() const {
    return plan_.optimizer_bytes >= 8 ? 4.0 / plan_.optimizer_bytes : plan_.optimizer_bytes == 6 ? 1.0 / 3 : 0;
  }
  std::int64_t layers() const {
    std::int64_t count = 0;
    for (const Chunk& chunk : chunks_) count += chunk.layers;
    return std::max<std::int64_t>(1, count);
  }

  // A pass of a chunk over a micro-batch: what its layers hold.
  struct Unit {
    std::size_t chunk = 0;
    std::vector<Handle> inputs;               // of the embedding
    std::vector<std::vector<Handle>> layers;  // what each keeps
  };

  // The schedule's order: passes forward until `units` are held, then one backward for each forward, then the rest.
  void passes() {
    const std::int64_t vp = std::ssize(chunks_);
    const std::int64_t all = plan_.micro_batches() * vp;
    const std::int64_t followed = std::min(all, std::max(units_, vp) + kMoreUnits * vp);
    std::deque<Unit> held;
    for (std::int64_t i = 0; i < followed && !memory_.failed(); ++i) {
      held.push_back({.chunk = static_cast<std::size_t>(i / plan_.pp % vp)});
      forward(held.back());
      if (std::ssize(held) >= units_) backward(held);
    }
    while (!held.empty() && !memory_.failed()) backward(held);
  }

  void forward(Unit& unit) {
    const Chunk& chunk = chunks_[unit.chunk];
    if (stage_ == 0 && unit.chunk == 0) unit.inputs.push_back(memory_.take(kinds_[0].stream));
    Handle out = -1;
    gather(chunk, 0);
    for (std::int64_t l = 0; l < chunk.layers; ++l) {
      gather(chunk, l + 1);
      unit.layers.push_back(forward(chunk, l, out));
      release_gathered();
    }
    memory_.drop(out);
    if (last() && unit.chunk + 1 == chunks_.size()) logits();
  }

  bool recomputes(const Chunk& chunk, std::int64_t layer) const {
    return plan_.recompute != Recompute::kNone && d(layer) < std::round(plan_.recompute_share * d(chunk.layers));
  }
  const Tensors& kind(const Chunk& chunk, std::int64_t layer) const {
    return kinds_[m_.moe_layer(chunk.first + layer) ? 1 : 0];
  }

  // `out`: what the layer passes on; taken when the layer holds most, and kept by the next layer where that recomputes.
  std::vector<Handle> forward(const Chunk& chunk, std::int64_t layer, Handle& out) {
    const Tensors& t = kind(chunk, layer);
    std::vector<Handle> kept;
    if (!t.recomputed.empty() && recomputes(chunk, layer)) {
      kept.push_back(out >= 0 ? std::exchange(out, -1) : memory_.take(t.stream));
      pass(t.recomputed, t.stream, out);
      return kept;
    }
    memory_.drop(out);
    make(t, t.recomputed.empty() ? t.saved : t.recomputed, kept);
    return kept;
  }

  // A pass that keeps nothing: modules delete what they hold when they return, the layer behind its end.
  void pass(const std::vector<SavedTensor>& tensors, double stream, Handle& out) {
    std::vector<Handle> of_layer, of_module;
    int module = 0;
    for (const SavedTensor& tensor : tensors) {
      if (std::exchange(module, tensor.module) != tensor.module) memory_.drop(of_module);
      (tensor.module == 0 ? of_layer : of_module).push_back(memory_.take(tensor.bytes));
    }
    memory_.drop(of_module);
    out = memory_.take(stream);
    memory_.drop(of_layer);
  }

  void make(const Tensors& t, const std::vector<SavedTensor>& tensors, std::vector<Handle>& kept) {
    for (const SavedTensor& tensor : tensors) {
      if (t.wide_norms) memory_.pass(2 * t.stream);
      kept.push_back(memory_.take(tensor.bytes));
    }
    memory_.pass(t.stream);
  }

  // Bytes per logit: the GEMM's result, its FP32 copy, the softmax's logarithm beside where it is not in place.
  void logits() {
    const double count = tokens_ * d(m_.vocab) / d(plan_.tp) * (1 + d(plan_.mtp));
    // FSDP gathers the output layer, a unit of its own.
    Handle output = sharded() && !ends_.empty() ? memory_.take(2 * ends_.back(), kGathers) : -1;
    Handle result = memory_.take(2 * count), wide = memory_.take(4 * count), softmax = -1;
    if (keeps_softmax()) {
      softmax = memory_.take(4 * count);
      memory_.drop(wide);
    }
    memory_.drop(result);
    // Backward. Where the softmax is in place, so is its gradient.
    if (keeps_softmax()) {
      Handle of_loss = memory_.take(4 * count);
      wide = memory_.take(4 * count);
      memory_.drop(of_loss), memory_.drop(softmax);
    }
    result = memory_.take(2 * count);
    memory_.drop(wide);
    memory_.pass(kinds_[0].stream);
    if (!ends_.empty()) gradient(ends_.back());
    memory_.drop(result);
    memory_.drop(output);
    if (sharded() && !ends_.empty()) scatter({ends_.back()});
  }
  bool keeps_softmax() const { return plan_.composes_layers() || plan_.framework == "torchtitan"; }

  void backward(std::deque<Unit>& held) {
    Unit& unit = held.front();
    const Chunk& chunk = chunks_[unit.chunk];
    Handle flows = memory_.take(kinds_[0].stream);
    gather(chunk, chunk.layers - 1);
    for (std::int64_t l = chunk.layers - 1; l >= 0; --l) {
      gather(chunk, l - 1);
      backward(chunk, l, unit.layers[static_cast<std::size_t>(l)]);
      release_gathered();
      scatter(kind(chunk, l).weights);
    }
    memory_.drop(flows);
    memory_.drop(unit.inputs);
    if (stage_ == 0 && unit.chunk == 0 && (ends_.size() > 1 || !last())) {
      gradient(ends_.front());
      scatter({ends_.front()});
    }
    if (unit.chunk == 0) fresh_ = false;
    memory_.drop(scattered_);
    held.pop_front();
  }

  // Gradients of what the layer made, from the last to the first; each is there until the one before it is.
  void backward(const Chunk& chunk, std::int64_t layer, std::vector<Handle>& kept) {
    const Tensors& t = kind(chunk, layer);
    const bool again = !t.recomputed.empty() && recomputes(chunk, layer);
    std::vector<Handle> made;
    if (again) make(t, t.recomputed, made);
    std::vector<Handle>& blocks = again ? made : kept;
    const std::vector<SavedTensor>& tensors = t.recomputed.empty() ? t.saved : t.recomputed;
    Handle gradient_of_next = -1;
    std::size_t weight = t.weights.size();
    for (std::size_t i = blocks.size(); i-- > 0;) {
      Handle own = memory_.take(tensors[i].bytes);
      memory_.drop(gradient_of_next);
      gradient_of_next = own;
      memory_.drop(blocks[i]);
      while (weight > i * t.weights.size() / blocks.size()) gradient(t.weights[--weight]);
    }
    memory_.drop(gradient_of_next);
    memory_.drop(made);
    memory_.drop(kept);
  }

  // A weight's gradient: kept where it is the first of the step, otherwise added to the first and deleted. Megatron-LM
  // adds in its GEMMs, to the buffer.
  void gradient(double weight) {
    if (!separate()) return;
    if (sharded()) {
      unsharded_.push_back(memory_.take(2 * weight));
      return;
    }
    keep_gradient(weight, 0);
  }

  // FSDP: weights of the layer and the one ahead; gradients of a layer, one more copy to send, and the rank's own.
  void gather(const Chunk& chunk, std::int64_t layer) {
    if (!sharded() || layer < 0 || layer >= chunk.layers) return;
    double weights = 0;
    for (const double w : kind(chunk, layer).weights) weights += w;
    gathered_.push_back(memory_.take(2 * weights, kGathers));
  }
  void release_gathered() {
    if (!sharded() || gathered_.empty()) return;
    memory_.drop(gathered_.front());
    gathered_.pop_front();
  }
  void scatter(const std::vector<double>& weights) {
    if (!sharded()) return;
    memory_.drop(scattered_);
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    scattered_.push_back(memory_.take(plan_.gradient_bytes * all, kScatters));
    memory_.drop(unsharded_);
    for (const double weight : weights) keep_gradient(weight, kScatters);
  }

  void keep_gradient(double weight, int stream) {
    const double bytes = parts_.gradients * weight / total_;
    if (fresh_)
      gradients_.push_back(memory_.take(bytes, stream));
    else
      memory_.pass(bytes);
  }

  const Model& m_;
  const Plan& plan_;
  const std::int64_t stage_;
  const StageMemory& parts_;
  const std::int64_t units_;
  Memory memory_;
  double tokens_ = 0, total_ = 0;
  Tensors kinds_[2];
  std::vector<Chunk> chunks_;
  std::vector<double> ends_;  // numbers of the embedding and the output layer
  std::vector<Handle> gradients_, unsharded_, scattered_;
  std::deque<Handle> gathered_;
  bool fresh_ = true;  // the step has no gradients yet
};

}  // namespace

Held allocate_steps(const Model& model, const Plan& plan, std::int64_t stage, const StageMemory& parts,
                    std::int64_t units, const AllocatorSettings& settings) {
  return Steps(model, plan, stage, parts, std::max<std::int64_t>(1, units), settings).run();
}

}  // namespace weft::training
