#include "machine/import/nvidia_smi.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "machine/import/matrix_machine.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

// nvidia-smi topo -mp: its legend has no line of NVLink.
bool leaves_nvlink_out(std::string_view text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  return has("topo -mp") || (has("Legend:") && has("PIX  =") && !has("NV#"));
}

using Way = ClassMatrix::Way;
using Words = std::vector<std::string_view>;

constexpr std::size_t kMostColumns = 1024;

bool is_header(const Words& words) {
  return words.size() >= 1 && words[0] == "GPU0" && (words.size() == 1 || words[1] != "X");
}

std::optional<std::int32_t> number(std::string_view text) {
  std::int32_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

// A word of `nvidia-smi topo -p2p`: whether two GPUs may read or write each other's memory, not how they are joined.
bool is_peer_status(std::string_view text) {
  for (const std::string_view status : {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
    if (text == status) return true;
  return false;
}

// One entry of the table.
std::optional<ClassMatrix::Cell> read_cell(std::string_view text) {
  constexpr std::int32_t kMostLinks = 64;
  if (text == "X") return ClassMatrix::Cell{};
  if (text.starts_with("NV")) {
    const auto links = number(text.substr(2));
    if (!links || *links < 1 || *links > kMostLinks) return std::nullopt;
    return ClassMatrix::Cell{Way::kScaleUp, *links};
  }
  static constexpr std::pair<std::string_view, Way> kClasses[] = {{"PIX", Way::kPix},   {"PXB", Way::kPxb},
                                                                  {"PHB", Way::kPhb},   {"SYS", Way::kSys},
                                                                  {"NODE", Way::kNode}, {"SOC", Way::kSys}};
  for (const auto& [word, way] : kClasses)
    if (text == word) return ClassMatrix::Cell{way, 1};
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) {}

  Result<ClassMatrix> run(std::string_view text) {
    for (const TextLine& line : lines_of(text)) {
      const Words words = words_of(line.text);
      if (columns_.empty()) {
        if (is_header(words)) WEFT_CHECK(read_header(line, words));
        continue;
      }
      if (words.empty()) {
        if (rows_ > 0) in_table_ = false;
        continue;
      }
      if (in_table_ && position(words[0]) < columns_.size())
        WEFT_CHECK(read_row(line, words));
      else if (rows_ > 0)
        in_table_ = false;
      read_nic_legend(words);
    }
    if (columns_.empty())
      return bad_input("{}:1: no table of nvidia-smi topo: no line of columns starts with GPU0", name_);
    WEFT_CHECK(check());
    if (leaves_nvlink_out(text))
      for (ClassMatrix::Entry& entry : matrix_.entries)
        if (entry.kind == DeviceKind::kGpu)
          entry.facts.set("assumed", "nvidia-smi topo -mp leaves NVLink out: this machine has none; topo -m shows it");
    return std::move(matrix_);
  }

 private:
  std::size_t position(std::string_view label) const {
    return static_cast<std::size_t>(std::ranges::find(columns_, label) - columns_.begin());
  }

  Status read_header(const TextLine& line, const Words& words) {
    for (const std::string_view word : words) {
      if (word == "CPU" || word == "NUMA") break;
      if (position(word) < columns_.size()) return bad_input("{}:{}: {} is there twice", name_, line.number, word);
      columns_.push_back(word);
      ClassMatrix::Entry entry;
      entry.kind = word.starts_with("GPU") ? DeviceKind::kGpu : DeviceKind::kNic;
      entry.line = line.number;
      if (entry.kind == DeviceKind::kNic) entry.model = word;
      matrix_.entries.push_back(std::move(entry));
    }
    if (columns_.size() > kMostColumns)
      return bad_input("{}:{}: more than {} columns", name_, line.number, kMostColumns);
    const auto numa = std::ranges::find(words, "NUMA");
    // "CPU Affinity" is one column of values, "NUMA Affinity" the next.
    has_numa_ = numa != words.end();
    seen_.assign(columns_.size(), std::vector<bool>(columns_.size()));
    had_row_.assign(columns_.size(), false);
    matrix_.resize();
    return {};
  }

  Status read_row(const TextLine& line, const Words& words) {
    const std::size_t row = position(words[0]);
    if (had_row_[row]) return bad_input("{}:{}: {} has two rows", name_, line.number, words[0]);
    had_row_[row] = true;
    ++rows_;
    matrix_.entries[row].line = line.number;
    if (words.size() <= columns_.size())
      return bad_input("{}:{}: {} entries for {} columns", name_, line.number, words.size() - 1, columns_.size());
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string_view text = words[column + 1];
      if (is_peer_status(text))
        return bad_input(
            "{}:{}: '{}' is an entry of nvidia-smi topo -p2p, which says who may reach whose memory and not over which "
            "links; nvidia-smi topo -m says that",
            name_, line.number, text);
      const auto cell = read_cell(text);
      if (!cell) return bad_input("{}:{}: '{}' is no path class", name_, line.number, text);
      if ((text == "X") != (row == column))
        return bad_input("{}:{}: '{}' between {} and {}", name_, line.number, text, columns_[row], columns_[column]);
      if (seen_[column][row] &&
          (matrix_.cells[column][row].way != cell->way || matrix_.cells[column][row].links != cell->links))
        return bad_input("{}:{}: {} to {} is '{}', the other way round it is not: the matrix is not symmetric", name_,
                         line.number, columns_[row], columns_[column], text);
      seen_[row][column] = true;
      matrix_.cells[row][column] = matrix_.cells[column][row] = *cell;
    }
    if (has_numa_ && words.size() > columns_.size() + 2)
      if (const auto numa = number(words[columns_.size() + 2])) matrix_.entries[row].numa = *numa;
    return {};
  }

  // "NIC0: mlx5_0" below the table.
  void read_nic_legend(const Words& words) {
    if (words.size() < 2 || !words[0].ends_with(':')) return;
    const std::size_t at = position(words[0].substr(0, words[0].size() - 1));
    if (at < columns_.size() && matrix_.entries[at].kind == DeviceKind::kNic) matrix_.entries[at].model = words[1];
  }

  // Tables cut short lack NIC rows; the GPUs' rows say the same.
  Status check() const {
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (!had_row_[i] && matrix_.entries[i].kind == DeviceKind::kGpu)
        return bad_input("{}:{}: {} has a column but no row", name_, matrix_.entries[i].line, columns_[i]);
    return {};
  }

  std::string_view name_;
  Words columns_;
  ClassMatrix matrix_;
  std::vector<std::vector<bool>> seen_;
  std::vector<bool> had_row_;
  std::size_t rows_ = 0;
  bool in_table_ = true, has_numa_ = false;
};

}  // namespace

bool is_nvidia_smi(std::string_view text) {
  return std::ranges::any_of(lines_of(text), [](const TextLine& line) { return is_header(words_of(line.text)); });
}

Result<Topology> parse_nvidia_smi(const Catalog& catalog, std::string_view name, std::string_view text) {
  WEFT_TRY(const ClassMatrix matrix, Parser(name).run(text));
  return machine_of(catalog, name, matrix);
}

}  // namespace weft::topology
