#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/training/config/settings.h"

namespace weft::training {

// Finds files that a configuration names.
class Beside {
 public:
  // `file`: the configuration's path. `written`: files that a script writes itself, by their paths.
  explicit Beside(const std::string& file, std::map<std::string, std::string> written = {});

  // The text of `name`: written by the script, in the configuration's folder or below one of the folders above it, or
  // in its folder without the first parts of the path ("$ROOT/configs/x.json"). Nothing: it is not there.
  std::optional<std::string> text(const std::string& name) const;

 private:
  std::string folder_;
  std::map<std::string, std::string> written_;
};

// Adds what stands in the files that the settings name, where the settings do not say it themselves: accelerate's
// (--config_file), DeepSpeed's (deepspeed, deepspeed_config, deepspeed_config_file), that of the Trainer's fsdp_config.
// `assumed`: gets a sentence for each that is named and is not there. Errors (bad input): a file that is there and is
// broken, with its line.
Status read_companions(const Beside& beside, Settings& settings, std::vector<std::string>& assumed);

// The same for a file of another kind of which only the name is known, by its ending: YAML, JSON, TOML. False: it is
// not there. Errors as above.
Result<bool> read_companion(const Beside& beside, const std::string& name, Settings& settings,
                            std::vector<std::string>& assumed);

}  // namespace weft::training
