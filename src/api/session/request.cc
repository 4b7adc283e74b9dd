#include "api/session/request.h"

#include <cstdlib>
#include <numeric>

#include "plan/schedule/element.h"

namespace weft::session {

using schedule::Task;

namespace {

// Errors (bad input): of a dispatch or combine, what does not fit the tokens.
Status check_experts(const Request& r, Rank ranks) {
  const auto name = schedule::name(r.collective);
  if (!schedule::routed(r.collective)) {
    if (!r.experts.empty() || r.per_token != 0 || r.expert_count != 0)
      return bad_input("{}: experts are for dispatch and combine", name);
    return {};
  }
  if (r.op == ReduceOp::kAvg && r.collective == Collective::kCombine)
    return bad_input("{}: avg: tokens have different numbers of experts; multiply by weights before", name);
  const auto routes = schedule::routes_of(r.experts, ranks, r.per_token, r.expert_count);
  if (!routes) return bad_input("{}: {}", name, routes.error().message);
  if (r.count % static_cast<std::size_t>((*routes)->tokens_per_rank()) != 0)
    return bad_input("{}: {} elements are not {} tokens of one size", name, r.count, (*routes)->tokens_per_rank());
  return {};
}

}  // namespace

std::uint64_t digest_of(std::span<const std::int32_t> experts) {  // FNV-1a, by words
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::int32_t e : experts) hash = (hash ^ static_cast<std::uint32_t>(e)) * 0x100000001b3;
  return hash ^ experts.size();
}

std::string key_of(const Request& r, bool direct) {
  if (r.collective == Collective::kBarrier) return fmt::format("{}", static_cast<int>(r.collective));
  std::string key = fmt::format("{}|{}|{}", static_cast<int>(r.collective), static_cast<int>(r.type), direct);
  if (schedule::reduces(r.collective)) key += fmt::format("|op {}", static_cast<int>(r.op));
  if (schedule::rooted(r.collective)) key += fmt::format("|root {}", r.root);
  if (schedule::routed(r.collective))
    key += fmt::format("|routes {} {} {}", r.per_token, r.expert_count, digest_of(r.experts));
  if (!schedule::uneven(r.collective))
    key += fmt::format("|{}", r.count);
  else if (r.collective != Collective::kAllToAllV)
    key += fmt::format("|{}", fmt::join(r.counts, ","));
  return key;
}

std::uint64_t signature_of(const Request& r, bool direct, const schedule::Plan& plan, Rank ranks_per_node) {
  const schedule::Algorithm& algorithm = *plan.algorithm;
  const std::string key = fmt::format("{}|{}|{}|{}|{}|{}", key_of(r, direct), algorithm.name,
                                      static_cast<int>(plan.protocol), plan.channels, plan.slice_bytes, ranks_per_node);
  return std::hash<std::string>{}(key) ^ (algorithm.written_for ? algorithm.written_for->digest : 0);
}

Task chosen_for(const Task& task) {
  if (schedule::routed(task.collective)) {  // by their size, not by their routes, which change from call to call
    Task nominal = task;
    nominal.routes = schedule::shown_routes(task.ranks);
    const Bytes tokens = nominal.routes->tokens();
    nominal.elements = std::max<Bytes>(1, task.elements / tokens) * tokens;
    return nominal;
  }
  if (task.collective != Collective::kAllToAllV) return task;
  constexpr Bytes kPart = 16384;  // elements: where neither latency nor bandwidth alone decides
  Task nominal = task;
  nominal.elements = kPart * task.ranks;
  nominal.counts = std::make_shared<std::vector<Bytes>>(task.counts->size(), kPart);
  return nominal;
}

namespace {

constexpr int kMostChannels = 255;  // that a fabric::Description has room for

bool overlap(const void* a, Bytes a_bytes, const void* b, Bytes b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + static_cast<std::uintptr_t>(b_bytes) && second < first + static_cast<std::uintptr_t>(a_bytes);
}

}  // namespace

Buffers buffers_of(const schedule::Layout& layout, Rank rank) {
  const schedule::InPlace place = schedule::in_place(layout, rank);
  return {.in_bytes = layout.buffer_bytes(schedule::Buffer::kIn, rank),
          .out_bytes = layout.buffer_bytes(schedule::Buffer::kOut, rank),
          .in_place = place.out - place.in};
}

Status check_buffers(const Request& r, const schedule::Algorithm& algorithm, const Buffers& b) {
  if ((b.in_bytes > 0 && r.in == nullptr) || (b.out_bytes > 0 && r.out == nullptr))
    return bad_input("{} of {} elements: null buffer", schedule::name(r.collective), r.count);
  WEFT_CHECK(
      check_elements(schedule::name(r.collective), r.in, static_cast<std::size_t>(b.in_bytes), DataType::kUint8));
  WEFT_CHECK(
      check_elements(schedule::name(r.collective), r.out, static_cast<std::size_t>(b.out_bytes), DataType::kUint8));
  if (b.in_bytes == 0 || b.out_bytes == 0) return {};
  const bool overlaps = overlap(r.in, b.in_bytes, r.out, b.out_bytes);
  if (overlaps && !overwrites_input(r)) {
    const auto shift = static_cast<const std::byte*>(r.out) - static_cast<const std::byte*>(r.in);
    if (shift != b.in_place)
      return bad_input(
          "{}: input and output overlap: the output begins {} B {} the input's beginning, in place {} B {} it",
          schedule::name(r.collective), std::abs(shift), shift < 0 ? "before" : "after", std::abs(b.in_place),
          b.in_place < 0 ? "before" : "after");
  }
  return schedule::check_place(algorithm, overlaps);
}

bool overwrites_input(const Request& r) { return r.in == r.out && !schedule::may_be_in_place(r.collective); }

std::optional<Bytes> shift_of(const Request& r, Bytes in_bytes, Bytes out_bytes) {
  if (!overlap(r.in, in_bytes, r.out, out_bytes) || overwrites_input(r)) return std::nullopt;
  return static_cast<const std::byte*>(r.out) - static_cast<const std::byte*>(r.in);
}

Status check_request(const Request& r, Rank rank, Rank ranks) {
  if (!is_known(r.collective))
    return bad_input("collective {} is none: there are 0 to {}", static_cast<int>(r.collective), kCollectiveKinds - 1);
  WEFT_CHECK(check_timeout(schedule::name(r.collective), r.timeout));
  if (r.collective != Collective::kBarrier) WEFT_CHECK(check_type(schedule::name(r.collective), r.type));
  const auto name = schedule::name(r.collective);
  const auto parts = static_cast<std::size_t>(schedule::message_parts(r.collective, ranks));
  // Barriers have no elements, uneven collectives their counts.
  const bool counted = r.collective != Collective::kBarrier && !schedule::uneven(r.collective);
  std::size_t bytes = 0;
  if (counted && (__builtin_mul_overflow(r.count, parts * static_cast<std::size_t>(size_of(r.type)), &bytes) ||
                  bytes > kAddressSpace))
    return bad_input("{}: {} elements do not fit into memory", name, r.count);
  if (schedule::rooted(r.collective) && (r.root < 0 || r.root >= ranks))
    return bad_input("{}: root {} of {} ranks", name, r.root, ranks);
  const auto count = static_cast<std::size_t>(ranks);
  if (schedule::uneven(r.collective)) {
    if (r.counts.size() != count) return bad_input("{}: {} counts for {} ranks", name, r.counts.size(), ranks);
    if (r.collective == Collective::kAllToAllV && r.receive_counts.size() != count)
      return bad_input("{}: {} receive counts for {} ranks", name, r.receive_counts.size(), ranks);
    for (const auto& counts : {r.counts, r.receive_counts})
      for (const std::size_t c : counts)
        if (c > kAddressSpace / count / static_cast<std::size_t>(size_of(r.type)))
          return bad_input("{}: {} elements do not fit into memory", name, c);
    const auto self = static_cast<std::size_t>(rank);
    if (r.collective == Collective::kAllToAllV && r.counts[self] != r.receive_counts[self])
      return bad_input("{}: rank {} sends itself {} elements and receives {} from itself", name, rank, r.counts[self],
                       r.receive_counts[self]);
  } else if (!r.counts.empty() || !r.receive_counts.empty()) {
    return bad_input("{}: counts are for all_gather_v, reduce_scatter_v and all_to_all_v", name);
  }
  if (schedule::reduces(r.collective)) {
    WEFT_CHECK(check_op(name, r.op));
    if (!applies(r.type, r.op))
      return bad_input("{}: {} is for integers, not for {}", name, schedule::name(r.op), schedule::name(r.type));
    if (r.op == ReduceOp::kPremulSum && !r.scalar)
      return bad_input("{}: {} needs a scalar", name, schedule::name(r.op));
    if (r.op != ReduceOp::kPremulSum && r.scalar)
      return bad_input("{}: a scalar is for {}, not for {}", name, schedule::name(ReduceOp::kPremulSum),
                       schedule::name(r.op));
  }
  WEFT_CHECK(check_experts(r, ranks));
  if (r.channels < 0 || r.channels > kMostChannels)
    return bad_input("{}: {} channels: there are 1 to {}, and 0 lets weft choose", name, r.channels, kMostChannels);
  return {};
}

Task task_of(const Request& r, Rank self, Rank n, Rank ranks_per_node) {
  Task task{.collective = r.collective,
            .ranks = n,
            .root = schedule::rooted(r.collective) ? r.root : 0,
            .ranks_per_node = ranks_per_node,
            .elements = schedule::uneven(r.collective)
                            ? 0
                            : static_cast<Bytes>(r.count) * schedule::message_parts(r.collective, n),
            .element_bytes = size_of(r.type)};
  if (r.collective == Collective::kBarrier) task.elements = 0, task.element_bytes = 1;  // its type is ignored
  // Checked before: check_request.
  if (schedule::routed(r.collective)) {
    if (auto routes = schedule::routes_of(r.experts, n, r.per_token, r.expert_count)) task.routes = *routes;
  }
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
