// The same flows over the same links through SimGrid and through weft: simulated time and speed of both.
//
// Both walk weft's schedule of a ring all-reduce. SimGrid has one actor per strand, a link for every direction of every
// link of weft's topology, and one for every connection with the rate that one channel reaches; its corrections for
// TCP are off. Messages are eager in both. Sizes are large enough that links decide, which is all that SimGrid knows.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <map>
#include <simgrid/s4u.hpp>

#include "collectives/registry.h"
#include "cost/shipped.h"
#include "exec/virtual_run.h"
#include "sim/flow/flow_fabric.h"
#include "topology/machine.h"

namespace {

namespace s4u = simgrid::s4u;
using weft::Rank;

constexpr int kChannels = 8;
constexpr weft::Bytes kChunk = weft::Bytes{2} << 20;  // 256 KiB per channel: one message

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Work {
  weft::cost::MachineView machine;
  weft::schedule::Task task;
  weft::schedule::Plan plan;
};

Work ring_on(const std::string& name) {
  auto machine = weft::cost::shipped_view(weft::topology::load_machine(name).value()).value();
  const Rank ranks = machine.endpoints();
  const weft::schedule::Task task{.ranks = ranks,
                                  .ranks_per_node = machine.ranks_per_node(ranks),
                                  .elements = ranks * kChunk / 4,
                                  .element_bytes = 4};
  const auto* ring = weft::collectives::find_algorithm(weft::Collective::kAllReduce, "ring").value();
  auto plan = make_plan(task, *ring, weft::protocol::Protocol::kSimple, kChannels,
                        weft::sim::flow_capabilities(machine.topology(), kChannels), true);
  plan.slice_bytes = kChunk / kChannels;
  return {std::move(machine), task, plan};
}

struct Answer {
  double simulated = 0, wall = 0;  // seconds
  std::int64_t steps = 0;
};

struct CountSteps {
  std::int64_t* steps;
  void posted(Rank, int, const weft::protocol::Operation&) { ++*steps; }
  void done(int, const weft::protocol::Operation&) {}
};

Answer by_weft(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  weft::sim::FlowFabric fabric(work.machine.topology(), work.machine.routes(), work.task.ranks,
                               {.costs = work.machine.costs(), .strands = kChannels});
  Answer answer;
  const auto time = weft::exec::run_virtually(
      fabric, work.task, work.plan, [](Rank) { return weft::fabric::Call{}; }, CountSteps{&answer.steps});
  answer.simulated = time.value().s();
  answer.wall = seconds_since(start);
  return answer;
}

// The links of the topology, and of every connection, in SimGrid.
class Platform {
 public:
  explicit Platform(const Work& work) : work_(work), zone_(s4u::create_full_zone("all")) {
    for (Rank r = 0; r < work.task.ranks; ++r) hosts_.push_back(zone_->create_host(fmt::format("rank{}", r), 1e9));
    for (std::size_t l = 0; l < work.machine.topology().links().size(); ++l)
      for (const bool forward : {true, false}) {
        const auto& link = work.machine.topology().links()[l];
        links_.push_back(
            zone_->create_link(fmt::format("link{}{}", l, forward), (forward ? link.rate_ab : link.rate_ba).value())
                ->set_latency(0.0));
      }
  }

  s4u::Host* host(Rank rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  // Raw bytes of a message of so much data, on the way from one rank to another.
  double raw_bytes(Rank from, Rank to, weft::Bytes data) {
    return static_cast<double>(wire_bytes(work_.plan.protocol, data)) / cost(from, to).efficiency;
  }

  // The way of all messages between two ranks: the links, and the latency. The cap of one channel is the message's.
  void join(Rank from, Rank to) {
    if (!joined_.insert({from, to}).second) return;
    const auto path = work_.machine.path(from, to);
    std::vector<s4u::LinkInRoute> route;
    for (const auto& hop : path.hops)
      route.emplace_back(links_[static_cast<std::size_t>(2 * hop.link + (hop.forward ? 0 : 1))]);
    auto* delay = zone_->create_link(fmt::format("delay{}-{}", from, to), 1e15);
    delay->set_latency(latency(from, to));
    route.emplace_back(delay);
    zone_->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr, route, false);
  }
  // The most that the channel makes of a message: its rate, or what its copying in the GPU's own memory leaves.
  double rate(Rank from, Rank to, const weft::protocol::Operation& operation) {
    double copied = 0;
    for (const auto* side : {&operation.sources, &operation.destinations})
      for (const auto& end : *side)
        if (end.kind == weft::protocol::End::Kind::kLocal) copied += static_cast<double>(operation.bytes);
    for (const auto& end : operation.sources)
      if (end.kind == weft::protocol::End::Kind::kMessage)
        copied += static_cast<double>(wire_bytes(work_.plan.protocol, operation.bytes));
    const double channel = cost(from, to).channel.value() / cost(from, to).efficiency;
    const double local = work_.machine.costs().local_channel().value();
    return copied > 0 ? std::min(channel, raw_bytes(from, to, operation.bytes) / copied * local) : channel;
  }
  // How much longer than until a message has arrived its sender rests.
  double rest(Rank from, Rank to) { return std::max(0.0, cost(from, to).fence.s() - latency(from, to)); }
  void seal() { zone_->seal(); }

 private:
  double latency(Rank from, Rank to) {
    const auto& hop = cost(from, to);
    return (work_.machine.costs().latency(hop, work_.machine.path(from, to).latency, 1) - hop.overhead).s();
  }
  const weft::protocol::HopCost& cost(Rank from, Rank to) {
    return *work_.machine.costs().find(name(work_.machine.path(from, to).type), work_.plan.protocol);
  }

  const Work& work_;
  s4u::NetZone* zone_;
  std::vector<s4u::Host*> hosts_;
  std::vector<s4u::Link*> links_;
  std::set<std::pair<Rank, Rank>> joined_;
};

s4u::Mailbox* mailbox(Rank from, Rank to, int strand) {
  return s4u::Mailbox::by_name(fmt::format("{}-{}-{}", from, to, strand));
}

// One strand: takes its messages, then sends; the same operations in the same order.
void run_strand(const Work& work, Platform& platform, Rank rank, int strand) {
  using weft::protocol::End;
  static char payload;
  weft::schedule::StrandStream stream(work.task, work.plan, rank, strand);
  while (const auto* operation = stream.next()) {
    for (const End& end : operation->sources)
      if (end.kind == End::Kind::kMessage) mailbox(end.peer, rank, strand)->get<char>();
    for (const End& end : operation->destinations)
      if (end.kind == End::Kind::kMessage) {
        mailbox(rank, end.peer, strand)
            ->put_init(&payload, static_cast<std::uint64_t>(platform.raw_bytes(rank, end.peer, operation->bytes)))
            ->set_rate(platform.rate(rank, end.peer, *operation))
            ->wait();
        s4u::this_actor::sleep_for(platform.rest(rank, end.peer));
      }
  }
}

Answer by_simgrid(const Work& work) {
  int arguments = 5;
  char name[] = "flows", model[] = "--cfg=network/model:CM02", window[] = "--cfg=network/TCP-gamma:0",
       cross[] = "--cfg=network/crosstraffic:0", quiet[] = "--log=root.thres:critical";
  char* list[] = {name, model, window, cross, quiet, nullptr};
  s4u::Engine engine(&arguments, list);
  const auto start = std::chrono::steady_clock::now();
  Platform platform(work);
  for (Rank r = 0; r < work.task.ranks; ++r)
    for (int s = 0; s < kChannels; ++s) {
      weft::schedule::StrandStream stream(work.task, work.plan, r, s);
      const auto* first = stream.next();  // a ring has one next rank on every channel
      for (const auto& end : first->destinations)
        if (end.kind == weft::protocol::End::Kind::kMessage) platform.join(r, end.peer);
    }
  platform.seal();
  for (Rank r = 0; r < work.task.ranks; ++r)
    for (int s = 0; s < kChannels; ++s) {
      auto actor = s4u::Actor::create(fmt::format("{}.{}", r, s), platform.host(r),
                                      [&, r, s] { run_strand(work, platform, r, s); });
      weft::schedule::StrandStream stream(work.task, work.plan, r, s);
      stream.next();
      for (const auto& end : stream.next()->sources)  // messages start without waiting for their receiver
        if (end.kind == weft::protocol::End::Kind::kMessage) mailbox(end.peer, r, s)->set_receiver(actor);
    }
  engine.run();
  return {s4u::Engine::get_clock(), seconds_since(start), 0};
}

// SimGrid's engine lives once per process.
Answer by_simgrid_in_a_child(const Work& work) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  if (const pid_t child = fork(); child == 0) {
    const Answer answer = by_simgrid(work);
    const bool told = write(ends[1], &answer, sizeof answer) == sizeof answer;
    _exit(told ? 0 : 1);
  } else {
    close(ends[1]);
    Answer answer;
    const bool heard = read(ends[0], &answer, sizeof answer) == sizeof answer;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return heard ? answer : Answer{};
  }
}

}  // namespace

int main(int argc, char** argv) {
  fmt::print("{:>6} {:>10} {:>14} {:>14} {:>8} {:>10} {:>10} {:>7}\n", "GPUs", "steps", "SimGrid (us)", "weft (us)",
             "differ", "SimGrid s", "weft s", "ratio");
  for (int i = 1; i < argc; ++i) {
    const Work work = ring_on(fmt::format("dgx-h100:nodes={},net=ib-ndr,wires=switch", argv[i]));
    const Answer weft = by_weft(work), simgrid = by_simgrid_in_a_child(work);
    // A launch is before the first flow, and no part of what SimGrid simulates.
    const double launch = work.machine.costs().launch(work.plan.protocol)->s();
    const double time = weft.simulated - launch;
    fmt::print("{:>6} {:>10} {:>14.2f} {:>14.2f} {:>7.2f}% {:>10.2f} {:>10.2f} {:>7.1f}\n", work.task.ranks, weft.steps,
               simgrid.simulated * 1e6, time * 1e6, 100 * (time / simgrid.simulated - 1), simgrid.wall, weft.wall,
               simgrid.wall / weft.wall);
    std::fflush(stdout);
  }
}
