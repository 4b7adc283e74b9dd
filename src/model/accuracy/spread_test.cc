#include "model/accuracy/spread.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::accuracy {
namespace {

MachineClass class_on(const std::string& machine) {
  const auto view = cost::shipped_view(topology::load_machine(machine).value());
  return class_of(*view, view->endpoints());
}

Ratios ratios_of(std::string_view tables) {
  return Ratios::parse("test", R"({"schema": "weft.ratios/1", "tables": [)" + std::string(tables) + "]}").value();
}

constexpr const char* kThree = R"(
  {"name": "a", "gpus": "NVIDIA Hopper", "several_nodes": true, "from_16MiB": [0.9, 1.0, 1.1, 1.2]},
  {"name": "b", "gpus": "NVIDIA Hopper", "several_nodes": true, "from_16MiB": [1.5]},
  {"name": "c", "gpus": "NVIDIA Hopper", "several_nodes": true, "from_16MiB": [2.0]},
  {"name": "d", "gpus": "NVIDIA Ampere", "several_nodes": true, "from_16MiB": [3.0]},
  {"name": "e", "gpus": "AMD gfx942", "several_nodes": true, "from_16MiB": [4.0]})";

TEST(Ratios, AMachineIsOfItsGpusGenerationAndOfOneNodeOrSeveral) {
  EXPECT_EQ(class_on("dgx-h100:nodes=2"), (MachineClass{"NVIDIA Hopper", true}));
  EXPECT_EQ(class_on("dgx-h100:and=dgx-a100"), (MachineClass{"several models", true}));
  EXPECT_EQ(class_on("dgx-a100"), (MachineClass{"NVIDIA Ampere", false}));
  EXPECT_EQ(class_on("gb200-nvl72"), (MachineClass{"NVIDIA Blackwell", false}));
  EXPECT_EQ(class_on("mi300x"), (MachineClass{"AMD gfx942", false}));
}

// Each table weighs as much as another: the four points of one are a third of the whole.
TEST(Ratios, TablesCountAlike) {
  const auto spread = ratios_of(kThree).spread({{"NVIDIA Hopper", true}}, 64 << 20);
  ASSERT_TRUE(spread.has_value());
  EXPECT_EQ(spread->tables, 3);
  EXPECT_EQ(spread->points, 6);
  EXPECT_EQ(spread->low, 0.9);  // six rows: a seventh lies below the smallest with probability 1/7
  EXPECT_EQ(spread->high, 2.0);
  EXPECT_EQ(spread->of, "all_reduce on NVIDIA Hopper over several nodes, from 16 MiB");
}

TEST(Ratios, WhereNothingLikeItWasMeasuredThereIsNoRange) {
  const Ratios ratios = ratios_of(kThree);
  EXPECT_FALSE(ratios.spread({{"NVIDIA Ampere", true}}, 64 << 20).has_value()) << "one table";
  EXPECT_FALSE(ratios.spread({{"NVIDIA Hopper", false}}, 64 << 20).has_value()) << "of several nodes only";
  EXPECT_FALSE(ratios.spread({{"NVIDIA Hopper", true}}, 8).has_value()) << "no table has such sizes";
  EXPECT_FALSE(ratios.spread({{"", true}}, 64 << 20).has_value()) << "these GPUs are not known";
  EXPECT_FALSE(ratios.spread({{"NVIDIA Hopper", true}, "", Collective::kAllToAll}, 64 << 20).has_value());
}

// Five rows of the same card, collective and number of GPUs go before many of others.
TEST(Ratios, RowsOfTheSameCardAndNumberOfGpusGoFirst) {
  const std::string own = R"(,{"name": "own", "gpus": "NVIDIA Hopper", "several_nodes": true, "card": "H100-SXM5",
      "collective": "all_reduce", "ranks": 16, "from_16MiB": [1.00, 1.01, 1.02, 1.03, 1.04]})";
  const Ratios ratios = ratios_of(std::string(kThree) + own);
  const auto here = ratios.spread({{"NVIDIA Hopper", true}, "H100-SXM5", Collective::kAllReduce, 16}, 64 << 20);
  ASSERT_TRUE(here.has_value());
  EXPECT_EQ(here->high, 1.04);
  EXPECT_EQ(here->of, "all_reduce on 16 H100-SXM5 over several nodes, from 16 MiB");
  const auto other = ratios.spread({{"NVIDIA Hopper", true}, "H100-SXM5", Collective::kAllReduce, 32}, 64 << 20);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->tables, 4);
}

TEST(Ratios, ATableIsJudgedByTheOthersOnly) {
  const auto without = ratios_of(kThree).spread({{"NVIDIA Hopper", true}}, 64 << 20, "c");
  EXPECT_FALSE(without.has_value()) << "two tables of Hopper are left";
}

// The shipped ratios: four of five points shall lie inside, of tables that were left out some fewer do.
TEST(Ratios, ShippedSpreadsHoldForTablesThatWereLeftOut) {
  const auto shipped = Ratios::shipped();
  ASSERT_TRUE(shipped.has_value());
  const auto [inside, points] = shipped->left_out();
  EXPECT_GT(points, 2000);
  EXPECT_GT(inside, 0.7 * points);
  const auto again = Ratios::parse("test", shipped->to_json().dump());
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->near(*shipped));
  EXPECT_FALSE(again->near(ratios_of(kThree)));
}

TEST(Ratios, AFileOfAnotherKindIsRefused) {
  EXPECT_EQ(Ratios::parse("x.json", R"({"schema": "weft.bench/3"})").error().message,
            "x.json: schema is not weft.ratios/1");
  EXPECT_NE(Ratios::parse("x.json", "[").error().message.find("x.json: "), std::string::npos);
}

}  // namespace
}  // namespace weft::accuracy
