#include "apps/explore/own_table.h"

#include <algorithm>
#include <cmath>

#include "apps/doctor/tables.h"
#include "apps/explore/bandwidth.h"
#include "base/counted.h"
#include "base/text.h"
#include "model/accuracy/predict.h"

namespace weft::explore {

Result<OwnTable> own_table(const cost::MachineView& machine, const Question& q, std::string_view text) {
  constexpr std::size_t kMostRows = 64;
  const doctor::PerfTable read = doctor::read_table(text);
  if (read.rows.empty())
    return bad_input("there is no row of nccl-tests in it (size count type redop root time algbw busbw …)");
  const std::string_view asked = schedule::name(q.task.collective);
  if (!read.collective.empty() && read.collective != asked)
    return bad_input("the table is of {}, the question of {}", shown(read.collective), asked);
  if (read.ranks > q.task.ranks)
    return bad_input("the table is of {}, the question of {}", counted(read.ranks, "rank"), q.task.ranks);
  const Rank ranks = read.ranks > 0 ? static_cast<Rank>(read.ranks) : q.task.ranks;
  const accuracy::Table table{.name = "the table",
                              .machine = q.machine,
                              .collective = q.task.collective,
                              .gpus_per_thread = std::max(1, read.gpus_per_thread)};
  schedule::Task task = q.task;
  task.ranks = ranks;
  accuracy::Predictor predictor(cost::MachineView(machine.topology(), machine.costs(), machine.caches()));
  OwnTable own;
  double farthest = 0;
  for (const doctor::PerfTable::Row& row : read.rows) {
    if (own.rows.size() == kMostRows || row.bytes <= 0 || row.bytes > kMostMessage || !(row.microseconds > 0)) continue;
    const accuracy::Point point{.bytes = row.bytes, .ranks = ranks, .time = Duration::microseconds(row.microseconds)};
    WEFT_TRY(const auto predicted, predictor.predict(table, point));
    own.rows.push_back(
        {row.bytes, bus_bandwidth(row.bytes, point.time, task), bus_bandwidth(row.bytes, predicted.time, task)});
    const double off = std::log(own.rows.back().busbw_GBps / own.rows.back().predicted_GBps);
    if (std::abs(off) >= std::abs(farthest)) {
      farthest = off;
      own.answer = fmt::format("{} row{} read", read.rows.size(), read.rows.size() == 1 ? " is" : "s are");
      if (own.rows.size() == kMostRows) own.answer += fmt::format(", the first {} are shown", kMostRows);
      own.answer += fmt::format(". Farthest from the prediction is {}: {:.3g} GB/s measured, {:.3g} predicted.",
                                format_bytes(row.bytes), own.rows.back().busbw_GBps, own.rows.back().predicted_GBps);
    }
  }
  if (own.rows.empty()) return bad_input("no row has a size of 1 byte to {} and a time", format_bytes(kMostMessage));
  return own;
}

}  // namespace weft::explore
