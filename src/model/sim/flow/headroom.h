#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::sim {

// Which resources can ever bind, that is, be what limits a flow. Most links of a machine cannot, because
//   - all that the ways over them have ever wanted at once fits, or
//   - what exceeds that has passed a narrower link: all ways over it whose bottleneck is that link together bring no
//     more than the bottleneck lets through.
// A way's bottleneck, seen from one of its resources, is the nearest one of less capacity (of the same capacity, and a
// lower number) that it crosses equally often. So resources rely on smaller ones only, never on each other in a circle.
// A resource that can bind once is taken to do so for ever: claims only grow. So is one that many ways cross, as in an
// exchange of all with all: to keep their claims would cost more than it saves. Units: bytes per second.
class Headroom {
 public:
  using Resource = std::int32_t;
  // A flow that crosses a resource several times, or stands for several equal ones that do.
  struct Use {
    Resource resource;
    std::int32_t times = 1;
  };
  using Path = std::span<const Use>;
  using Way = std::int32_t;  // the number of a path that flows take

  // The next resource.
  void add(double capacity);
  bool binds(Resource r) const { return binds_[static_cast<std::size_t>(r)] != 0; }

  // Flows of this way may want `more` at once in addition; `first`: they wanted nothing before. Returns the resources
  // that can bind from now on; valid until the next call.
  std::span<const Resource> claim(Way way, Path path, double more, bool first);
  // Capacities change: all resources can bind from now on, those added later as well. Returned are those that could not
  // so far.
  std::span<const Resource> give_up();
  bool given_up() const { return given_up_; }
  // The ways that cross a resource which has begun to bind. To be called once.
  std::vector<Way> take_ways(Resource r);

 private:
  struct Group {          // of ways with one bottleneck
    Resource bottleneck;  // -1: they have none
    double wanted;
  };
  struct Link {          // until it binds
    double claimed = 0;  // what all groups can bring at once, at the most
    std::vector<Group> groups = {};
    std::vector<Way> ways = {};
  };
  static constexpr std::size_t kMostWays = 64;  // over a resource that does not bind; a choice

  double capacity(Resource r) const { return capacities_[static_cast<std::size_t>(r)]; }
  Link& link(Resource r) { return links_[static_cast<std::size_t>(r)]; }
  bool narrower(Resource a, Resource b) const;
  Resource bottleneck_of(Path path, std::size_t place) const;
  double brought_by(const Group& group) const;
  void bind(Resource r);

  // By resource. Apart from each other: every new way asks whether its resources bind, and how large they are.
  std::vector<std::uint8_t> binds_;
  std::vector<double> capacities_;
  std::vector<Link> links_;
  bool given_up_ = false;
  std::vector<Resource> newly_;
};

}  // namespace weft::sim
