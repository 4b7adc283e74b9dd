#include "weft/stripe.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include "base/result.h"

namespace weft::transfer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kDepth = 4;    // blocks of a source that are under way
constexpr std::int64_t kGiveUp = 3;  // failures one behind the other, after which a source is asked no more
constexpr double kWeight = 0.3;      // of the newest measurement

struct Part {
  std::size_t block = 0, source = 0;
  std::ptrdiff_t beside = -1;  // the page that it is read into; below 0: where it belongs
  Request request;
  Clock::time_point begun;
};

class Stripe {
 public:
  Stripe(Agent& agent, const Prepared& local, std::int64_t block_bytes, std::span<const StripeSource> sources)
      : agent_(agent), local_(local), bytes_(block_bytes), sources_(sources) {
    for (std::size_t b = 0; b < static_cast<std::size_t>(local.elements()); ++b) left_.push_back(b);
    done_.assign(left_.size(), false);
    refused_.assign(left_.size(), std::vector<bool>(sources.size(), false));
    for (const StripeSource& s : sources) {
      shares_.push_back({.name = s.name});
      us_.push_back(s.start_us + static_cast<double>(block_bytes) / s.bytes_per_us);
    }
    in_a_row_.assign(sources.size(), 0);
  }
  ~Stripe() {
    for (Part& part : parts_) stop(part);
    if (beside_.bytes > 0) (void)agent_.deregister(beside_);
  }

  Result<std::vector<StripeShare>> run(std::chrono::milliseconds deadline) {
    const auto until = deadline.count() > 0 ? Clock::now() + deadline : Clock::time_point::max();
    std::size_t missing = left_.size();
    while (missing > 0) {
      if (Clock::now() > until)
        return failure(Code::kTimeout, Blame::kOperation, "{} of {} blocks came within {} ms", done_.size() - missing,
                       done_.size(), deadline.count());
      WEFT_CHECK(begin());
      if (left_.empty()) WEFT_CHECK(hedge());
      const std::size_t ended = look_after();
      missing -= ended;
      if (ended == 0) std::this_thread::yield();
    }
    return shares_;
  }

 private:
  bool can(std::size_t source, std::size_t block) const {
    const StripeSource& s = sources_[source];
    const bool has = s.elements.empty() || s.elements[block] >= 0;
    return has && in_a_row_[source] < kGiveUp && !refused_[block][source];
  }
  std::size_t under_way(std::size_t source) const {
    return static_cast<std::size_t>(std::ranges::count_if(parts_, [&](const Part& p) { return p.source == source; }));
  }
  static double us_since(Clock::time_point then) {
    return std::chrono::duration<double, std::micro>(Clock::now() - then).count();
  }
  // When a block that it is given now is expected, in us from now. us_ is the time between the ends of two blocks; one
  // that is under way for longer says that this is no more so.
  double expected(std::size_t source) const {
    double us = us_[source];
    for (const Part& p : parts_)
      if (p.source == source) us = std::max(us, us_since(p.begun) / static_cast<double>(kDepth));
    return us * static_cast<double>(under_way(source) + 1);
  }

  Status begin() {
    for (std::size_t i = 0; i < left_.size();) {
      std::ptrdiff_t best = -1;
      bool any = false;
      for (std::size_t s = 0; s < sources_.size(); ++s) {
        if (!can(s, left_[i])) continue;
        any = true;
        if (best < 0 || expected(s) < expected(static_cast<std::size_t>(best))) best = static_cast<std::ptrdiff_t>(s);
      }
      if (!any) return tl::make_unexpected(nobody(left_[i]));
      // The best has its hands full: the block waits for it, or for the next best to become the best.
      if (under_way(static_cast<std::size_t>(best)) >= kDepth) {
        if (i++ >= kLookAhead) return {};
        continue;
      }
      const std::size_t block = left_[i];
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(i));
      WEFT_CHECK(ask(block, static_cast<std::size_t>(best), -1));
    }
    return {};
  }

  Status hedge() {
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      if (under_way(s) > 0) continue;
      const Part* latest = nullptr;
      double latest_us = 0;
      for (const Part& p : parts_) {
        const bool once = std::ranges::count_if(parts_, [&](const Part& o) { return o.block == p.block; }) == 1;
        if (!once || !can(s, p.block)) continue;
        const double due = us_[p.source] * static_cast<double>(under_way(p.source)) - us_since(p.begun);
        // One that is overdue may stay so for as long again.
        const double us = due > 0 ? due : -due;
        if (us > 2 * us_[s] && us > latest_us) {
          latest = &p;
          latest_us = us;
        }
      }
      if (latest != nullptr) WEFT_CHECK(ask(latest->block, s, static_cast<std::ptrdiff_t>(s)));
    }
    return {};
  }

  Status ask(std::size_t block, std::size_t source, std::ptrdiff_t beside) {
    const StripeSource& s = sources_[source];
    const auto number = static_cast<std::uint32_t>(block);
    const auto element =
        static_cast<std::uint32_t>(s.elements.empty() ? static_cast<std::int64_t>(block) : s.elements[block]);
    RequestOptions options{.remote_blocks = {&element, 1}, .verify = s.verify};
    if (!s.generations.empty()) options.generations = {&s.generations[block], 1};
    const auto page = static_cast<std::uint32_t>(beside);
    Prepared to = local_;
    options.local_blocks = {&number, 1};
    if (beside >= 0) {
      WEFT_TRY(to, memory_beside());
      options.local_blocks = {&page, 1};
    }
    auto request = agent_.make(Op::kRead, to, s.list, options);
    if (!request) {
      fail(source, block, request.error().message);
      return {};
    }
    Part& part = parts_.emplace_back(Part{block, source, beside, std::move(*request), Clock::now()});
    return agent_.post(part.request);
  }

  Result<Prepared> memory_beside() {
    if (beside_.bytes == 0) {
      WEFT_TRY(beside_, agent_.allocate(bytes_ * static_cast<std::int64_t>(sources_.size())));
    }
    const Rows rows{beside_.region, 0, bytes_, bytes_, static_cast<std::int64_t>(sources_.size())};
    return agent_.prepare("", {&rows, 1});
  }

  void fail(std::size_t source, std::size_t block, const std::string& why) {
    ++shares_[source].failed;
    shares_[source].problem = why;
    ++in_a_row_[source];
    refused_[block][source] = true;
    const bool other =
        std::ranges::any_of(parts_, [&](const Part& p) { return p.block == block && p.source != source; });
    if (!other) left_.push_front(block);
  }

  // Returns how many blocks have come.
  std::size_t look_after() {
    std::size_t came = 0;
    for (std::size_t i = 0; i < parts_.size();) {
      const State state = agent_.poll(parts_[i].request);
      if (state == State::kRunning) {
        ++i;
        continue;
      }
      Part part = std::move(parts_[i]);
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
      if (state != State::kDone) {
        fail(part.source, part.block, part.request.error().message);
        continue;
      }
      arrived(part);
      ++came;
      i = 0;  // its twin may have gone
    }
    return came;
  }

  void arrived(const Part& part) {
    const double us = us_since(part.begun) / static_cast<double>(under_way(part.source) + 1);
    us_[part.source] += kWeight * (us - us_[part.source]);
    in_a_row_[part.source] = 0;
    done_[part.block] = true;
    ++shares_[part.source].blocks;
    shares_[part.source].hedged += part.beside >= 0;
    // The twin ends before the page beside is copied: no byte of it comes afterwards.
    for (std::size_t i = 0; i < parts_.size();) {
      if (parts_[i].block != part.block) {
        ++i;
        continue;
      }
      stop(parts_[i]);
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (part.beside >= 0) copy_from_beside(part);
  }

  void copy_from_beside(const Part& part) {
    const Rows page{beside_.region, part.beside * bytes_, bytes_, 0, 1};
    const auto from = agent_.prepare("", {&page, 1});
    const auto number = static_cast<std::uint32_t>(part.block);
    if (!from) return;
    auto copy = agent_.make(Op::kRead, local_, *from, {.local_blocks = {&number, 1}});
    if (copy && agent_.post(*copy)) (void)agent_.wait(*copy);
  }

  void stop(Part& part) {
    if (part.request.state() != State::kRunning) return;
    (void)agent_.cancel(part.request);
    (void)agent_.wait(part.request);
  }

  Error nobody(std::size_t block) const {
    std::string why;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const bool has = sources_[s].elements.empty() || sources_[s].elements[block] >= 0;
      why += fmt::format("{}{}: {}", s == 0 ? "" : "; ", sources_[s].name,
                         has ? shares_[s].problem : std::string("does not have it"));
    }
    return {Code::kNotFound, Blame::kOperation, fmt::format("block {} comes from no source: {}", block, why)};
  }

  static constexpr std::size_t kLookAhead = 64;
  Agent& agent_;
  const Prepared& local_;
  std::int64_t bytes_;
  std::span<const StripeSource> sources_;
  std::deque<std::size_t> left_;  // not begun
  std::vector<bool> done_;
  std::vector<std::vector<bool>> refused_;  // by block and source
  std::vector<double> us_;                  // per block, by source
  std::vector<std::int64_t> in_a_row_;      // failures, by source
  std::vector<Part> parts_;
  std::vector<StripeShare> shares_;
  Registration beside_;  // a page per source
};

}  // namespace

Result<std::vector<StripeShare>> read_striped(Agent& agent, const Prepared& local, std::int64_t block_bytes,
                                              std::span<const StripeSource> sources,
                                              std::chrono::milliseconds deadline) {
  const auto blocks = static_cast<std::size_t>(local.elements());
  if (sources.empty() || blocks == 0 || block_bytes < 1)
    return bad_input("{} blocks of {} B from {} sources", blocks, block_bytes, sources.size());
  if (local.element_bytes() != block_bytes)
    return bad_input("blocks of {} B, and the elements of the local list have {}", block_bytes,
                     local.element_bytes() == 0 ? "several sizes" : fmt::format("{} B", local.element_bytes()));
  for (const StripeSource& s : sources) {
    const bool sizes = (s.elements.empty() || s.elements.size() == blocks) &&
                       (s.generations.empty() || s.generations.size() == blocks);
    if (!sizes)
      return bad_input("source {}: elements and generations are of all {} blocks, or of none", s.name, blocks);
    if (s.elements.empty() && s.list.elements() < local.elements())
      return bad_input("source {}: {} elements for {} blocks", s.name, s.list.elements(), blocks);
    for (const std::int64_t e : s.elements)
      if (e >= s.list.elements()) return bad_input("source {}: element {} of {}", s.name, e, s.list.elements());
    if (!(s.bytes_per_us > 0) || !(s.start_us >= 0))
      return bad_input("source {}: {} us and {} B/us", s.name, s.start_us, s.bytes_per_us);
  }
  return Stripe(agent, local, block_bytes, sources).run(deadline);
}

}  // namespace weft::transfer
