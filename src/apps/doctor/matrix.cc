#include "apps/doctor/matrix.h"

#include <algorithm>
#include <utility>

#include "apps/doctor/cells.h"
#include "apps/doctor/line.h"

namespace weft::doctor {
namespace {

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t\r", end);
  }
  return words;
}

class Reader {
 public:
  void line(std::string_view text) {
    const auto words = words_of(text);
    if (words.empty()) return;
    if (title(text)) return;
    device(text);
    out_.apart += has(text, "CANNOT Access Peer") ? 1 : 0;
    // "Waiving device_to_device_memcpy_write_ce."
    if (words[0] == "Waiving" && words.size() == 2) out_.waived.emplace_back(words[1].substr(0, words[1].rfind('.')));
    if (!open_) return;
    if (columns_ == 0) {
      const std::size_t names = words[0] == "D\\D" ? 1 : 0;
      for (std::size_t i = names; i < words.size(); ++i)
        if (words[i] != std::to_string(i - names)) return void(open_ = false);
      columns_ = words.size() - names;
      return;
    }
    PairMatrix& matrix = out_.all.back();
    if (words.size() != columns_ + 1 || words[0] != std::to_string(matrix.rates.size())) return void(open_ = false);
    std::vector<double> row;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const bool own = !matrix.host && i - 1 == matrix.rates.size();
      row.push_back(own ? 0 : std::max(0.0, number(words[i]).value_or(0)));
    }
    matrix.rates.push_back(std::move(row));
  }

  PairMatrices finish() {
    std::erase_if(out_.all, [](const PairMatrix& m) { return m.rates.empty(); });
    return std::move(out_);
  }

 private:
  // "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix
  // (GB/s)".
  bool title(std::string_view text) {
    const bool nvbandwidth = has(text, "bandwidth (GB/s)") && has(text, "(column)");
    const bool samples = has(text, "Bandwidth") && has(text, "Matrix (GB/s)");
    if (!nvbandwidth && !samples) return false;
    const auto begin = text.find_first_not_of(" \t#");
    out_.all.push_back({.title = std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1)),
                        .host = has(text, "CPU(row)"),
                        .both_ways = samples && has(text, "Bidirectional"),
                        .staged = has(text, "P2P=Disabled")});
    open_ = true;
    columns_ = 0;
    return true;
  }

  // "Device 0: NVIDIA RTX A6000 (00000000:01:00)", "Device: 0, NVIDIA GeForce RTX 5090, pciBusID: 16, …".
  void device(std::string_view text) {
    if (!text.starts_with("Device")) return;
    const bool samples = text.starts_with("Device: ");
    const auto mark = samples ? text.find(", ") : text.find(": ");
    if (mark == std::string_view::npos || has(text, "Access Peer")) return;
    const std::string_view rest = text.substr(mark + 2);
    std::string model(rest.substr(0, std::min({rest.find(" ("), rest.find(", pci"), rest.find('\r'), rest.size()})));
    if (!model.empty()) out_.gpus.push_back(std::move(model));
  }

  PairMatrices out_;
  bool open_ = false;
  std::size_t columns_ = 0;
};

}  // namespace

PairMatrices read_matrices(std::string_view text) {
  constexpr std::size_t kLongestLine = 4096;
  Reader reader;
  while (!text.empty()) {
    const auto end = text.find('\n');
    reader.line(strip_launcher(text.substr(0, std::min(end, kLongestLine))).text);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.finish();
}

}  // namespace weft::doctor
