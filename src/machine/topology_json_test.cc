#include "machine/topology_json.h"

#include <gtest/gtest.h>

#include <random>

#include "machine/machine.h"

namespace weft::topology {
namespace {

TEST(TopologyJson, EveryPresetSurvivesTheRoundTrip) {
  for (const PresetInfo& preset : presets()) {
    const auto t = load_machine(preset.name + ":nodes=3");
    ASSERT_TRUE(t) << t.error().message;
    const auto again = from_json("x.json", to_json(*t));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *t) << preset.name;
  }
}

std::string error_of(std::string_view text) {
  const auto result = from_json("x.json", text);
  return result ? "no error" : result.error().message;
}

TEST(TopologyJson, ErrorsNameTheFileAndTheEntry) {
  EXPECT_EQ(error_of("{\n\"schema\":\n}").substr(0, 20), "x.json:3:1: no JSON:");
  EXPECT_EQ(error_of("").substr(0, 20), "x.json:1:1: no JSON:");
  EXPECT_EQ(error_of("[]"), "x.json: schema is not weft.topology/1");
  const auto with = [](std::string_view devices, std::string_view links) {
    return fmt::format(R"({{"schema":"weft.topology/1","devices":[{}],"links":[{}]}})", devices, links);
  };
  EXPECT_EQ(error_of(with("7", "")), "x.json: device 0: kind is unknown");
  EXPECT_EQ(error_of(with(R"({"kind":"gpu","node":5})", "")), "x.json: device 0: node is not a whole number in -1 … 0");
  EXPECT_EQ(error_of(with(R"({"kind":"gpu"})", "")),
            "x.json: device 0: node is -1 for network switches and for nothing else");
  EXPECT_EQ(error_of(with(R"({"kind":"gpu","node":0})", R"({"kind":"PCIe","a":0,"b":1})")),
            "x.json: link 0: b is not a whole number in 0 … 0");
  EXPECT_EQ(error_of(with(R"({"kind":"gpu","node":0})", R"({"kind":"PCIe","a":0,"b":0})")),
            "x.json: link 0: b is the device the link starts at");
  EXPECT_EQ(error_of(with(R"({"kind":"gpu","node":0},{"kind":"gpu","node":0})", "")),
            "x.json: device 1: gpu0 of node 0 is there twice");
  EXPECT_EQ(error_of(with("", "")), "x.json: '' has neither a GPU nor a CPU core that a rank could sit on");
}

TEST(TopologyJson, DamagedTextNeverCrashes) {
  const std::string whole = to_json(*load_machine("pcie-2x4090"));
  std::mt19937 random(11);  // a fixed seed: a failure can be repeated
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (int edit = 0; edit < 1 + round % 4; ++edit)
      text[random() % text.size()] = static_cast<char>(32 + random() % 96);
    (void)from_json("x.json", text);
  }
}

}  // namespace
}  // namespace weft::topology
