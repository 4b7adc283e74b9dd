#include "plan/tune/vendor_rules.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/embedded.h"
#include "machine/catalog/catalog.h"
#include "machine/machine.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"

namespace weft::embedded {
std::span<const File> vendor_rule_files();
}

namespace weft::tune {
namespace {

std::optional<VendorRule> rule_on(const char* machine, Collective collective, Rank ranks, Bytes bytes) {
  const auto view = cost::shipped_view(topology::load_machine(machine).value());
  return vendor_rule(*view,
                     schedule::task_of(collective, ranks, view->ranks_per_node(ranks), bytes, DataType::kFloat32));
}

TEST(VendorRules, RcclTakesLlUpToPartsOf352128Bytes) {
  EXPECT_EQ(rule_on("mi300x", Collective::kReduceScatter, 8, 8 * 352'128)->protocol, "LL");
  EXPECT_EQ(rule_on("mi300x", Collective::kReduceScatter, 8, 8 * 352'192)->protocol, "Simple");
  EXPECT_EQ(rule_on("mi355x", Collective::kReduceScatter, 8, 8 << 20)->protocol, "LL");
}

TEST(VendorRules, RcclGathersDirectlyBelowAThresholdAndFromMultiplesOfEightRanks) {
  EXPECT_EQ(rule_on("mi300x", Collective::kAllGather, 8, 4 << 20)->algorithm, "direct");
  EXPECT_EQ(rule_on("mi300x", Collective::kAllGather, 8, (4 << 20) + 32)->algorithm, "ring");
  EXPECT_EQ(rule_on("mi300x", Collective::kAllGather, 4, 4 << 20)->algorithm, "ring");
}

TEST(VendorRules, OthersAndTheirMachines) {
  EXPECT_EQ(rule_on("aurora", Collective::kAllReduce, 12, 1 << 20)->library, "oneCCL");
  EXPECT_EQ(rule_on("aws-trn1", Collective::kAllReduce, 16, 1 << 20)->library, "Neuron");
  EXPECT_FALSE(rule_on("dgx-h100", Collective::kAllReduce, 8, 1 << 20));  // NCCL's tuner is there whole
}

TEST(VendorRules, EveryRuleNamesPartsAlgorithmsAndSourcesThatExist) {
  const auto table = nlohmann::json::parse(embedded::vendor_rule_files()[0].text);
  const auto catalog = topology::Catalog::shipped().value();
  for (const auto& rule : table.at("rules")) {
    for (const std::string model : rule.at("accelerators")) EXPECT_NE(catalog.find(model), nullptr) << model;
    EXPECT_TRUE(table.at("sources").contains(rule.at("source").get<std::string>()));
    const auto collective = schedule::parse_collective(rule.value("collective", "all_reduce"));
    EXPECT_TRUE(collectives::find_algorithm(*collective, rule.at("algorithm").get<std::string>())) << rule;
  }
}

}  // namespace
}  // namespace weft::tune
