#include "apps/serving/lanes.h"

#include <algorithm>

namespace weft::serving {
namespace {

// Adds an iteration's time to the columns that it covers, as shares of their width.
void spread(const Run::Sample& s, double width, std::vector<double>& to) {
  for (auto c = static_cast<std::size_t>(s.begin / width); c < to.size(); ++c) {
    const double left = static_cast<double>(c) * width;
    if (left >= s.end) return;
    to[c] = std::min(1.0, to[c] + (std::min(s.end, left + width) - std::max(s.begin, left)) / width);
  }
}

}  // namespace

Lanes lanes_of(const Run& run, bool apart, std::size_t columns, std::size_t most) {
  Lanes lanes{.seconds = std::max(run.seconds, 1e-9),
              .waiting = std::vector<double>(columns, -1),
              .running = std::vector<double>(columns, -1),
              .used = std::vector<double>(columns, -1)};
  const double width = lanes.seconds / static_cast<double>(columns);
  std::vector<bool> decodes;  // by engine: some iteration only decoded
  for (const Run::Sample& s : run.samples) {
    const auto engine = static_cast<std::size_t>(s.engine);
    if (decodes.size() <= engine) decodes.resize(engine + 1);
    if (!s.reads) decodes[engine] = true;
    const auto c = std::min(columns - 1, static_cast<std::size_t>(s.begin / width));
    lanes.waiting[c] = std::max(lanes.waiting[c], static_cast<double>(s.waiting));
    lanes.running[c] = std::max(lanes.running[c], static_cast<double>(s.running));
    lanes.used[c] = std::max(lanes.used[c], s.used);
  }
  const std::size_t shown = std::min(decodes.size(), most);
  lanes.left_out = decodes.size() - shown;
  for (std::size_t e = 0, prefills = 0, pools = 0; e < shown; ++e)
    lanes.engines.push_back({!apart       ? fmt::format("engine {}", e)
                             : decodes[e] ? fmt::format("decode {}", pools++)
                                          : fmt::format("prefill {}", prefills++),
                             std::vector<double>(columns), std::vector<double>(columns)});
  for (const Run::Sample& s : run.samples)
    if (const auto engine = static_cast<std::size_t>(s.engine); engine < shown)
      spread(s, width, s.reads ? lanes.engines[engine].reads : lanes.engines[engine].decodes);
  return lanes;
}

}  // namespace weft::serving
