#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/fact.h"

namespace weft::doctor {

// Reads what tools print over several lines: rates of ports (ibstat, ibstatus, ibv_devinfo), widths of PCIe links,
// memory errors and the state of the fabric of GPUs (nvidia-smi -q).
class ToolStates {
 public:
  void line(std::string_view text, const std::string& file, int number);
  void finish(const Finder& found) const;

  // Words of which one is in each line that is of interest.
  static const std::vector<std::string_view>& words();

 private:
  struct Port {
    std::string device, number, kind, layer, file;
    std::string state, physical;  // as the tool says them, in small letters
    double width = 0, rate = 0;   // lanes; Gb/s, of ibv_devinfo per lane
    int line = 0, state_line = 0;

    bool active() const { return state.find("active") != std::string::npos; }
    bool down() const { return state.find("down") != std::string::npos; }
    bool disabled() const { return physical.find("disabled") != std::string::npos; }

    double gigabits() const { return width > 0 ? width * rate : rate; }
  };
  struct Gpu {
    std::string name, fabric, status, file;
    int width = 0, most = 0, line = 0, fabric_line = 0;
    std::string memory;  // what is wrong with it: of the first such line, at `memory_line`
    int memory_line = 0;
  };
  void port(std::string_view key, std::string_view value, const std::string& file, int number);
  void memory(std::string_view key, std::string_view value, int number);
  void gpu(std::string_view key, std::string_view value, int number);
  void judge_rates(const Finder& found) const;
  void judge_states(const Finder& found) const;
  void judge_gpus(const Finder& found) const;

  std::vector<Port> ports_;
  std::vector<Gpu> gpus_;
  std::string device_, kind_;  // of the ports that follow
  std::string file_, section_;
};

}  // namespace weft::doctor
