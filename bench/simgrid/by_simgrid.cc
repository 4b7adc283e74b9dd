#include <fmt/format.h>

#include <chrono>
#include <map>
#include <simgrid/s4u.hpp>

#include "flows.h"

namespace s4u = simgrid::s4u;

namespace {

// Zones need a route for every pair that talks: one per way, under the names of its two ends.
std::vector<s4u::Host*> platform(const Job& job) {
  auto* zone = s4u::create_full_zone("all");
  std::vector<s4u::Host*> hosts;
  for (int g = 0; g < job.gpus; ++g) hosts.push_back(zone->create_host(fmt::format("gpu{}", g), 1e9));
  std::vector<s4u::Link*> links;
  for (std::size_t l = 0; l < job.capacities.size(); ++l)
    links.push_back(zone->create_link(fmt::format("link{}", l), job.capacities[l])->set_latency(0.0));
  std::map<std::pair<int, int>, bool> joined;
  for (const Flow& f : job.flows) {
    if (std::exchange(joined[{f.from, f.to}], true)) continue;
    std::vector<s4u::LinkInRoute> route;
    for (const auto& use : job.ways[f.way]) route.emplace_back(links[static_cast<std::size_t>(use.resource)]);
    zone->add_route(hosts[static_cast<std::size_t>(f.from)]->get_netpoint(),
                    hosts[static_cast<std::size_t>(f.to)]->get_netpoint(), nullptr, nullptr, route, false);
  }
  zone->seal();
  return hosts;
}

// One actor starts all flows; none of them has an actor of its own, which is SimGrid's fastest way.
void start_all(const Job& job, const std::vector<s4u::Host*>& hosts, Answer& answer) {
  std::vector<s4u::CommPtr> comms;
  for (const Flow& f : job.flows) {
    if (f.start > s4u::Engine::get_clock()) s4u::this_actor::sleep_until(f.start);
    comms.push_back(s4u::Comm::sendto_async(hosts[static_cast<std::size_t>(f.from)],
                                            hosts[static_cast<std::size_t>(f.to)],
                                            static_cast<std::uint64_t>(f.bytes)));
  }
  for (const auto& comm : comms) {
    comm->wait();
    answer.ends.push_back(comm->get_finish_time());
  }
}

}  // namespace

// Pure max-min shares: the old model CM02 without its corrections for TCP, and links without latency, which would
// weigh the shares.
Answer by_simgrid(const Job& job) {
  std::vector<std::string> arguments{"flows",
                                     "--cfg=network/model:CM02",
                                     "--cfg=network/crosstraffic:0",
                                     "--cfg=network/TCP-gamma:0",
                                     "--cfg=network/latency-factor:1",
                                     "--cfg=network/bandwidth-factor:1",
                                     "--cfg=network/weight-S:0",
                                     "--log=root.thres:critical"};
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  int count = static_cast<int>(pointers.size());
  s4u::Engine engine(&count, pointers.data());
  const std::vector<s4u::Host*> hosts = platform(job);
  Answer answer;
  s4u::Actor::create("starter", hosts[0], [&] { start_all(job, hosts, answer); });
  const auto start = std::chrono::steady_clock::now();
  engine.run();
  answer.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answer;
}
