#include "machine/catalog/catalog.h"

#include <gtest/gtest.h>

namespace weft::topology {
namespace {

Result<Catalog> load(std::string_view text) {
  const embedded::File files[] = {{"data/catalog/x.json", text}};
  return Catalog::load(files);
}

// A catalogue of one part with this figure, and one source with a date and one without.
std::string with_figure(std::string_view figure) {
  return fmt::format(R"({{"schema": "weft.catalog/1",
    "sources": {{"doc": {{"title": "a data sheet", "date": "2024-01"}}, "undated": {{"title": "a rumour"}}}},
    "parts": [{{"name": "wire", "kind": "nvlink", "title": "a wire", "rate": {}}}]}})",
                     figure);
}

std::string error_of(std::string_view text) {
  const auto catalog = load(text);
  return catalog ? "no error" : catalog.error().message;
}

TEST(Catalog, AFigureNeedsUnitSourceAndDate) {
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/s", "direction": "each", "source": "doc"})")),
            "no error");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/s", "source": "doc"})")),
            "data/catalog/x.json: wire.rate: a rate, and nothing else, has the direction each, both or total");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "source": "doc"})")),
            "data/catalog/x.json: wire.rate: unit '' is missing or unknown");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/h", "source": "doc"})")),
            "data/catalog/x.json: wire.rate: unit 'GB/h' is missing or unknown");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/s", "direction": "each"})")),
            "data/catalog/x.json: wire.rate: source '' is missing or not among the file's sources");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/s", "direction": "each", "source": "undated"})")),
            "data/catalog/x.json: wire.rate: source 'undated' has no date");
  EXPECT_EQ(error_of(with_figure(R"({"unit": "GB/s", "source": "doc"})")),
            "data/catalog/x.json: wire.rate: no \"value\"");
  EXPECT_EQ(error_of(with_figure("25")),
            "data/catalog/x.json: wire.rate: a number stands in {\"value\", \"unit\", \"source\"}");
}

TEST(Catalog, FilesThatAreNoCatalogueAreRefused) {
  EXPECT_EQ(error_of("{"), "data/catalog/x.json: not a JSON object");
  EXPECT_EQ(error_of("{}"), "data/catalog/x.json: schema is not weft.catalog/1");
}

TEST(Catalog, EveryBuiltInFigureIsSourced) {
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  int figures = 0;
  for (const Part& part : catalog->parts())
    for (const auto& [key, figure] : part.figures) {
      EXPECT_FALSE(figure.unit.empty() || figure.source.empty() || figure.date.empty()) << part.name << "." << key;
      if (part.kind != "host-setting") {
        EXPECT_GT(figure.value, 0) << part.name << "." << key;
      }
      ++figures;
    }
  EXPECT_GT(figures, 100);
}

TEST(Catalog, LinkRatesAreTheVendorsRawRatesPerDirection) {
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  const auto gb = [&](std::string_view part, std::int32_t count) { return catalog->link(part, count)->rate_ab.gb(); };
  EXPECT_DOUBLE_EQ(gb("nvlink1", 4), 80);       // P100: 160 GB/s both ways
  EXPECT_DOUBLE_EQ(gb("nvlink2", 6), 150);      // V100: 300
  EXPECT_DOUBLE_EQ(gb("nvlink3", 12), 300);     // A100: 600
  EXPECT_DOUBLE_EQ(gb("nvlink4", 18), 450);     // H100: 900
  EXPECT_DOUBLE_EQ(gb("nvlink5", 18), 900);     // B200: 1800
  EXPECT_DOUBLE_EQ(gb("xgmi-gfx942", 7), 448);  // MI300X: 896
  EXPECT_DOUBLE_EQ(gb("pcie2", 16), 8);         // 5 GT/s · 16 · 8/10 / 8
  EXPECT_NEAR(gb("pcie5", 16), 63.015, 1e-3);   // 32 GT/s · 16 · 128/130 / 8
  EXPECT_DOUBLE_EQ(gb("ib-ndr", 1), 50);        // 400 Gb/s
  EXPECT_FALSE(catalog->link("nvlink99", 1));
  EXPECT_FALSE(catalog->link("H100-SXM5", 1));
}

// Every kind of part says what a user of that kind asks for.
TEST(Catalog, EveryPartIsComplete) {
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  std::map<std::string, int> kinds;
  for (const Part& part : catalog->parts()) {
    ++kinds[part.kind];
    const auto has = [&](std::initializer_list<const char*> figures, std::initializer_list<const char*> facts) {
      for (const char* key : figures) EXPECT_TRUE(part.figure(key)) << part.name << " lacks " << key;
      for (const char* key : facts) EXPECT_TRUE(part.facts.contains(key)) << part.name << " lacks " << key;
    };
    const bool scale_up = part.kind == "nvlink" || part.kind == "xgmi" || part.kind == "chip-link";
    if (scale_up) has({"rate", "links", "aggregate", "latency"}, {"year"});
    if (part.kind == "pcie") has({"transfers", "aggregate", "latency", "host_latency"}, {"year"});
    if (part.kind == "network") has({"rate", "ports", "latency", "fabric_latency"}, {"year", "nic", "switch"});
    if (part.kind == "switch") has({"ports", "rate", "capacity", "latency"}, {"year", "multicast", "reduce"});
    if (part.kind == "accelerator") has({"memory", "memory_rate"}, {"link"});
    if (part.kind == "nic") has({"rate", "lanes"}, {"year", "pcie"});
    if (part.kind == "memory") has({"rate", "latency"}, {});
    for (const char* key : {"nic", "switch", "link", "pcie", "memory", "socket_link"})
      if (const auto at = part.facts.find(key); at != part.facts.end()) {
        EXPECT_TRUE(catalog->find(at->second)) << part.name << "." << key << " = " << at->second;
      }
    // Both directions of all links are what the vendor prints as the aggregate.
    if (scale_up) {
      EXPECT_NEAR(part.figure("aggregate")->value, 2 * part.figure("links")->value * rate_of(*part.figure("rate")).gb(),
                  1e-6)
          << part.name;
    }
  }
  for (const char* kind : {"nvlink", "xgmi", "chip-link", "pcie", "inter-socket", "memory", "network", "switch",
                           "accelerator", "nic", "cpu", "host-setting"})
    EXPECT_GT(kinds[kind], 0) << kind;
}

// Data sheets and what stands for them where a vendor publishes none: see the source of each figure.
TEST(Catalog, BoardPowersOfRecentCardsHaveASource) {
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  for (const auto& [name, watts] : {std::pair("MI350X", 1000),
                                    {"MI355X", 1400},
                                    {"RTX-PRO-6000", 600},
                                    {"Arc-Pro-B60", 200},
                                    {"MI300X", 750},
                                    {"L40S", 350}}) {
    const Part* part = catalog->find(name);
    ASSERT_NE(part, nullptr) << name;
    ASSERT_NE(part->figure("board_power"), nullptr) << name;
    EXPECT_DOUBLE_EQ(part->figure("board_power")->value, watts) << name;
  }
}

TEST(Catalog, FactsFindParts) {
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  EXPECT_EQ(catalog->find("nvlink", "sm", "90")->name, "nvlink4");
  EXPECT_EQ(catalog->find("accelerator", "pci", "10de:2330")->name, "H100-SXM5");
  EXPECT_EQ(catalog->find("nvlink", "sm", "9"), nullptr);
}

}  // namespace
}  // namespace weft::topology
