#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weft::training {

// "--Tensor-Model-Parallel-Size" and "tensor_model_parallel_size" are one key.
std::string key_of(std::string_view key);

// What a configuration file sets, in its order: full paths such as "model.tensor_model_parallel_size", and values as
// text. Remembers what was asked for, so that the rest can be named.
class Settings {
 public:
  // Replaces what has the same path. Values that say "not set" (null, None, ~, empty) are left out.
  void set(std::string_view path, std::string value);
  // The value whose path is `name` or ends with ".name"; the shallowest, then the first. Marks it as read.
  std::optional<std::string> find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name).has_value(); }
  // Whether the value is there and not false, 0, none or off.
  bool on(std::string_view name) const;
  // Errors (bad input): no count. "auto", "???" and values that only the job knows are none.
  Result<std::optional<std::int64_t>> count(std::string_view file, std::string_view name) const;

  // Where texts that only the running job can replace stand, "$NAME" and the line of the file.
  void place(std::map<std::string, int> lines) { lines_ = std::move(lines); }
  // Counts that were asked for and that only the running job knows, each with its line where that is known.
  const std::vector<std::string>& undecided() const { return undecided_; }
  // Notes a value that was asked for and that only the running job knows.
  void leave(std::string_view name, const std::string& value) const;
  // Adds what is not set yet; values that say "auto" are left out.
  void add(const Settings& others);

  const std::vector<std::pair<std::string, std::string>>& all() const { return values_; }
  // Paths that nobody has asked for.
  std::vector<std::string> unread() const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
  std::map<std::string, int> lines_;
  mutable std::set<std::string, std::less<>> read_;
  mutable std::vector<std::string> undecided_;
};

// The arguments of the commands of a shell script, or of lists in it where no command has arguments, and what stands in
// the files that they name (companions.h). `file`: the script's path, whose folder has the files that it sources. Unset
// variables remain as "$NAME". `arguments`: $1, $2 and so on. Errors (bad input): a quote or bracket without an end,
// with its line; a file beside the script that is broken.
Result<Settings> shell_settings(const std::string& file, std::string_view text,
                                const std::vector<std::string>& arguments, std::vector<std::string>& notes);
// YAML with OmegaConf's ${path}, ${.sibling}, ${oc.env:NAME,default}, ${multiply:a,b} and its like.
// Hydra's `defaults:` lists are followed into the files beside `file`: "name", "group: name", "group@package: name",
// with _self_ where it stands, else last. `notes`: gets a sentence for each that is not there. Errors (bad input):
// file, line and what is wrong.
Result<Settings> yaml_settings(std::string_view file, std::string_view text, std::vector<std::string>& notes);
// TOML. Errors as above.
Result<Settings> toml_settings(std::string_view file, std::string_view text);
// JSON objects, nested. Errors as above.
Result<Settings> json_settings(std::string_view file, std::string_view text);
// Keyword arguments and assignments of a Python file, read as syntax: "training=TrainingConfig(seq_len=8192)" is
// training.seq_len. `function`: the one whose body counts, with those that it calls; empty: the only one that returns a
// configuration, or the whole file. Errors (bad input): no such function; several, and none was named.
Result<Settings> python_settings(std::string_view file, std::string_view text, const std::string& function);

}  // namespace weft::training
