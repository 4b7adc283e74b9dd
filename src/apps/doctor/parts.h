#pragma once

#include <string>
#include <string_view>

namespace weft::doctor {

// Which part of a machine a line is about: a port ("mlx5_10 port 1"), a GPU ("GPU 0000:b3:00.0"), a NIC ("efa_0").
// Tools name the part on a line above: ibstat, ibstatus and ibv_devinfo the port, the kernel driver the GPU.
class Parts {
 public:
  // Every line of a file that has one of words(), in order.
  void line(std::string_view text, int number);
  // The part that a line of a finding is about; empty: none is named.
  std::string of(std::string_view text, int number) const;
  void clear();  // at the start of a file

 private:
  std::string device_, port_, gpu_;
  int port_line_ = 0, gpu_line_ = 0;
};

constexpr std::string_view kPartWords[] = {"CA '", "nfiniband device '", "hca_id:", "Port ", "port:", "NVIDIA GPU "};

}  // namespace weft::doctor
