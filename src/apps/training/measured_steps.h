#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/training/memory.h"
#include "apps/training/plan.h"
#include "apps/training/traffic.h"
#include "plan/cost/machine_view.h"

namespace weft::training {

// A table of measured steps, CSV with the columns of docs/training.md. Errors (bad input) name file, line and column.
struct StepLine {
  int number = 0;  // in the file
  std::vector<std::string> cells;
};

class StepTable {
 public:
  // Errors: a column that is needed is missing; a line has more or fewer cells than there are columns.
  static Result<StepTable> parse(std::string_view file, std::string_view text);

  const std::vector<StepLine>& lines() const { return lines_; }
  const std::string& file() const { return file_; }
  std::string text(const StepLine& line, std::string_view column) const;  // empty: there is no such column
  // Empty cells are `otherwise`. Errors: not a number above zero; not a count.
  Result<double> number(const StepLine& line, std::string_view column, double otherwise) const;
  Result<std::int64_t> count(const StepLine& line, std::string_view column, std::int64_t otherwise) const;

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<StepLine> lines_;
};

// Errors: sizes are missing, or cannot be right where they stand.
Result<Model> model_of(const StepTable& table, const StepLine& line);
// What the row's mem_gib counts: its column mem_of, or what its framework publishes.
Result<MemoryOf> memory_of(const StepTable& table, const StepLine& line, const Plan& plan);
Result<Plan> plan_of(const StepTable& table, const StepLine& line, std::int64_t gpus);

// Machines by preset and nodes; what their collectives take is kept for all lines.
class StepMachines {
 public:
  struct Machine {
    std::unique_ptr<cost::MachineView> view;
    std::unique_ptr<Traffic> traffic;
  };
  struct Answer {
    Machine* machine;
    std::string card;
  };
  // `gpu`: as tables call it, e.g. "H100"; data/training/gpus.json has its preset and card. `network`: in words, e.g.
  // "8xHDR200 IB/node"; empty or without a rate: the preset's.
  Result<Answer> find(const std::string& gpu, std::int64_t gpus, const std::string& network = "");

 private:
  // `kind`: of machines that differ only in how many nodes, and GPUs of them, they have.
  Result<Machine*> load(const std::string& name, const std::string& kind);
  std::map<std::string, Machine> machines_;
  std::map<std::string, std::shared_ptr<KnownParts>> parts_;  // by kind
};

}  // namespace weft::training
