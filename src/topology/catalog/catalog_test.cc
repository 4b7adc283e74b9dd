#include "topology/catalog/catalog.h"

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
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/s", "source": "doc"})")), "no error");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "source": "doc"})")),
            "data/catalog/x.json: wire.rate: unit '' is missing or unknown");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/h", "source": "doc"})")),
            "data/catalog/x.json: wire.rate: unit 'GB/h' is missing or unknown");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/s"})")),
            "data/catalog/x.json: wire.rate: source '' is missing or not among the file's sources");
  EXPECT_EQ(error_of(with_figure(R"({"value": 25, "unit": "GB/s", "source": "undated"})")),
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
      EXPECT_GT(figure.value, 0) << part.name << "." << key;
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

TEST(Catalog, FactsFindParts) {
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  EXPECT_EQ(catalog->find("nvlink", "sm", "90")->name, "nvlink4");
  EXPECT_EQ(catalog->find("accelerator", "pci", "10de:2330")->name, "H100-SXM5");
  EXPECT_EQ(catalog->find("nvlink", "sm", "9"), nullptr);
}

}  // namespace
}  // namespace weft::topology
