#include "move/reshard/prove.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "move/reshard/meaning.h"
#include "move/reshard/pieces.h"

namespace weft::reshard {
namespace {

template <class... Args>
tl::unexpected<Error> refuted(fmt::format_string<Args...> format, Args&&... args) {
  return failure(Code::kInternal, Blame::kOperation, format, std::forward<Args>(args)...);
}

class Prover {
 public:
  Prover(const Layout& from, const Layout& to) : from_(from), to_(to) {}

  Status add(const Move& m) {
    ++proof_.moves;
    proof_.pieces += m.count;
    WEFT_CHECK(check_numbers(m));
    const Tensor& target = to_.tensors[static_cast<std::size_t>(m.to)];
    const std::int64_t e = target.element_bytes;
    const Meaning &source = meaning(from_, sources_, m.from, m.sender),
                  &here = meaning(to_, targets_, m.to, m.receiver);
    const Pieces read{m.source / e, m.bytes / e, m.count > 1 ? m.source_stride / e : 1, m.count};
    const Pieces to{m.destination / e, m.bytes / e, m.count > 1 ? m.destination_stride / e : 1, m.count};
    if (const std::int64_t beyond = first_beyond(read, source.elements()); beyond >= 0)
      return refuted("tensor {}: rank {} of {} has {} B, bytes from {} on are read", shown(target.name), m.sender,
                     from_.name, source.elements() * e, (read.begin + beyond * read.stride) * e);
    if (const std::int64_t beyond = first_beyond(to, here.elements()); beyond >= 0)
      return refuted("tensor {}: rank {} of {} has {} B, bytes from {} on are written", shown(target.name), m.receiver,
                     to_.name, here.elements() * e, (to.begin + beyond * to.stride) * e);
    for (std::int64_t i = 0; i < m.count;) {
      WEFT_TRY(const std::int64_t alike, compare(m, source, here, read.from(i), to.from(i)));
      i += alike;
    }
    written_[{m.to, m.receiver}].push_back(to);
    return {};
  }

  Result<Proof> finish(std::int32_t to_tensor) {
    for (std::size_t t = 0; t < to_.tensors.size(); ++t) {
      if (to_tensor >= 0 && static_cast<std::size_t>(to_tensor) != t) continue;
      ++proof_.tensors;
      for (Rank r = 0; r < to_.ranks; ++r) WEFT_CHECK(finish(static_cast<std::int32_t>(t), r));
    }
    return proof_;
  }

  const Meaning& source(std::int32_t tensor, Rank rank) { return meaning(from_, sources_, tensor, rank); }

 private:
  using Meanings = std::map<std::pair<std::int32_t, Rank>, Meaning>;
  struct Range {
    std::int64_t begin, end;
    auto operator<=>(const Range&) const = default;
  };

  // The first piece that lies not in [0, elements); -1: none.
  static std::int64_t first_beyond(const Pieces& p, std::int64_t elements) {
    const auto beyond = [&](std::int64_t i) {
      std::int64_t begin = 0;
      return __builtin_mul_overflow(i, p.stride, &begin) || __builtin_add_overflow(begin, p.begin, &begin) ||
             begin < 0 || begin > elements - p.length;
    };
    if (beyond(0)) return 0;
    if (!beyond(p.count - 1)) return -1;
    std::int64_t inside = 0, outside = p.count - 1;  // pieces lie in order, so one bound is crossed once
    while (outside - inside > 1) {
      const std::int64_t middle = inside + (outside - inside) / 2;
      (beyond(middle) ? outside : inside) = middle;
    }
    return outside;
  }

  // Compares the first piece, and says for how many pieces from it on the comparison holds.
  Result<std::int64_t> compare(const Move& m, const Meaning& source, const Meaning& here, const Pieces& read,
                               const Pieces& to) const {
    const Tensor& target = to_.tensors[static_cast<std::size_t>(m.to)];
    const bool strided = read.stride > 0 && to.stride > 0;
    std::int64_t alike = strided ? read.count : 1;
    for (std::int64_t k = 0; k < to.length;) {
      const auto [a, a_count, a_step] = source.run(read.begin + k, to.length - k, strided ? read.stride : 1, alike);
      const auto [b, b_count, b_step] = here.run(to.begin + k, to.length - k, strided ? to.stride : 1, alike);
      if (b.tensor == nullptr)
        return refuted("tensor {}: rank {}: offset {} is padding and is written", shown(target.name), m.receiver,
                       (to.begin + k) * target.element_bytes);
      if (a.tensor == nullptr || *a.tensor != *b.tensor || a.first != b.first)
        return refuted("tensor {}: rank {}: offset {} wants element {} and gets {} of rank {}", shown(*b.tensor),
                       m.receiver, (to.begin + k) * target.element_bytes, b.first,
                       a.tensor == nullptr      ? "padding"
                       : *a.tensor != *b.tensor ? fmt::format("element {} of {}", a.first, shown(*a.tensor))
                                                : fmt::format("element {}", a.first),
                       m.sender);
      alike = a_step == b_step ? std::min({alike, a_count, b_count}) : 1;
      k += std::min(a.length, b.length);
    }
    return alike;
  }

  Status check_numbers(const Move& m) const {
    const auto inside = [](std::int64_t i, std::size_t n) { return i >= 0 && i < static_cast<std::int64_t>(n); };
    if (!inside(m.from, from_.tensors.size()) || !inside(m.to, to_.tensors.size()) ||
        !inside(m.sender, static_cast<std::size_t>(from_.ranks)) ||
        !inside(m.receiver, static_cast<std::size_t>(to_.ranks)))
      return refuted("a move of tensor {} from rank {} to tensor {} of rank {}: no such tensor or rank", m.from,
                     m.sender, m.to, m.receiver);
    const Tensor& target = to_.tensors[static_cast<std::size_t>(m.to)];
    const std::int64_t e = target.element_bytes;
    if (e != from_.tensors[static_cast<std::size_t>(m.from)].element_bytes)
      return refuted("tensor {}: rank {}: elements of another size", shown(target.name), m.receiver);
    if (m.bytes <= 0 || m.count <= 0)
      return refuted("tensor {}: rank {}: {} pieces of {} B", shown(target.name), m.receiver, m.count, m.bytes);
    for (const std::int64_t v :
         {m.source, m.destination, m.bytes, m.count > 1 ? m.source_stride : 0, m.count > 1 ? m.destination_stride : 0})
      if (v % e != 0)
        return refuted("tensor {}: rank {}: offset {} cuts an element of {} B", shown(target.name), m.receiver, v, e);
    return {};
  }

  static const Meaning& meaning(const Layout& layout, Meanings& known, std::int32_t tensor, Rank rank) {
    const auto found = known.find({tensor, rank});
    if (found != known.end()) return found->second;
    const Tensor& t = layout.tensors[static_cast<std::size_t>(tensor)];
    return known.emplace(std::pair(tensor, rank), Meaning(t, holding(layout, t, rank))).first->second;
  }

  Status finish(std::int32_t tensor, Rank rank) {
    const Meaning& here = meaning(to_, targets_, tensor, rank);
    const auto& pieces = written_[{tensor, rank}];
    std::int64_t all = 0;
    for (const Pieces& p : pieces) all += p.length * p.count;
    if (all == here.holding().elements() && disjoint(pieces)) return {};
    return find_fault(tensor, rank, here, pieces);
  }

  // One by one, for the first offset that is written twice or never.
  Status find_fault(std::int32_t tensor, Rank rank, const Meaning& here, std::span<const Pieces> pieces) const {
    std::vector<Range> written;
    for (const Pieces& p : pieces)
      for (std::int64_t i = 0; i < p.count; ++i)
        written.push_back({p.begin + i * p.stride, p.begin + i * p.stride + p.length});
    std::sort(written.begin(), written.end());
    const Tensor& t = to_.tensors[static_cast<std::size_t>(tensor)];
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (i > 0 && written[i].begin < written[i - 1].end)
        return refuted("tensor {}: rank {}: offset {} is written twice", shown(t.name), rank,
                       written[i].begin * t.element_bytes);
      sum += written[i].end - written[i].begin;
    }
    if (sum == here.holding().elements()) return {};
    std::size_t next = 0;
    for (std::int64_t at = 0; at < here.elements();) {
      if (next < written.size() && written[next].begin == at) {
        at = written[next++].end;
        continue;
      }
      const auto segment = here.at(at);
      if (segment.tensor != nullptr)
        return refuted("tensor {}: rank {}: offset {} is never written", shown(*segment.tensor), rank,
                       at * t.element_bytes);
      at += segment.length;
    }
    return refuted("tensor {}: rank {}: {} of {} elements are written", shown(t.name), rank, sum,
                   here.holding().elements());
  }

  const Layout &from_, &to_;
  Meanings sources_, targets_;
  std::map<std::pair<std::int32_t, Rank>, std::vector<Pieces>> written_;
  Proof proof_;
};

// Whether two lists of moves differ in senders only, and these hold the same.
bool alike(Prover& prover, std::span<const Move> a, std::span<const Move> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Move m, const Move& n) {
    if (!(prover.source(m.from, m.sender).holding() == prover.source(n.from, n.sender).holding())) return false;
    m.sender = n.sender;
    return m == n;
  });
}

}  // namespace

Result<Proof> prove(const Layout& from, const Layout& to, std::span<const Move> moves, std::int32_t to_tensor) {
  Prover prover(from, to);
  for (const Move& m : moves) {
    if (to_tensor >= 0 && m.to != to_tensor)
      return refuted("a move of tensor {} among those of tensor {}", m.to, to_tensor);
    WEFT_CHECK(prover.add(m));
  }
  return prover.finish(to_tensor);
}

Result<Proof> prove(const Plan& plan, const std::function<void(std::int64_t done)>& progress) {
  Proof sum;
  std::int64_t done = 0;
  Status status;
  const auto prove_one = [&](std::int32_t tensor, int senders) -> Status {
    Prover prover(plan.from(), plan.to());
    const auto moves = plan.moves_by(tensor, 0);
    for (const Move& m : moves) WEFT_CHECK(prover.add(m));
    WEFT_TRY(const Proof proof, prover.finish(tensor));
    sum.tensors += proof.tensors, sum.moves += proof.moves, sum.pieces += proof.pieces;
    for (int k = 1; k < senders; ++k) {
      auto others = plan.moves_by(tensor, k);
      sum.moves += static_cast<std::int64_t>(others.size());
      if (alike(prover, others, moves)) continue;  // from ranks that hold the same bytes at the same places
      Prover again(plan.from(), plan.to());
      for (const Move& m : others) WEFT_CHECK(again.add(m));
      WEFT_CHECK(again.finish(tensor));
    }
    return {};
  };
  plan.for_each_pattern([&](std::int32_t tensor, int senders) {
    if (!status) return;
    status = prove_one(tensor, senders);
    if (progress) progress(++done);
  });
  WEFT_CHECK(status);
  return sum;
}

}  // namespace weft::reshard
