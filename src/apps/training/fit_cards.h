#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/training/card.h"
#include "apps/training/measured_steps.h"

namespace weft::training {

// One measured step of a user's own, with the card it ran on.
struct OwnStep {
  std::string where;  // "runs.csv:3"
  Model model;
  Plan plan;
  std::string card;       // of the catalogue
  double measured = 0;    // s
  Traffic* traffic = {};  // lives as long as the StepMachines that gave it
};

// Reads the lines of a CSV (columns as for --compare) that have a step time. Errors (bad input): those of StepTable,
// model_of and plan_of; a GPU that no table knows.
Result<std::vector<OwnStep>> own_steps(std::string_view file, std::string_view text, StepMachines& machines);

// Reads a log of Megatron-LM: its list of arguments, and "elapsed time per iteration", of which the median after the
// first ten counts. `gpu`: as in a CSV, e.g. "H100". Errors (bad input): there are no arguments, or too few iterations.
Result<OwnStep> step_of_log(std::string_view file, std::string_view text, const std::string& gpu,
                            StepMachines& machines);
bool is_training_log(std::string_view text);

// Shares of a card's peaks that explain measured steps best.
struct CardFit {
  std::string card, precision;
  std::string chip;  // as in data/training/cards.json
  std::size_t steps = 0;
  int software = 0;                  // of the steps' framework, the latest
  double gemm = 0;                   // fitted: always; …
  double forward = 0, backward = 0;  // … attention, by one factor: with at least kStepsForAttention steps
  double before = 0, after = 0;      // mean |ln(predicted / measured)|
  bool at_bound = false;             // a share could not go further: something else is wrong with the steps
};
inline constexpr std::size_t kStepsForAttention = 4;

// Of every card and precision among the steps. Communication and memory-bound operations stay as they are. Errors (bad
// input): there is no step; those of simulate_step.
Result<std::vector<CardFit>> fit_cards(const std::vector<OwnStep>& steps);

// weft.cards/1, which `weft train --cards` reads: fitted entries with where they come from.
nlohmann::json to_cards(const std::vector<CardFit>& fits, const std::string& from, const std::string& date);

}  // namespace weft::training
