#include "tests/disagreement/life.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/result.h"

namespace weft::disagreement {
namespace {

// Everybody starts its ends of the messages in an order of its own, with an equal sum on the way. Of those that do not
// fit only the ends learn it. `sum`: false: the communicator is broken.
Status exchange_letters(const Case& c, Communicator& comm, std::string& wrong, const std::function<bool()>& sum) {
  struct End {
    const Letter* letter;
    bool sends;
    std::vector<std::uint32_t> data;
    Message message;
  };
  std::vector<End> ends;
  for (const Letter& l : c.letters)
    for (const bool sends : {true, false})
      if ((sends ? l.from : l.to) == comm.rank()) ends.push_back({&l, sends, {}, {}});
  Random random(c.seed * 31 + static_cast<std::uint64_t>(comm.rank()));
  for (std::size_t i = ends.size(); i > 1; --i) std::swap(ends[i - 1], ends[random.below(i)]);
  const auto value = [](const Letter& l, std::size_t i) {
    return static_cast<std::uint32_t>(l.tag) * 1000003u + static_cast<std::uint32_t>(i);
  };
  constexpr std::uint32_t kUntouched = 0xa5a5a5a5;
  const auto start = [&](End& e) -> Status {
    const Letter& l = *e.letter;
    e.data.assign(e.sends ? l.count : l.room + 8, kUntouched);
    for (std::size_t i = 0; e.sends && i < l.count; ++i) e.data[i] = value(l, i);
    auto started = e.sends
                       ? comm.start_send(e.data.data(), l.count, DataType::kInt32, l.to, l.tag)
                       : comm.start_receive(e.data.data(), l.room, l.other_type ? DataType::kUint32 : DataType::kInt32,
                                            l.any ? kAnySource : l.from, l.tag);
    if (!started) return tl::make_unexpected(started.error());
    e.message = std::move(*started);
    return {};
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == ends.size() / 2 && !sum()) return {};
    WEFT_CHECK(start(ends[i]));
  }
  if (ends.empty() && !sum()) return {};
  for (End& e : ends) {
    const Letter& l = *e.letter;
    const auto got = e.message.wait();
    if (!got && got.error().blame == Blame::kCommunicator) return tl::make_unexpected(got.error());
    const bool reported = !got && got.error().code == Code::kMismatch;
    if (e.sends ? !(got || (reported && !l.fits())) : l.fits() != got.has_value() || (!l.fits() && !reported))
      wrong = got ? "ok" : got.error().message;
    if (e.sends && wrong.empty()) continue;
    if (!e.sends && got && (got->count != l.count || got->source != l.from || got->tag != l.tag))
      wrong = fmt::format("{} of rank {}, tag {}", got->count, got->source, got->tag);
    for (std::size_t i = 0; i < e.data.size() && !e.sends && wrong.empty(); ++i)
      if (e.data[i] != (got && i < l.count ? value(l, i) : kUntouched)) wrong = fmt::format("element {} is wrong", i);
    if (!wrong.empty()) {
      wrong = fmt::format("rank {}: {} message {}: {}", comm.rank(), e.sends ? "sent" : "received", l.text(), wrong);
      return {};
    }
  }
  return {};
}

// --- fates ---

void die(int) { raise(SIGKILL); }

void die_in(std::int64_t us) {
  if (us == 0) raise(SIGKILL);
  signal(SIGALRM, die);
  const itimerval at{.it_interval = {}, .it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};
  setitimer(ITIMER_REAL, &at, nullptr);
}

// Lets its fate reach a rank that is about to make its call number `call`. False: the rank has left.
bool meet_fate(const Fate& fate, int call, Communicator& comm) {
  if (fate.kind == Fate::Kind::kLives || fate.call != call) return true;
  switch (fate.kind) {
    case Fate::Kind::kKilled:
      die_in(fate.after_us);
      return true;
    case Fate::Kind::kExits:
      _exit(0);
    case Fate::Kind::kLeaves:
      comm = Communicator(nullptr);
      return false;
    case Fate::Kind::kAborts:
      comm.abort();
      return true;
    case Fate::Kind::kStopped:
      raise(SIGSTOP);
      return true;
    case Fate::Kind::kLives:
      return true;
  }
  return true;
}

// --- one rank ---

Status recover(const Case& c, Communicator& comm, Life& life) {
  const auto self = static_cast<std::size_t>(comm.rank());
  (void)meet_fate(c.fates[self], c.steps(self) + 1, comm);
  WEFT_TRY(life.agreed, comm.agree(~(std::uint64_t{1} << self)));
  WEFT_TRY(Communicator survivors, comm.shrink());
  std::vector<std::int32_t> members(static_cast<std::size_t>(survivors.ranks()));
  const std::int32_t mine = comm.rank();
  WEFT_CHECK(survivors.all_gather(std::span(&mine, 1), std::span(members)));
  Random salts(c.seed + 17);
  for (int i = 0; i < 2 && life.wrong.empty(); ++i)
    WEFT_CHECK(make({.count = 300, .salt = salts.next()}, survivors, life.wrong));
  WEFT_CHECK(survivors.finalize());
  life.members.assign(members.begin(), members.end());
  return {};
}

// Everything up to the first error.
class Calls {
 public:
  Calls(const Case& c, Communicator& comm, Life& life)
      : case_(c), comm_(comm), life_(life), self_(static_cast<std::size_t>(comm.rank())), salts_(c.seed) {}

  void make_all() {
    sums(case_.before);
    std::this_thread::sleep_for(std::chrono::milliseconds(case_.late_ms[self_]));
    for (const Call& call : case_.calls[self_]) {
      if (!goes_on()) break;
      const Status s = make(call, comm_, life_.wrong);
      if (!s && s.error().code == Code::kInvalidArgument)
        life_.refused = true;  // nothing was done
      else
        life_.ended = s;
    }
    if (!case_.letters.empty() && goes_on()) {
      const Status s = exchange_letters(case_, comm_, life_.wrong, [&] {
        sums(1);
        return alive();
      });
      if (life_.ended && !life_.left) life_.ended = s;
    }
    sums(case_.after);
    (void)goes_on();  // before finalize()
  }

 private:
  bool alive() const { return life_.ended && life_.wrong.empty() && !life_.left; }
  // May it make the next call?
  bool goes_on() {
    if (!alive()) return false;
    life_.left = !meet_fate(case_.fates[self_], step_++, comm_);
    return !life_.left;
  }
  void sums(int calls) {
    for (int i = 0; i < calls && goes_on(); ++i)
      life_.ended = make({.count = 300, .algorithm = "ring", .protocol = case_.protocol, .salt = salts_.next()}, comm_,
                         life_.wrong);
  }

  const Case& case_;
  Communicator& comm_;
  Life& life_;
  std::size_t self_;
  Random salts_;
  int step_ = 0;
};

Status live_on_subset(const Case& c, Communicator& comm, Life& life) {
  WEFT_TRY(Communicator subset, comm.split(0, comm.rank()));
  Calls(c, subset, life).make_all();
  if (life.left || !life.wrong.empty()) return life.ended;
  if (c.recovers) {
    subset.abort();  // others may wait there
    return life.ended;
  }
  if (life.ended) life.ended = subset.finalize();
  // A disagreement on the subset does not concern the communicator that it was split from.
  if (c.all_live()) {
    const Status sum = make({.count = 300, .salt = c.seed}, comm, life.wrong);
    if (!sum) life.wrong = "the communicator that was split is broken, too: " + sum.error().message;
  }
  return life.ended;
}

}  // namespace

Life context(const Case& c, Communicator& comm) {
  Life life;
  const Fate& fate = c.fates[static_cast<std::size_t>(comm.rank())];
  if (c.splits)
    life.ended = live_on_subset(c, comm, life);
  else
    Calls(c, comm, life).make_all();
  if (fate.kind == Fate::Kind::kKilled && fate.call <= c.steps(static_cast<std::size_t>(comm.rank())))
    for (;;) life.ended ? (void)pause() : die_in(0);
  if (life.left || !life.wrong.empty()) return life;
  if (c.recovers)
    life.recovered = recover(c, comm, life);
  else if (life.ended && !c.splits)
    life.ended = comm.finalize();
  return life;
}

}  // namespace weft::disagreement
