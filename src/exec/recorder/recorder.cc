#include "exec/recorder/recorder.h"

#include <unistd.h>

#include <cstring>

namespace weft::recorder {
namespace {

constexpr int kFirst = 32;  // communicators may be many, each with few operations: the header and these fill one page
static_assert(Layout::bytes_for(kFirst) <= Layout::kPage);
constexpr std::uint64_t kNever = ~std::uint64_t{0};

template <std::size_t N>
void copy(char (&field)[N], const std::string& text) {
  std::strncpy(field, text.c_str(), N - 1);
}

}  // namespace

std::unique_ptr<Recorder> Recorder::open(const Identity& identity, RecordPool& pool) {
  int entries = kFirst;
  Room room = pool.take(entries);
  if (room.memory() == nullptr) return nullptr;
  auto recorder = std::unique_ptr<Recorder>(new Recorder(std::move(room), pool.layout()));
  recorder->set_entries(entries);
  Header& h = recorder->header();
  h.pid = getpid();
  h.rank = identity.rank;
  h.ranks = identity.ranks;
  h.labels_at = pool.layout().labels_at();
  h.anchor = Anchor::now();
  copy(h.job, identity.job);
  copy(h.group, identity.group);
  copy(h.transport, identity.transport);
  h.magic.store(kMagic, std::memory_order_release);
  return recorder;
}

void Recorder::waits_for_tagged(bool sends, Rank peer, std::int32_t tag, std::uint64_t bytes) {
  constexpr auto kPlain = std::memory_order_relaxed;
  Tagged& t = header().tagged;
  std::atomic_thread_fence(
      std::memory_order_release);  // readers see that the last wait has ended before this one's fields
  t.peer.store(peer, kPlain);
  t.tag.store(tag, kPlain);
  t.bytes.store(bytes, kPlain);
  t.since.store(ticks(), kPlain);
  t.waits.store(sends ? Tagged::kSend : Tagged::kReceive, std::memory_order_release);
}

void Recorder::set_entries(int entries) {
  mask_ = static_cast<std::uint64_t>(entries) - 1;
  full_at_ = entries < layout_.entries ? static_cast<std::uint64_t>(entries) : kNever;
  header().entries.store(entries, std::memory_order_release);
}

void Recorder::grow() {
  const int entries = header().entries.load(std::memory_order_relaxed), twice = 2 * entries;
  const std::size_t before = Layout::bytes_for(entries), bytes = Layout::bytes_for(twice);
  if (room_.make_pages(before, bytes - before, bytes))
    set_entries(twice);
  else
    full_at_ = kNever;
}

std::uint32_t Recorder::label(const Label& label) {
  Header& h = header();
  const int known = h.labels.load(std::memory_order_relaxed);
  for (int i = 0; i < known; ++i)
    if (std::memcmp(&kinds()[i].label, &label, sizeof label) == 0) return static_cast<std::uint32_t>(i);
  const std::size_t at = h.labels_at + static_cast<std::size_t>(known) * sizeof(Kind);
  if (known == kLabels || !room_.make_pages(at, sizeof(Kind), Layout::bytes_for(1))) return kLabels;
  kinds()[known].label = label;
  h.labels.store(known + 1, std::memory_order_release);
  return static_cast<std::uint32_t>(known);
}

Status Recorder::trace(const TraceOptions& options, const Identity& identity) {
  WEFT_TRY(trace_, Trace::open(options, identity));
  return {};
}

void Recorder::trace_call() {
  if (!trace_->wants(Category::kCall)) return;
  constexpr auto kPlain = std::memory_order_relaxed;
  const Label& l = label_of(header(), current_->label.load(kPlain));
  std::string arguments = fmt::format("\"number\":{},\"count\":{},\"well\":{}", current_->number.load(kPlain),
                                      current_->count.load(kPlain), current_->state.load(kPlain) == State::kDone);
  if (l.algorithm[0] != 0)
    arguments += fmt::format(",\"type\":\"{}\",\"algorithm\":\"{}\",\"protocol\":\"{}\",\"channels\":{}", l.type,
                             l.algorithm, l.protocol, l.channels);
  trace_->call(l.collective, std::move(arguments), current_->started.load(kPlain), current_->finished.load(kPlain));
}

Snapshot Recorder::snapshot() const {
  Snapshot s = read(header(), static_cast<std::size_t>(header().entries.load(std::memory_order_relaxed)));
  s.program = facts_of(s.pid).program;
  return s;
}

}  // namespace weft::recorder
