#include "base/report/reshard.h"

namespace weft::report {

nlohmann::json to_json(const ReshardReport& r) {
  nlohmann::json value = {{"schema", "weft.reshard/1"},
                          {"from", r.from},
                          {"to", r.to},
                          {"from_ranks", r.from_ranks},
                          {"to_ranks", r.to_ranks},
                          {"tensors", r.tensors},
                          {"patterns", r.patterns},
                          {"unwanted_tensors", r.unwanted},
                          {"converted_tensors", r.converted},
                          {"same_ranks", r.same_ranks},
                          {"bytes", r.bytes},
                          {"stays_bytes", r.stays},
                          {"pieces", r.pieces},
                          {"pairs", r.pairs},
                          {"sent_bytes", r.sent},
                          {"received_bytes", r.received},
                          {"plan_s", r.plan_seconds},
                          {"prove_s", r.prove_seconds},
                          {"proved", {{"moves", r.proved_moves}, {"tensors", r.proved_tensors}}}};
  if (r.machine) {
    nlohmann::json nics = nlohmann::json::array();
    for (const auto& n : r.machine->nics) nics.push_back({{"name", n.name}, {"out_bytes", n.out}, {"in_bytes", n.in}});
    value["simulated"] = {{"machine", r.machine->name},
                          {"time_us", r.machine->time.us()},
                          {"GBps", r.gb_per_second()},
                          {"limit", {{"link", r.machine->busiest_link}, {"share", r.machine->busiest_share}}},
                          {"nics", std::move(nics)}};
    if (r.machine->changed_time)
      value["simulated"]["changed"] = {{"share", r.changed}, {"time_us", r.machine->changed_time->us()}};
  }
  const auto wrong_or_null = [](std::int64_t wrong) { return wrong >= 0 ? nlohmann::json(wrong) : nlohmann::json(); };
  if (r.here) {
    value["here"] = {{"path", r.here->path},
                     {"time_s", r.here->seconds},
                     {"memcpy_s", r.here->copy_seconds},
                     {"wrong_bytes", wrong_or_null(r.here->wrong)}};
    if (r.converted > 0) value["here"]["convert_s"] = r.here->convert_seconds;
    if (const auto& c = r.here->changed)
      value["here"]["changed"] = {
          {"share", c->share}, {"bytes", c->bytes}, {"time_s", c->seconds}, {"wrong_bytes", wrong_or_null(c->wrong)}};
  }
  return value;
}

}  // namespace weft::report
