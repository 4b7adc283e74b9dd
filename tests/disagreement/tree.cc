#include "tests/disagreement/tree.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <numeric>
#include <thread>

#include "tests/connected_job.h"
#include "tests/disagreement/windows.h"
#include "tests/jumping_clock.h"
#include "tests/scarce_memory.h"
#include "tests/small_shared_memory.h"
#include "weft/group.h"
#include "weft/queue.h"
#include "weft/transfer.h"

namespace weft::disagreement {
namespace {

using namespace std::chrono_literals;

constexpr int kLevels = 5;
constexpr std::size_t kMostGroups = 24;

struct Plan {
  Rank ranks = 2;
  int steps = 0;
  Rank victim = -1;                 // is killed
  int dies_in = 0;                  // at the latest before this step
  std::int64_t after_us = -1;       // … or so long after the step before has begun
  bool starved = false;             // rank 0 may open no more descriptors
  std::int64_t memory = -1;         // the victim first gets N more bytes, and dies of the first error
  std::int64_t shared_memory = -1;  // bytes that /dev/shm has, for all
  bool jumps = false;               // each rank's calendar clock jumps in some steps

  // Calls may fail for lack of something.
  bool lacks() const { return starved || shared_memory >= 0; }
};

Plan draw(Random& random) {
  Plan p;
  p.ranks = static_cast<Rank>(random.below(40) == 0 ? 12 : 2 + random.below(4));
  if (random.below(400) == 0) p.ranks = 64;
  p.steps = static_cast<int>(8 + random.below(16));
  if (random.below(3) == 0 && p.ranks > 2) {
    p.victim = static_cast<Rank>(random.below(static_cast<std::uint64_t>(p.ranks)));
    p.dies_in = static_cast<int>(1 + random.below(static_cast<std::uint64_t>(p.steps)));
    if (random.below(2) == 0) p.after_us = static_cast<std::int64_t>(random.below(3000));
    if (random.below(3) == 0) p.memory = static_cast<std::int64_t>(random.below(60000));
  } else if (random.below(8) == 0) {
    p.starved = true;
  } else if (random.below(8) == 0) {
    p.shared_memory = std::int64_t{1} << (14 + random.below(9));
  }
  p.jumps = random.below(4) == 0;
  return p;
}

// What all ranks know of a group, and the own communicator of a member.
struct Group {
  std::vector<Rank> members;  // of the job, in the group's order
  int level = 0;
  std::optional<Communicator> own = {};
  bool failed = false;  // here

  Rank index_of(Rank r) const {
    return static_cast<Rank>(std::find(members.begin(), members.end(), r) - members.begin());
  }
  bool has(Rank r) const { return index_of(r) < static_cast<Rank>(members.size()); }
};

// One rank's way through the program. All ranks draw the same.
class Way {
 public:
  // `by_network`: the job's ranks use TCP also where they share memory.
  Way(std::uint64_t seed, Plan plan, Communicator& job, bool by_network)
      : random_(seed * 2 + 1), plan_(plan), self_(job.rank()), by_network_(by_network) {
    Group all{.own = std::move(job)};
    all.members.resize(static_cast<std::size_t>(plan.ranks));
    std::iota(all.members.begin(), all.members.end(), 0);
    groups_.push_back(std::move(all));
  }

  std::string go() {
    for (step_ = 0; step_ < plan_.steps && wrong_.empty(); ++step_) {
      if (step_ == plan_.steps / 2 && plan_.starved && self_ == 0) starve();
      if (step_ + 1 == plan_.dies_in && plan_.victim == self_ && plan_.after_us >= 0) die_later();
      if (step_ == plan_.dies_in && plan_.victim == self_) die_or_starve();
      if (plan_.jumps) tests::set_clock_ahead(jumps_[static_cast<std::size_t>(step_ + self_) % jumps_.size()]);
      try {
        act();
      } catch (const std::bad_alloc&) {
        if (plan_.victim != self_) throw;
        raise(SIGKILL);
      }
    }
    if (plan_.victim == self_) raise(SIGKILL);
    if (plan_.victim >= 0 && wrong_.empty()) shrink_all();
    tests::set_clock_ahead(0);
    return wrong_.empty() ? kDone : wrong_;
  }
  static constexpr const char* kDone = "done";
  static constexpr const char* kWrong = "step ";  // begins what go() says otherwise

 private:
  std::uint64_t below(std::uint64_t most) { return random_.below(most); }
  bool doomed(const Group& g) const {
    return plan_.victim >= 0 && (aborted_ || step_ + 1 >= plan_.dies_in) && g.has(plan_.victim);
  }
  // Too few are left to know that no others go on: of two ranks the second.
  bool lacks_quorum(const Group& g, const Error& e) const {
    return e.code == Code::kNoQuorum && doomed(g) && g.members.size() == 2 && g.members.front() == plan_.victim;
  }
  void complain(const Group& g, const std::string& what, const std::string& why) {
    if (wrong_.empty())
      wrong_ = fmt::format("{}{}, group {} of level {}: {}: {}", kWrong, step_, g.members, g.level, what, why);
  }
  void die_or_starve() const {
    if (plan_.memory < 0) raise(SIGKILL);
    tests::leave_memory(static_cast<std::size_t>(plan_.memory));
  }
  // A call that failed: with a dead rank it must name it.
  void judge(Group& g, const std::string& what, const Error& e) {
    g.failed = true;
    if (plan_.victim == self_ && e.code == Code::kNoResources) raise(SIGKILL);
    if (plan_.lacks()) return;
    // A victim whose memory ends aborts, which ends the calls of ranks that are steps behind it.
    aborted_ |= plan_.memory >= 0 && e.message.find("no memory was left") != std::string::npos;
    if (!doomed(g)) return complain(g, what, "without a death: " + e.message);
    if (e.message.find("it called shrink()") != std::string::npos) return;  // a survivor that was ahead
    if (e.ranks != std::vector<Rank>{g.index_of(plan_.victim)})
      complain(g, what, fmt::format("names {} instead of {}: {}", e.ranks, g.index_of(plan_.victim), e.message));
  }

  // Two are left, as after a leak.
  void starve() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    constexpr int kMore = 64;
    const int highest = fcntl(0, F_DUPFD_CLOEXEC, kMore);
    close(highest);
    limit.rlim_cur = static_cast<rlim_t>(highest) + kMore;
    setrlimit(RLIMIT_NOFILE, &limit);
    int last = -1, before = -1;
    for (int fd; (fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0; last = fd) before = last;
    close(last);
    close(before);
  }
  void die_later() {
    std::thread([us = plan_.after_us] {
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      raise(SIGKILL);
    }).detach();
  }

  // Memory of any kind, in place or not, each rank as it likes.
  void sum(Group& g, std::size_t count, std::uint64_t kind) {
    if (!g.own) return;
    Communicator& c = *g.own;
    std::optional<Memory> registered;
    std::vector<std::int32_t> in(count, c.rank() + 1), out(count, -1);
    std::span<std::int32_t> to = kind % 2 == 0 ? std::span(in) : std::span(out);
    if (kind >= 2)
      if (auto memory = c.allocate(std::max<std::size_t>(count, 1) * sizeof(std::int32_t))) {
        registered.emplace(std::move(*memory));
        to = registered->as<std::int32_t>().first(count);
        if (kind % 2 == 0) std::ranges::copy(in, to.begin());
      }
    const std::span<const std::int32_t> from = kind % 2 == 0 ? std::span<const std::int32_t>(to) : std::span(in);
    const Status s = c.all_reduce<std::int32_t>(from, to);
    if (!s) return judge(g, "all_reduce", s.error());
    if (g.failed && !plan_.lacks()) return complain(g, "all_reduce", "ok after an error");
    const auto n = static_cast<std::int32_t>(g.members.size());
    if (std::ranges::any_of(to, [&](std::int32_t x) { return x != n * (n + 1) / 2; }))
      complain(g, "all_reduce", "a wrong sum");
  }

  void broadcast(Group& g, std::size_t count, Rank root) {
    if (!g.own) return;
    std::vector<std::uint32_t> data(count, g.own->rank() == root ? 77u + static_cast<std::uint32_t>(step_) : 0u);
    const Status s = g.own->broadcast<std::uint32_t>(data, root);
    if (!s) return judge(g, "broadcast", s.error());
    if (std::ranges::any_of(data, [&](std::uint32_t x) { return x != 77u + static_cast<std::uint32_t>(step_); }))
      complain(g, "broadcast", "another's data");
  }

  void letters(Group& g, std::size_t count) {
    if (!g.own) return;
    Communicator& c = *g.own;
    const Rank n = c.ranks(), to = (c.rank() + 1) % n, from = (c.rank() + n - 1) % n;
    std::vector<std::int32_t> out(count, c.rank()), in(count, -1);
    auto received = c.start_receive(in.data(), count, DataType::kInt32, from, step_);
    auto sent = c.start_send(out.data(), count, DataType::kInt32, to, step_);
    const auto got = received ? received->wait() : tl::make_unexpected(received.error());
    const auto gone = sent ? sent->wait() : tl::make_unexpected(sent.error());
    if (!got) return judge(g, "receive", got.error());
    if (!gone) return judge(g, "send", gone.error());
    if (std::ranges::any_of(in, [&](std::int32_t x) { return x != from; })) complain(g, "receive", "another's data");
  }

  void queue(Group& g, std::size_t count) {
    if (!g.own) return;
    std::vector<std::vector<std::int32_t>> data(3, std::vector<std::int32_t>(count, 1));
    std::vector<Queue::Handle> handles;
    Queue q(*g.own);
    for (auto& d : data)
      handles.push_back(q.start({.in = d.data(), .out = d.data(), .count = count, .type = DataType::kInt32}));
    for (std::size_t i = 0; i < data.size(); ++i) {
      const Status s = handles[i].wait();
      if (!s) judge(g, "queued all_reduce", s.error());
      if (s && std::ranges::any_of(data[i], [&](std::int32_t x) { return x != g.own->ranks(); }))
        complain(g, "queued all_reduce", "a wrong sum");
    }
  }

  // A World ends its processes where one of its ranks dies: of groups that the victim was never in.
  void windows(Group& g, std::size_t count) {
    if (!g.own || g.failed || plan_.lacks() || plan_.memory >= 0 || g.has(plan_.victim)) return;
    const auto salt = static_cast<std::uint64_t>(step_) * 64 + static_cast<std::uint64_t>(g.members.front());
    const std::string wrong = use_windows(*g.own, by_network_, count % 5000 + 1, salt);
    if (!wrong.empty()) complain(g, "windows", wrong);
  }

  // The members read each other's memory by agents, whose metadata goes round in the group.
  void transfer(Group& g, std::size_t count, bool by_network) {
    if (!g.own || g.members.size() == 1 || plan_.lacks()) return;
    Communicator& c = *g.own;
    const Rank next = (c.rank() + 1) % c.ranks();
    const auto bytes = static_cast<std::int64_t>(count + 1);
    transfer::Options options{.name = fmt::format("rank {}", c.rank()), .only_network = by_network};
    if (by_network) options.key = "a key of the tests", options.listen = "127.0.0.1:0";
    auto agent = transfer::Agent::open(options);
    if (!agent) return complain(g, "agent", agent.error().message);
    const auto own = agent->allocate(bytes), to = agent->allocate(bytes);
    const auto said = agent->metadata();
    std::vector<std::uint8_t> card(4096), cards(card.size() * static_cast<std::size_t>(c.ranks()));
    if (!own || !to || !said || said->size() > card.size() - 2) return complain(g, "agent", "no memory or metadata");
    std::fill_n(own->data, bytes, static_cast<std::byte>(c.rank() + step_));
    card[0] = static_cast<std::uint8_t>(said->size() >> 8), card[1] = static_cast<std::uint8_t>(said->size());
    std::ranges::copy(*said, card.begin() + 2);
    if (const Status s = c.all_gather<std::uint8_t>(card, cards); !s) return judge(g, "all_gather", s.error());
    const std::uint8_t* const theirs = &cards[card.size() * static_cast<std::size_t>(next)];
    const std::size_t length = std::size_t{theirs[0]} << 8 | theirs[1];
    const std::string wrong = read_from(*agent, *to, {reinterpret_cast<const char*>(theirs + 2), length});
    const bool same =
        std::all_of(to->data, to->data + bytes, [&](std::byte b) { return b == static_cast<std::byte>(next + step_); });
    if (!wrong.empty() && !(doomed(g) && g.members[static_cast<std::size_t>(next)] == plan_.victim))
      return complain(g, "read", wrong);
    if (wrong.empty() && !same) return complain(g, "read", "other bytes");
    if (const Status s = c.barrier(); !s) judge(g, "barrier", s.error());
  }
  static std::string read_from(transfer::Agent& agent, const transfer::Registration& to, std::string_view metadata) {
    const auto peer = agent.load(metadata);
    if (!peer) return peer.error().message;
    const transfer::Rows all{.region = to.region, .bytes = to.bytes}, first{.region = 0, .bytes = to.bytes};
    const auto local = agent.prepare("", std::span(&all, 1)), remote = agent.prepare(*peer, std::span(&first, 1));
    if (!local || !remote) return local ? remote.error().message : local.error().message;
    auto request = agent.make(transfer::Op::kRead, *local, *remote, {.deadline = 20s});
    if (!request) return request.error().message;
    if (const Status s = agent.post(*request); !s) return s.error().message;
    return agent.wait(*request) == transfer::State::kDone ? "" : request->error().message;
  }

  // Groups of two threads at once; their errors are judged afterwards.
  void both(Group& g, Group& other, std::size_t count) {
    if (&g == &other || !g.own || !other.own) {
      sum(g, count, 0);
      return &g == &other ? void() : sum(other, count, 0);
    }
    Way beside(*this, 0);
    std::thread thread([&] { beside.sum(other, count, 1); });
    sum(g, count, 0);
    thread.join();
    if (wrong_.empty()) wrong_ = beside.wrong_;
  }
  Way(const Way& o, int) : random_(1), plan_(o.plan_), self_(o.self_), by_network_(o.by_network_), step_(o.step_) {}

  void split(Group& g) {
    const std::uint64_t colors = 1 + below(2);
    std::vector<std::int64_t> color, key;
    for (std::size_t i = 0; i < g.members.size(); ++i) {
      color.push_back(below(9) == 0 ? Communicator::kNoColor : static_cast<std::int64_t>(below(colors)));
      key.push_back(static_cast<std::int64_t>(below(3)));
    }
    std::optional<Communicator> made;
    if (g.own) {
      const auto own = static_cast<std::size_t>(g.own->rank());
      auto child = g.own->split(color[own], key[own]);
      if (!child) judge(g, "split", child.error());
      if (child && color[own] != Communicator::kNoColor) made.emplace(std::move(*child));
    }
    if (plan_.lacks() || doomed(g)) return;  // others may have got none
    const int level = g.level + 1;
    const std::vector<Rank> before = g.members;
    for (std::uint64_t c = 0; c < colors; ++c) {
      std::vector<std::size_t> at;
      for (std::size_t i = 0; i < before.size(); ++i)
        if (color[i] == static_cast<std::int64_t>(c)) at.push_back(i);
      std::stable_sort(at.begin(), at.end(), [&](std::size_t a, std::size_t b) { return key[a] < key[b]; });
      Group child{.level = level};
      for (const std::size_t i : at) child.members.push_back(before[i]);
      if (child.has(self_)) child.own = made;
      if (child.own && child.own->ranks() != static_cast<Rank>(child.members.size()))
        complain(child, "split", "another number of ranks");
      if (!child.members.empty()) groups_.push_back(std::move(child));
    }
  }

  // Also of a rank without descriptors: it keeps one in reserve to ask with, and one to answer with.
  void agree(Group& g) {
    if (!g.own) return;
    const auto agreed = g.own->agree(~(std::uint64_t{1} << g.own->rank()));
    if (!agreed && lacks_quorum(g, agreed.error())) return;
    if (!agreed) return complain(g, "agree", agreed.error().message);
    const bool right = agreed->ended.empty() || (doomed(g) && agreed->ended == std::vector{g.index_of(plan_.victim)});
    if (!right) complain(g, "agree", fmt::format("{} are not counted", agreed->ended));
    for (Rank r = 0; r < g.own->ranks(); ++r)
      if (agreed->ended.empty() && (agreed->bits >> r & 1) != 0) complain(g, "agree", "another's bits");
  }

  // A rank that shrinks ends what others still call there: after agree() nobody does.
  void shrink(Group& g) {
    if (!g.own) return;
    agree(g);
    if (!wrong_.empty()) return;
    auto left = g.own->shrink();
    if (!left && (plan_.lacks() || lacks_quorum(g, left.error()))) return g.own.reset();
    if (!left) return complain(g, "shrink", left.error().message);
    std::vector<Rank> members = g.members;
    if (doomed(g)) std::erase(members, plan_.victim);
    if (left->ranks() != static_cast<Rank>(members.size()))
      return complain(g, "shrink", fmt::format("{} ranks instead of {}", left->ranks(), members.size()));
    g.own = std::move(*left);
    g.failed = false;
  }

  // Every group that the dead rank was in goes on without it; the others go on.
  void shrink_all() {
    for (Group& g : groups_) {
      if (doomed(g)) {
        shrink(g);
        std::erase(g.members, plan_.victim);
      }
      sum(g, 1000, 0);
    }
  }

  void act() {
    const auto at = static_cast<std::size_t>(below(groups_.size()));
    const auto other = static_cast<std::size_t>(below(groups_.size()));
    const auto count = static_cast<std::size_t>(below(3) == 0 ? below(60000) : below(300));
    Group& g = groups_[at];
    const auto root = static_cast<Rank>(below(g.members.size()));
    std::uint64_t kinds = 0;
    for (Rank r = 0; r < plan_.ranks; ++r)
      if (const std::uint64_t kind = below(4); r == self_) kinds = kind;
    switch (below(12)) {
      case 11:
        return count % 3 == 0 ? windows(g, count) : transfer(g, count, root % 2 == 0);
      case 0:
        return broadcast(g, count, root);
      case 1:
        return letters(g, count);
      case 2:
        return queue(g, count);
      case 3:
        return both(g, groups_[other], count);
      case 4:
        return agree(g);
      case 5:
        if (at > 0 && !doomed(g) && !plan_.lacks()) shrink(g);
        return;
      case 6:
        if (at == 0) return;
        if (below(2) == 0 && g.own && !g.failed)
          if (const Status s = g.own->finalize(); !s) judge(g, "finalize", s.error());
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(at));
        return;
      case 7:
      case 8:
        if (g.level < kLevels && groups_.size() < kMostGroups) split(g);
        return;
      default:
        return sum(g, count, kinds);
    }
  }

  static constexpr std::array<std::int64_t, 5> jumps_ = {0, 7200, -86400, 40000000, -3};  // seconds
  Random random_;
  Plan plan_;
  Rank self_;
  bool by_network_;
  std::vector<Group> groups_;
  int step_ = 0;
  std::string wrong_;
  bool aborted_ = false;  // the victim, before its step came here
};

}  // namespace

Verdict live_tree(std::uint64_t seed, Over over) {
  Random random(seed);
  const Plan plan = draw(random);
  ConnectOptions options{.timeout = 30s};
  if (over == Over::kMixed)
    options.node = "machine";
  else
    options.transport = kNames[static_cast<int>(over)];
  std::optional<tests::SmallSharedMemory> small;
  if (plan.shared_memory >= 0) small.emplace(plan.shared_memory);
  tests::ConnectedJob job(plan.ranks, options, [&](Communicator& c, tests::Report&, tests::NoticeBoard&) {
    return Way(seed, plan, c, over == Over::kTcp).go();
  });
  Verdict verdict{.said = job.join(plan.victim < 0 ? std::vector<Rank>{} : std::vector{plan.victim})};
  for (std::size_t r = 0; r < verdict.said.size(); ++r)
    if (static_cast<Rank>(r) != plan.victim && verdict.wrong.empty() && verdict.said[r] != Way::kDone &&
        !(plan.shared_memory >= 0 && !verdict.said[r].empty() && !verdict.said[r].starts_with(Way::kWrong)))
      verdict.wrong =
          fmt::format("tree of seed {} over {}, {} ranks, rank {} dies in step {}: rank {}: {}", seed,
                      kNames[static_cast<int>(over)], plan.ranks, plan.victim, plan.dies_in, r, verdict.said[r]);
  return verdict;
}

}  // namespace weft::disagreement
