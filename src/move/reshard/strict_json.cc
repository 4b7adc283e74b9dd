#include "move/reshard/strict_json.h"

#include <unordered_set>

namespace weft::reshard {
namespace {

using nlohmann::json;

// Follows the parser through objects and arrays. (A callback of json::parse takes quadratic time for long arrays.)
class KeyWatcher : public nlohmann::json_sax<json> {
 public:
  explicit KeyWatcher(std::vector<std::string>& twice) : twice_(twice) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool start_object(std::size_t) override { return begin(false); }
  bool start_array(std::size_t) override { return begin(true); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& key) override {
    levels_.back().here = key;
    if (!levels_.back().keys.insert(key).second && twice_.empty()) note();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }

 private:
  struct Level {
    bool array = false;
    std::int64_t index = -1;
    std::string here;  // the key whose value is being read
    std::unordered_set<std::string> keys = {};
  };

  bool count() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
    return true;
  }
  bool begin(bool array) {
    count();
    levels_.push_back({.array = array});
    return true;
  }
  bool end() {
    levels_.pop_back();
    return true;
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
    parsed.value = json::parse(text);
    KeyWatcher watcher(parsed.twice);
    json::sax_parse(text, &watcher);
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
