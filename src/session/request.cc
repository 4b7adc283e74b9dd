#include "session/request.h"

#include <numeric>

#include "schedule/element.h"

namespace weft::session {

using schedule::Task;

std::string key_of(const Request& r, bool registered) {
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<int>(r.collective), r.count, static_cast<int>(r.type),
                  static_cast<int>(r.op), r.root, r.reproducible, r.algorithm, r.protocol, r.channels, registered);
  if (r.collective == Collective::kAllGatherV || r.collective == Collective::kReduceScatterV)
    key += fmt::format("|{}", fmt::join(r.counts, ","));
  return key;
}

std::string cache_key_of(const Request& r, bool registered, std::optional<Bytes> shift) {
  std::string key = key_of(r, registered);
  if (shift) key += fmt::format("|{} behind", *shift);
  if (r.collective == Collective::kAllToAllV)
    key += fmt::format("|{}|{}", fmt::join(r.counts, ","), fmt::join(r.receive_counts, ","));
  return key;
}

Task chosen_for(const Task& task) {
  if (task.collective != Collective::kAllToAllV) return task;
  constexpr Bytes kPart = 16384;  // elements: where neither latency nor bandwidth alone decides
  Task nominal = task;
  nominal.elements = kPart * task.ranks;
  nominal.counts = std::make_shared<std::vector<Bytes>>(task.counts->size(), kPart);
  return nominal;
}

namespace {

bool overlap(const void* a, Bytes a_bytes, const void* b, Bytes b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + static_cast<std::uintptr_t>(b_bytes) && second < first + static_cast<std::uintptr_t>(a_bytes);
}

}  // namespace

Status check_buffers(const Request& r, const schedule::Algorithm& algorithm, Bytes in_bytes, Bytes out_bytes) {
  if ((in_bytes > 0 && r.in == nullptr) || (out_bytes > 0 && r.out == nullptr))
    return bad_input("{} of {} elements: null buffer", schedule::name(r.collective), r.count);
  if (in_bytes == 0 || out_bytes == 0) return {};
  return schedule::check_place(algorithm, overlap(r.in, in_bytes, r.out, out_bytes));
}

bool overwrites_input(const Request& r) { return r.in == r.out && !schedule::may_be_in_place(r.collective); }

std::optional<Bytes> shift_of(const Request& r, Bytes in_bytes, Bytes out_bytes) {
  if (!overlap(r.in, in_bytes, r.out, out_bytes) || overwrites_input(r)) return std::nullopt;
  return static_cast<const std::byte*>(r.out) - static_cast<const std::byte*>(r.in);
}

Status check_request(const Request& r, Rank ranks) {
  const auto name = schedule::name(r.collective);
  const auto parts = static_cast<std::size_t>(schedule::message_parts(r.collective, ranks));
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(r.count, parts * static_cast<std::size_t>(size_of(r.type)), &bytes) ||
      bytes > kAddressSpace)
    return bad_input("{}: {} elements do not fit into memory", name, r.count);
  if (r.root < 0 || r.root >= ranks) return bad_input("{}: root {} of {} ranks", name, r.root, ranks);
  const auto count = static_cast<std::size_t>(ranks);
  if (schedule::uneven(r.collective)) {
    if (r.counts.size() != count) return bad_input("{}: {} counts for {} ranks", name, r.counts.size(), ranks);
    if (r.collective == Collective::kAllToAllV && r.receive_counts.size() != count)
      return bad_input("{}: {} receive counts for {} ranks", name, r.receive_counts.size(), ranks);
    for (const auto& counts : {r.counts, r.receive_counts})
      for (const std::size_t c : counts)
        if (c > kAddressSpace / count / static_cast<std::size_t>(size_of(r.type)))
          return bad_input("{}: {} elements do not fit into memory", name, c);
  } else if (!r.counts.empty() || !r.receive_counts.empty()) {
    return bad_input("{}: counts are for all_gather_v, reduce_scatter_v and all_to_all_v", name);
  }
  if (schedule::reduces(r.collective)) {
    if (!applies(r.type, r.op))
      return bad_input("{}: {} is for integers, not for {}", name, schedule::name(r.op), schedule::name(r.type));
    if (r.op == ReduceOp::kPremulSum && !r.scalar)
      return bad_input("{}: {} needs a scalar", name, schedule::name(r.op));
    if (r.op != ReduceOp::kPremulSum && r.scalar)
      return bad_input("{}: a scalar is for {}, not for {}", name, schedule::name(ReduceOp::kPremulSum),
                       schedule::name(r.op));
  }
  if (r.channels < 0) return bad_input("{}: {} channels", name, r.channels);
  return {};
}

Task task_of(const Request& r, Rank self, Rank n, Rank ranks_per_node) {
  Task task{.collective = r.collective,
            .ranks = n,
            .root = r.root,
            .ranks_per_node = ranks_per_node,
            .elements = static_cast<Bytes>(r.count) * schedule::message_parts(r.collective, n),
            .element_bytes = size_of(r.type)};
  if (r.collective == Collective::kBarrier) task.elements = 0;
  if (schedule::uneven(r.collective)) {
    auto counts = std::make_shared<std::vector<Bytes>>(r.counts.begin(), r.counts.end());
    if (r.collective == Collective::kAllToAllV) {  // this rank's row and column
      counts->assign(static_cast<std::size_t>(schedule::blocks(r.collective, n)), 0);
      for (Rank peer = 0; peer < n; ++peer) {
        (*counts)[static_cast<std::size_t>(peer * n + self)] =
            static_cast<Bytes>(r.receive_counts[static_cast<std::size_t>(peer)]);
        (*counts)[static_cast<std::size_t>(self * n + peer)] =
            static_cast<Bytes>(r.counts[static_cast<std::size_t>(peer)]);
      }
    }
    task.elements = std::accumulate(counts->begin(), counts->end(), Bytes{0});
    task.counts = std::move(counts);
  }
  return task;
}

}  // namespace weft::session
