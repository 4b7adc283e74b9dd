#include "apps/kernels/host.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/kernels/files.h"
#include "base/text.h"

namespace weft::kernels {

Result<Launch> parse_launch(std::string_view text) {
  if (text == "graphs") return Launch::kGraphs;
  if (text == "eager") return Launch::kEager;
  if (text == "blocking") return Launch::kBlocking;
  return bad_input("--launch {}: graphs, eager or blocking", shown(text));
}

double eager_kernel() {
  static const double seconds = [] {
    for (const auto& file : embedded::kernel_files())
      if (file.path.ends_with("/host.json"))
        return nlohmann::json::parse(file.text, nullptr, false).value("eager_kernel_us", 0.0) * 1e-6;
    return 0.0;
  }();
  return seconds;
}

double waits_for_host(Launch launch, double launching, double running) {
  switch (launch) {
    case Launch::kGraphs:
      return 0;
    case Launch::kEager:
      return std::max(0.0, launching - running);
    case Launch::kBlocking:
      return launching;
  }
  return 0;
}

}  // namespace weft::kernels
