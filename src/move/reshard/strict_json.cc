#include "move/reshard/strict_json.h"

#include <unordered_set>

namespace weft::reshard {
namespace {

using nlohmann::json;

// Follows the parser through objects and arrays.
class KeyWatcher {
 public:
  explicit KeyWatcher(std::vector<std::string>& twice) : twice_(twice) {}

  bool operator()(int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        count();
        levels_.push_back({.array = event == json::parse_event_t::array_start});
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        levels_.pop_back();
        break;
      case json::parse_event_t::key:
        levels_.back().here = parsed.get<std::string>();
        if (!levels_.back().keys.insert(levels_.back().here).second && twice_.empty()) note();
        break;
      case json::parse_event_t::value:
        count();
        break;
    }
    return true;
  }

 private:
  struct Level {
    bool array = false;
    std::int64_t index = -1;
    std::string here;  // the key whose value is being read
    std::unordered_set<std::string> keys = {};
  };

  void count() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
  }
  void note() {
    for (const Level& level : levels_) twice_.push_back(level.array ? std::to_string(level.index) : level.here);
  }

  std::vector<std::string>& twice_;
  std::vector<Level> levels_;
};

}  // namespace

StrictJson parse_strict_json(std::string_view text) {
  StrictJson parsed{.value = json(json::value_t::discarded)};
  try {
    parsed.value = json::parse(text, KeyWatcher(parsed.twice));
  } catch (const json::exception& e) {
    parsed.error = e.what();
  }
  return parsed;
}

Status check_no_lfs_pointer(const std::string& file, std::string_view text) {
  if (!text.starts_with("version https://git-lfs.github.com/spec")) return {};
  return bad_input("{}: is a git-lfs pointer in place of the file; `git lfs pull` gets the file", file);
}

}  // namespace weft::reshard
