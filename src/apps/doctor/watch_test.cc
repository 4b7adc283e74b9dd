#include "apps/doctor/watch.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace weft::doctor {
namespace {

using Files = std::map<std::string, std::string>;

Probes machine(const Files& files, const std::string& smi = "", const std::string& nvlink = "") {
  Probes probes;
  probes.read = [files](const std::string& path) -> std::optional<std::string> {
    const auto at = files.find(path);
    return at == files.end() ? std::nullopt : std::optional(at->second);
  };
  probes.list = [files](std::string folder) {
    if (folder.back() != '/') folder += '/';
    std::set<std::string> names;
    for (const auto& [path, text] : files)
      if (path.starts_with(folder))
        names.insert(path.substr(folder.size(), path.find('/', folder.size()) - folder.size()));
    return std::vector<std::string>(names.begin(), names.end());
  };
  probes.run = [=](const std::string& command) {
    return std::optional(command.find("nvlink") == std::string::npos ? smi : nvlink);
  };
  return probes;
}

// Eight RDMA NICs of 400 Gb/s that have sent and received these numbers of megabytes.
Files nics(const std::vector<double>& megabytes, double symbol_errors = 0) {
  Files files;
  for (std::size_t i = 0; i < megabytes.size(); ++i) {
    const std::string folder = "/sys/class/infiniband/mlx5_" + std::to_string(i) + "/ports/1/";
    files[folder + "state"] = "4: ACTIVE\n";
    files[folder + "rate"] = "400 Gb/sec (4X NDR)\n";
    const std::string words = std::to_string(static_cast<long long>(megabytes[i] * 1e6 / 4)) + "\n";
    files[folder + "counters/port_xmit_data"] = files[folder + "counters/port_rcv_data"] = words;
    files[folder + "counters/symbol_error"] = std::to_string(i == 0 ? symbol_errors : 0);
  }
  files["/proc/stat"] = "cpu 100 0 0 100 0 0 0 0\ncpu0 50 0 0 50\ncpu1 50 0 0 50\n";
  files["/proc/meminfo"] = "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 750 kB\n";
  return files;
}

// Eight ranks of this host, of 16 on two, after calls of an all_reduce whose messages come to `bytes`.
std::vector<recorder::Snapshot> ranks(std::uint64_t calls, double bytes) {
  std::vector<recorder::Snapshot> all;
  for (Rank r = 0; r < 8; ++r)
    all.push_back(
        {.job = "j",
         .group = "world",
         .transport = "nccl",
         .rank = r,
         .ranks = 16,
         .pid = 100 + r,
         .sums = {{"all_reduce", "float", "ring", "Simple", 8, calls, 0, bytes, 0.5 * static_cast<double>(calls)}}});
  return all;
}

TEST(Watch, NamesAnIdleNicAndASlowOneWithTheirShares) {
  // 16 GB of all_reduce in 2 s: 8 GB/s of messages. Two hosts: each must send 2 (2 - 1) / 2 of it, 8 GB/s, so each of
  // eight NICs 1 GB/s. The third sends nothing, the sixth half.
  const auto r = compare(sample(machine(nics(std::vector<double>(8, 0))), ranks(0, 0), 10),
                         sample(machine(nics({2000, 2000, 0, 2000, 2000, 1000, 2000, 2000})), ranks(2, 16e9), 12));
  EXPECT_DOUBLE_EQ(r.leaves, 8e9);
  EXPECT_DOUBLE_EQ(r.sent, 6.5e9);
  ASSERT_EQ(r.findings.size(), 2u);
  EXPECT_EQ(r.findings[0].what, "NIC idle");
  EXPECT_EQ(r.findings[0].part, "mlx5_2");
  EXPECT_EQ(r.findings[0].text,
            "0.0 % of what 8 NICs like it move; 12.5 % are its share: at least 1.00 GB/s by the calls, 0.00 GB/s sent");
  EXPECT_EQ(r.findings[1].what, "NIC slow");
  EXPECT_EQ(r.findings[1].part, "mlx5_5");
  ASSERT_EQ(r.jobs.size(), 1u);
  EXPECT_EQ(r.jobs[0].here, 8);
  EXPECT_DOUBLE_EQ(r.jobs[0].calls, 1);
  EXPECT_DOUBLE_EQ(r.jobs[0].in_calls, 0.5);
}

TEST(Watch, ANetworkThatNobodyUsesIsNoFinding) {
  const auto r = compare(sample(machine(nics(std::vector<double>(8, 0))), {}, 0),
                         sample(machine(nics({0.1, 0, 0, 0, 0, 0, 0, 0})), {}, 1));
  EXPECT_TRUE(r.findings.empty());
  EXPECT_EQ(r.cores, 2);
  EXPECT_DOUBLE_EQ(r.memory_used, 0.25);
}

TEST(Watch, CountersOfErrorsThatRiseAreNamed) {
  const auto r = compare(sample(machine(nics({0, 0}, 5)), {}, 0), sample(machine(nics({500, 500}, 8)), {}, 1));
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].part, "mlx5_0");
  EXPECT_EQ(r.findings[0].text, "symbol_error +3");
}

TEST(Watch, TrafficThatNoNicShowsIsAFinding) {
  const auto r =
      compare(sample(machine(nics({0, 0})), ranks(0, 0), 0), sample(machine(nics({5, 5})), ranks(1, 1e9), 1));
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].what, "Traffic not on these NICs");
}

TEST(Watch, AnInterfaceOfAnRdmaDeviceIsNotCountedTwice) {
  Files files = nics({0});
  for (const std::string name : {"ens1", "eth0"}) {
    files["/sys/class/net/" + name + "/operstate"] = "up\n";
    files["/sys/class/net/" + name + "/speed"] = "100000\n";
    files["/sys/class/net/" + name + "/statistics/tx_bytes"] = "7";
  }
  files["/sys/class/infiniband/mlx5_0/device/net/ens1/mtu"] = "9000";
  const Sample s = sample(machine(files), {}, 0);
  ASSERT_EQ(s.nics.size(), 2u);
  EXPECT_EQ(s.nics[1].name, "eth0");
}

TEST(Watch, ReadsGpusAndTheirNvlinkCountersAndNamesAnIdleOne) {
  Files files = nics({});
  files["/proc/driver/nvidia/version"] = "NVRM version: 550\n";
  const std::string smi = "0, 97, 70000, 81559, 1980, 650.5\n1, 0, 512, 81559, 345, 70.1\n";
  const auto nvlink = [](int kib) {
    const std::string counted = std::to_string(kib) + " KiB\n";
    return "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: Data Tx: " + counted +
           "\t Link 0: Data Rx: " + counted + "\t Link 1: Data Tx: " + counted +
           "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n\t Link 0: Data Tx: 0 KiB\n";
  };
  const auto r =
      compare(sample(machine(files, smi, nvlink(0)), {}, 0), sample(machine(files, smi, nvlink(1000)), {}, 1));
  ASSERT_EQ(r.gpus.size(), 2u);
  EXPECT_DOUBLE_EQ(r.gpus[0].busy, 0.97);
  EXPECT_DOUBLE_EQ(r.gpus[0].nvlink_sent, 2 * 1000 * 1024);
  EXPECT_DOUBLE_EQ(r.gpus[0].nvlink_received, 1000 * 1024);
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].what, "GPU idle");
  EXPECT_EQ(r.findings[0].part, "GPU 1");
}

}  // namespace
}  // namespace weft::doctor
