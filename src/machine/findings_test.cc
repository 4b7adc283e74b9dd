#include "machine/findings.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>

#include "machine/machine.h"

namespace weft::topology {
namespace {

// A file of this content for one test.
class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::path(testing::TempDir()) / fmt::format("findings-{}.txt", getpid())) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  std::string name() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

constexpr const char* kOneWithFewer =
    "\tGPU0\tGPU1\tGPU2\tGPU3\n"
    "GPU0\t X \tNV18\tNV9\tNV18\n"
    "GPU1\tNV18\t X \tNV9\tNV18\n"
    "GPU2\tNV9\tNV9\t X \tNV9\n"
    "GPU3\tNV18\tNV18\tNV9\t X \n";

TEST(Findings, NameTheGpuThatHasFewerLinksThanTheOthers) {
  const File file(kOneWithFewer);
  const auto machine = load_machine(file.name() + ":gpu=H100-SXM5");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(findings(*machine), (std::vector<std::string>{"gpu2 has 9 NVLinks, the others have 18"}));
}

TEST(Findings, SayThatAFileDoesNotNameItsGpus) {
  const File file(kOneWithFewer);
  const auto machine = load_machine(file.name());
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ(findings(*machine).size(), 2U);
  EXPECT_TRUE(findings(*machine)[0].starts_with("4 of 4 GPUs have no model")) << findings(*machine)[0];
}

TEST(Findings, SayThatGpusWithNvlinkHaveNone) {
  const File file(
      "\tGPU0\tGPU1\n"
      "GPU0\t X \tSYS\n"
      "GPU1\tSYS\t X \n");
  const auto machine = load_machine(file.name() + ":gpu=A100-SXM4-80GB");
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ(findings(*machine).size(), 1U);
  EXPECT_TRUE(findings(*machine)[0].starts_with("no NVLink is listed, though A100-SXM4-80GB GPUs have it"));
  const auto pcie = load_machine(file.name() + ":gpu=A100-PCIE-80GB");
  EXPECT_TRUE(findings(*pcie).empty());
}

TEST(Findings, OfPresetsThereAreNone) {
  for (const PresetInfo& preset : presets()) {
    const auto machine = load_machine(preset.name);
    EXPECT_TRUE(findings(*machine).empty()) << preset.name << ": " << findings(*machine)[0];
  }
}

TEST(Findings, SayWhereTheNetworkIsOversubscribed) {
  // 8 rails of 64 nodes, 51 ports of each leaf's 64 down and 13 up: 51 / 13 = 3.92.
  const auto rails = load_machine("dgx-h100:nodes=64,net=ib-ndr,oversub=4,tiers=2");
  ASSERT_TRUE(rails) << rails.error().message;
  ASSERT_EQ(findings(*rails).size(), 1U);
  EXPECT_TRUE(findings(*rails)[0].starts_with("the fabric is oversubscribed ")) << findings(*rails)[0];
  for (const char* full : {"dgx-h100:nodes=64,net=ib-ndr,tiers=2", "dgx-h100:nodes=64,net=ib-ndr,wires=fat-tree",
                           "dgx-h100:nodes=16,net=ib-ndr,wires=dragonfly", "dgx-h100:nodes=16,net=ib-ndr,wires=torus",
                           "dgx-h100:nodes=128,net=ib-ndr,tiers=3", "dgx-h100:nodes=4,net=ib-ndr"})
    EXPECT_TRUE(findings(*load_machine(full)).empty()) << full << ": " << findings(*load_machine(full))[0];
}

TEST(Findings, AModelMustBeKnownAndMayNotContradictTheFile) {
  const File file(kOneWithFewer);
  EXPECT_TRUE(load_machine(file.name() + ":gpu=H101").error().message.starts_with("gpu=H101: there are "));
  EXPECT_EQ(load_machine("dgx-h100:gpu=H100-SXM5").error().message,
            "gpu=H100-SXM5: only a file takes it; a preset knows its GPUs");
  EXPECT_TRUE(load_machine(file.name() + ":node=dgx-h100").error().message.starts_with("node=dgx-h100: only a file"));
}

TEST(Findings, NodesOfTwoVendorsHaveNoLibraryInCommonAndLackNoNvlink) {
  for (const char* machine : {"dgx-h100:nodes=2,and=mi300x*2", "dgx-h100:and=mi300x*3", "mi300x:and=dgx-h100*2"}) {
    const auto found = findings(*load_machine(machine));
    ASSERT_EQ(found.size(), 1U) << machine;
    EXPECT_TRUE(found[0].starts_with("GPUs of AMD and NVIDIA: ")) << found[0];
  }
  EXPECT_TRUE(findings(*load_machine("dgx-h100:nodes=2,and=dgx-a100*2")).empty());
}

}  // namespace
}  // namespace weft::topology
