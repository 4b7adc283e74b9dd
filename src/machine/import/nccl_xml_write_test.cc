#include "machine/import/nccl_xml_write.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/embedded.h"
#include "machine/import/nccl_xml.h"
#include "machine/machine.h"
#include "machine/routes.h"

namespace weft::topology {
namespace {

// GPUs by number, then NICs by number.
std::vector<DeviceId> ends_of(const Topology& t) {
  std::vector<DeviceId> ends = t.endpoints(), nics;
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id)
    if (t.device(id).kind == DeviceKind::kNic) nics.push_back(id);
  std::ranges::sort(nics, {}, [&](DeviceId id) { return t.device(id).index; });
  ends.insert(ends.end(), nics.begin(), nics.end());
  return ends;
}

// Writing and reading again changes no path's class, rate or length.
void expect_same_paths(const Catalog& catalog, const Topology& before) {
  const auto text = to_nccl_xml(catalog, before);
  ASSERT_TRUE(text) << text.error().message;
  const auto after = parse_nccl_xml(catalog, before.title, *text);
  ASSERT_TRUE(after) << after.error().message << "\n" << *text;
  const std::vector<DeviceId> a = ends_of(before), b = ends_of(*after);
  ASSERT_EQ(a.size(), b.size()) << before.title;
  const Routes first(before), second(*after);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) {
      const Path p = first.path(a[i], a[j]), q = second.path(b[i], b[j]);
      EXPECT_EQ(p.type, q.type) << before.title << " " << i << " " << j;
      EXPECT_EQ(p.hops.size(), q.hops.size()) << before.title << " " << i << " " << j;
      if (i != j) {
        EXPECT_NEAR(p.rate.gb(), q.rate.gb(), 1e-6) << before.title << " " << i << " " << j;
      }
    }
  }
}

TEST(NcclXmlWrite, PresetsKeepTheirPaths) {
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  // Their CPUs are not joined, or they have two NVSwitches, or no CPU; the reader would join every pair of CPUs.
  const std::set<std::string> lossy = {"gb200-nvl72",   "gb300-nvl72", "vr200-nvl144",
                                       "gb200-nvl36x2", "hypercube-8", "frontier"};
  int kept = 0;
  for (const PresetInfo& preset : presets()) {
    const Topology t = *load_machine(preset.name);
    const bool chips = std::ranges::any_of(t.links(), [](const Link& l) { return l.kind == LinkKind::kChipLink; });
    if (chips)
      EXPECT_NE(to_nccl_xml(*catalog, t).error().message.find("has chip links"), std::string::npos);
    else if (!lossy.contains(preset.name))
      expect_same_paths(*catalog, t), ++kept;
  }
  EXPECT_GE(kept, 15);
}

TEST(NcclXmlWrite, DumpsOfRealMachinesKeepTheirPaths) {
  const std::filesystem::path folder = WEFT_TOPO_DUMPS;
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no dumps at " << folder;
  const auto catalog = Catalog::load(embedded::files());
  ASSERT_TRUE(catalog) << catalog.error().message;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".xml")
      if (auto t = import_nccl_xml(*catalog, entry.path())) {
        expect_same_paths(*catalog, *t);
        // Nothing is lost: devices, links, and what else the file said of them.
        const auto text = to_nccl_xml(*catalog, *t);
        const auto again = parse_nccl_xml(*catalog, t->title, *text);
        ASSERT_TRUE(again) << again.error().message;
        EXPECT_TRUE(*again == *t) << entry.path();
      }
}

TEST(NcclXmlWrite, AMachineWithoutGpusIsRefused) {
  const auto catalog = Catalog::load(embedded::files());
  Topology t;
  t.title = "box";
  t.add({.kind = DeviceKind::kCore, .node = 0, .index = 0, .model = {}, .bus_id = {}, .port_rate = {}});
  EXPECT_EQ(to_nccl_xml(*catalog, t).error().message,
            "node 0 of 'box' has no GPU; NCCL describes only nodes that have");
}

}  // namespace
}  // namespace weft::topology
