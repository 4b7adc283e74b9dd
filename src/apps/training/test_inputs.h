#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apps/training/step.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

// Models, machines and cards of tests, by their names in the catalogue.
namespace weft::training {

inline Model model(const std::string& name) {
  auto m = load_model(name);
  EXPECT_TRUE(m.has_value()) << (m ? "" : m.error().message);
  return m ? *m : Model{};
}

inline std::unique_ptr<cost::MachineView> machine(const std::string& name) {
  auto topology = topology::load_machine(name);
  EXPECT_TRUE(topology.has_value());
  auto view = cost::shipped_view(std::move(*topology));
  EXPECT_TRUE(view.has_value());
  return std::make_unique<cost::MachineView>(std::move(*view));
}

inline Card card(const char* part, const char* precision = "bf16") {
  auto c = load_card(part, precision);
  EXPECT_TRUE(c.has_value());
  return c ? *c : Card{};
}

}  // namespace weft::training
