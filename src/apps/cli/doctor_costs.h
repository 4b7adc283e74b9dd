#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "apps/cli/common.h"
#include "apps/doctor/rules.h"
#include "apps/training/answer.h"
#include "base/report/doctor.h"

namespace weft::cli {

// The costs of findings for the job at hand: a collective or a training step on a machine with the fault beside the
// healthy one, which is simulated once. Money where the price of a GPU-hour is given.
class DoctorCosts {
 public:
  DoctorCosts(Machine machine, Bytes bytes, double price)
      : machine_(std::move(machine)), bytes_(bytes), price_(price) {}
  // Costs are from now on those of a training step instead of an all_reduce. Errors (bad input): see parse_words and
  // load_model.
  Status train(const std::string& workload);

  // One sentence; empty: the finding has no fault that can be replayed, and no price is given.
  std::string of(const doctor::Rule& rule, const report::DoctorFinding& finding);

 private:
  Result<Duration> time_on(const cost::MachineView& view);
  Result<Duration> broken(const std::string& fault);

  Machine machine_;
  Bytes bytes_;
  double price_;
  std::optional<training::Model> model_;
  training::Words words_;
  std::optional<Duration> healthy_;
  std::map<std::pair<std::string, bool>, std::string> known_;  // by fault, and whether the job stands by it
};

}  // namespace weft::cli
