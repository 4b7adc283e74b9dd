#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "machine/machine.h"
#include "machine/render/heat_map.h"
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

// A rack of 72 GPUs fills the table of 32 devices alone; the network between two racks is to be seen.
TEST(HeatMap, OfTwoRacksShowsTheNetworkBetweenThem) {
  const std::string svg = heat_map_svg(machine("gb200-nvl72:nodes=2"));
  for (const char* text : {">node0/gpu7<", ">node0/nic7<", ">node1/gpu0<", ">node1/nic7<", ">NET<", ">logarithmic<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find(">node0/gpu8<"), std::string::npos);
}

TEST(HeatMap, OfOneRateHasOneShadeInItsLegend) {
  const std::string svg = heat_map_svg(machine("pcie-2x4090"));
  std::size_t rates = 0;
  for (std::size_t at = svg.find(">31.5<"); at != svg.npos; at = svg.find(">31.5<", at + 1)) ++rates;
  EXPECT_EQ(rates, 3U);  // there, back, and the legend
}

}  // namespace
}  // namespace weft::topology
