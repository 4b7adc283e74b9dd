#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace weft::doctor {

// Which part of a machine a line is about: a port ("mlx5_10 port 1"), a GPU ("GPU 0000:b3:00.0"), an NVSwitch, a NIC
// ("efa_0"), a node, a pod. Tools name the part on a line above: ibstat, ibstatus and ibv_devinfo the port, the kernel
// driver the GPU, kubectl describe the pod and its node. One device has one name, however its address is written.
class Parts {
 public:
  // Every line of a file that has one of words(), in order.
  void line(std::string_view text, int number);
  // The part that a line of a finding is about; empty: none is named.
  std::string of(std::string_view text, int number) const;
  void clear();  // at the start of a file

 private:
  void describe(std::string_view text);

  std::string device_, port_, gpu_, pod_, node_;
  int port_line_ = 0, gpu_line_ = 0;
};

constexpr std::string_view kPartWords[] = {
    "CA '", "nfiniband device '", "hca_id:", "Port ", "port:", "NVIDIA GPU ", "Name: ", "Node: ", "Roles: "};

// "mlx5_core 0000:3b:00.0 mlx5_3: …" names one NIC twice: "NIC 0000:3b:00.0" and "mlx5_3". Empty: another line.
std::pair<std::string, std::string> nic_and_name(std::string_view text);

}  // namespace weft::doctor
