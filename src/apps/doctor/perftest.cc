#include "apps/doctor/perftest.h"

#include <algorithm>

#include "apps/doctor/cells.h"
#include "base/job_text.h"

namespace weft::doctor {
namespace {

constexpr double kMebi = 1048576;  // perftest's "MB/sec" counts MiB

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(" \t"); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t", end);
  }
  return words;
}

// "Device         : mlx5_0" of a line with several such pairs: what stands behind the key.
std::string value_of(std::string_view line, std::string_view key) {
  const auto at = line.find(key);
  if (at == std::string_view::npos) return "";
  const auto colon = line.find(':', at);
  const auto begin = colon == std::string_view::npos ? colon : line.find_first_not_of(" \t", colon + 1);
  if (begin == std::string_view::npos) return "";
  return std::string(line.substr(begin, line.find_first_of(" \t", begin) - begin));
}

class PairReader {
 public:
  void line(std::string_view text) {
    if (const auto at = text.find(" Test"); at != std::string_view::npos && text.find("_lat") == std::string_view::npos)
      title(text.substr(0, at + 5));
    if (std::string device = value_of(text, "Device  "); !device.empty()) table_.device = device;
    if (std::string link = value_of(text, "Link type"); !link.empty()) table_.link = link;
    table_.gpu = table_.gpu || text.find("cuMemAlloc") != std::string_view::npos ||
                 text.find("use_cuda") != std::string_view::npos || text.find("use_rocm") != std::string_view::npos;
    ucx(text);
    if (osu_title(text)) return;
    if (const int pairs = number_behind(text, "[ pairs: "); osu_ && pairs > 0) table_.pairs = pairs;
    if (osu_) return osu_row(words_of(text));
    if (text.find("#bytes") != std::string_view::npos && text.find("#iterations") != std::string_view::npos) {
      gigabits_ = text.find("Gb/sec") != std::string_view::npos;
      latency_ = text.find("t_typical") != std::string_view::npos || text.find("t_avg") != std::string_view::npos;
      header_ = true;
      return;
    }
    if (header_) row(words_of(text));
  }
  std::optional<PairTable> finish() {
    if (final_) table_.rows = {*final_};
    if (table_.test.empty() || !(header_ || final_)) return std::nullopt;
    return std::move(table_);
  }

 private:
  // ucx_perftest: "Final: iterations percentile average overall MB/s MB/s messages/s messages/s"; it does not print the
  // size, which follows from the bandwidth and the rate of messages.
  void ucx(std::string_view text) {
    if (text.find("bandwidth (MB/s)") != std::string_view::npos && text.find("message rate") != std::string_view::npos)
      table_.test = text.find("latency (usec)") != std::string_view::npos ? "ucx_perftest, latency" : "ucx_perftest";
    if (!table_.test.starts_with("ucx_perftest")) return;
    table_.gpu = table_.gpu || text.find("Send memory:  cuda") != std::string_view::npos ||
                 text.find("-m cuda") != std::string_view::npos;
    const auto words = words_of(text);
    // "Final: 1000 …", "[thread 0] 622 …"; before UCX 1.11 the row alone.
    const std::size_t first = words.empty() ? 0 : words[0] == "Final:" ? 1 : words[0] == "[thread" ? 2 : 0;
    if (words.size() != first + 8) return;
    const auto rate = number(words[first + 5]), messages = number(words[first + 7]), time = number(words[first + 3]);
    if (!rate || !messages || !time || *messages <= 0 || *rate < 0) return;
    const bool latency = table_.test.ends_with("latency");
    final_ = PairTable::Row{.bytes = static_cast<std::int64_t>(*rate * kMebi / *messages + 0.5),
                            .gigabytes = latency ? 0 : *rate * kMebi * 1e-9,
                            .microseconds = latency ? *time : 0};
  }

  // "# OSU MPI-CUDA Bandwidth Test v7.2", "… Bi-Directional Bandwidth …", "… Latency …": between two ranks; "… Multiple
  // Bandwidth / Message Rate …" adds up several pairs. Collectives have a name before "Latency".
  bool osu_title(std::string_view text) {
    const auto begin = text.find("OSU MPI"), end = text.find(" Test");
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return false;
    const auto name_at = text.find(' ', begin + 4);
    if (name_at == std::string_view::npos || name_at >= end) return false;
    const std::string_view name = text.substr(name_at + 1, end - name_at - 1);
    osu_ = name == "Bandwidth" || name == "Bi-Directional Bandwidth" || name == "Latency" ||
           name == "Multiple Bandwidth / Message Rate";
    if (!osu_) return false;
    table_.test = text.substr(begin, end - begin);
    table_.both_ways = name.starts_with("Bi-");
    table_.gpu = table_.test.find("MPI-") != std::string::npos;  // MPI-CUDA, MPI-ROCM, MPI-ZE
    latency_ = name == "Latency";
    header_ = true;
    table_.rows.clear();
    return true;
  }

  void osu_row(const std::vector<std::string_view>& words) {
    if (words.size() < 2 || words.size() > 6) return;
    const auto bytes = number(words[0]), value = number(words[1]);
    if (!bytes || !value || *bytes < 1 || *bytes > 1e15 || *value <= 0) return;
    constexpr double kMega = 1e-3;  // OSU's MB/s are 10^6
    table_.rows.push_back({.bytes = static_cast<std::int64_t>(*bytes),
                           .gigabytes = latency_ ? 0 : *value * kMega,
                           .microseconds = latency_ ? *value : 0});
  }

  void title(std::string_view text) {
    const auto begin = text.find_first_not_of(" \t#-");
    if (begin == std::string_view::npos) return;
    const std::string_view name = text.substr(begin);
    for (const std::string_view kind : {"RDMA_Write", "RDMA_Read", "Send", "Atomic", "RDMA_Write_With_Imm", "Raw"})
      if (name.starts_with(kind) &&
          (name.find("BW") != std::string_view::npos || name.find("Latency") != std::string_view::npos)) {
        table_.test = name;
        table_.both_ways = name.find("Bidirectional") != std::string_view::npos;
      }
  }
  // #bytes #iterations peak average rate; of latencies t_min t_max t_typical.
  void row(const std::vector<std::string_view>& words) {
    if (words.size() < 4) return;
    const auto bytes = number(words[0]), count = number(words[1]);
    const auto value = number(words[latency_ && words.size() > 4 ? 4 : 3]);
    if (!bytes || !count || !value || *bytes < 1 || *bytes > 1e15 || *value <= 0) return;
    PairTable::Row row{.bytes = static_cast<std::int64_t>(*bytes)};
    if (latency_)
      row.microseconds = *value;
    else
      row.gigabytes = gigabits_ ? *value / 8 : *value * kMebi * 1e-9;
    table_.rows.push_back(row);
  }

  PairTable table_;
  std::optional<PairTable::Row> final_;
  bool header_ = false, gigabits_ = false, latency_ = false, osu_ = false;
};

}  // namespace

std::optional<PairTable> read_perftest(std::string_view text) {
  constexpr std::size_t kLongestLine = 1024;
  PairReader reader;
  while (!text.empty()) {
    const auto end = text.find('\n');
    reader.line(strip_launcher(text.substr(0, std::min(end, kLongestLine))).text);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.finish();
}

}  // namespace weft::doctor
