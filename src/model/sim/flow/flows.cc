#include "model/sim/flow/flows.h"

#include <algorithm>

namespace weft::sim {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

void Flows::start(const Load& load) {
  const MaxMin::Flow f = rates_.start(load.way, load.cap);
  if (transfers_.size() <= index(f)) transfers_.resize(index(f) + 1);
  Transfer& t = transfers_[index(f)];
  t = {.load = load.number, .version = t.version + 1, .left = load.bytes, .rate = 0, .since = around_.time()};
}

void Flows::settle() {
  const Duration now = around_.time();
  for (const MaxMin::Flow f : rates_.solve()) {
    Transfer& t = transfers_[index(f)];
    t.left = std::max(0.0, t.left - t.rate * (now - t.since).s());
    t.since = now;
    record(rates_.path_of(f), rates_.rate(f) - t.rate);
    t.rate = rates_.rate(f);
    around_.remind_anew(Duration::seconds(t.left / t.rate), {.subject = f, .detail = ++t.version});
  }
}

bool Flows::due(const Timer& reminder) const { return transfers_[index(reminder.subject)].version == reminder.detail; }

void Flows::handle(const Timer& reminder) {
  const MaxMin::Flow flow = reminder.subject;
  Transfer& t = transfers_[index(flow)];
  ++t.version;
  record(rates_.path_of(flow), -t.rate);
  rates_.stop(flow);
  around_.through(t.load);
}

// Records that the flows over these links together became faster by `change`.
void Flows::record(MaxMin::Path path, double change) {
  if (timeline_ == nullptr) return;
  for (const auto [r, times] : path) timeline_->level(r, around_.time(), change * times / rates_.capacity(r));
}

}  // namespace weft::sim
