#pragma once

#include <array>
#include <functional>

#include "model/accuracy/measured.h"
#include "model/accuracy/predict.h"

namespace weft::accuracy {

// Messages are scored by size class: different costs decide their time.
inline constexpr int kBands = 3;
inline constexpr Bytes kMedium = Bytes{64} << 10, kLarge = Bytes{16} << 20;
int band(Bytes bytes);  // 0: below 64 KiB, 1: below 16 MiB, 2: from 16 MiB

// The median of |predicted / measured - 1| by band, and of how many points.
struct Score {
  std::array<int, kBands> points{};
  std::array<double, kBands> error{};
};

// Machines whose predictions err alike: of one generation of GPUs ("NVIDIA Hopper"), within a node or over several.
struct MachineClass {
  std::string gpus;  // empty: not known
  bool several_nodes = false;

  bool operator==(const MachineClass&) const = default;
};

// What is measured alike: one collective on a number of GPUs of one card.
struct Case {
  MachineClass machine;
  std::string card;  // "H100-SXM5"
  Collective collective = Collective::kAllReduce;
  Rank ranks = 0;

  bool operator==(const Case&) const = default;
};

struct Scored {
  Table table;
  Case measured;
  std::vector<Prediction> predictions;  // one per point; empty if the machine or the table cannot be modelled
  std::string problem;                  // why
  Score score;
};

// The goals of the project for tables not used for fitting, by band.
inline constexpr std::array<double, kBands> kGoals = {0.20, 0.13, 0.06};

double error_of(const Prediction& prediction, const Point& point);

// `predictor_of(machine)`: for a table's machine; asked once per run of tables with the same machine.
using PredictorOf = std::function<Result<Predictor>(const std::string& machine)>;
// `progress`: called before every table, and after the last one, with what is done and how many tables there are.
using Progress = std::function<void(const std::vector<Scored>& done, std::size_t tables)>;
std::vector<Scored> score_all(std::vector<Table> tables, const PredictorOf& predictor_of,
                              const Progress& progress = {});

// Over all points of the tables with this use.
Score total(const std::vector<Scored>& all, Use use);

}  // namespace weft::accuracy
