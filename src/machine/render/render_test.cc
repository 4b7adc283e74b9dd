#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "machine/machine.h"
#include "machine/render/matrix.h"
#include "machine/render/svg.h"

namespace weft::topology {
namespace {

Topology machine(std::string_view text) {
  auto t = load_machine(text);
  EXPECT_TRUE(t) << t.error().message;
  return std::move(t).value_or(Topology{});
}

TEST(Matrix, TwoGpusAtOneCpuReadLikeNvidiaSmi) {
  EXPECT_EQ(matrix_text(machine("pcie-2x4090")),
            "      GPU0  GPU1  CPU\n"
            "GPU0  X     PHB   0\n"
            "GPU1  PHB   X     0\n"
            "\n"
            "Legend:\n"
            "  X    the device itself\n"
            "  PHB  the host bridge or memory of one CPU\n");
}

TEST(Matrix, AV100CubeMeshIsTheOnePublished) {
  const std::string text = matrix_text(machine("dgx1-v100"));
  // GPU 0's row of a DGX-1's `nvidia-smi topo -m`, where the three GPUs without a direct link say SYS.
  EXPECT_NE(text.find("GPU0  X     NV1   NV1   NV2   NV2   NVB   NVB   NVB   PIX   PHB   SYS   SYS   0\n"),
            std::string::npos)
      << text;
}

TEST(Matrix, ALargeClusterShowsItsFirstNodeAndSaysWhatIsMissing) {
  const std::string text = matrix_text(machine("dgx-h100:nodes=4"));
  EXPECT_NE(text.find("node0/GPU7"), std::string::npos);
  EXPECT_EQ(text.find("node1/"), std::string::npos);
  EXPECT_NE(text.find("Left out: 48 more GPUs, NICs or cores of 4 nodes."), std::string::npos) << text;  // 3 · (8 + 8)
}

TEST(Matrix, SmallNodesOfAClusterStandSideBySide) {
  const std::string text = matrix_text(machine("pcie-2x4090:nodes=2"));
  EXPECT_NE(text.find("NET"), std::string::npos);
  EXPECT_NE(text.find("node1/NIC0"), std::string::npos);
}

TEST(Svg, IsWellFormedAndShowsEveryGpuOfTheFirstNode) {
  for (const PresetInfo& preset : presets()) {
    for (const std::string& options : {std::string(), std::string(":nodes=40")}) {
      const std::string text = svg(machine(preset.name + options));
      pugi::xml_document document;
      EXPECT_TRUE(document.load_string(text.c_str())) << preset.name;
      EXPECT_NE(text.find(">gpu0<"), std::string::npos);
      EXPECT_NE(text.find(">gpu1<"), std::string::npos);
    }
  }
}

TEST(Svg, TitlesAreEscaped) {
  Topology t = machine("pcie-2x4090");
  t.title = "<a> & \"b\"";
  EXPECT_NE(svg(t).find("&lt;a&gt; &amp; &quot;b&quot;"), std::string::npos);
}

}  // namespace
}  // namespace weft::topology
