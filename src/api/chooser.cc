#include "api/chooser.h"

#include <mutex>

#include "api/log_lines.h"
#include "collectives/registry.h"
#include "schedule/element.h"
#include "schedule/exchange/written.h"

namespace weft::api {
namespace {

bool order_matters(const Request& r) {
  return schedule::reduces(r.collective) && schedule::order_matters(r.type, r.op);
}

}  // namespace

Status check_forced(const env::Settings& settings) {
  if (!settings.protocol.empty())
    if (const auto known = protocol::parse_protocol(settings.protocol); !known)
      return bad_input("WEFT_PROTO: {}", known.error().message);
  if (settings.algorithm.empty()) return {};
  if (schedule::names_file(settings.algorithm)) {
    const auto written = schedule::written_algorithm(settings.algorithm);
    return written ? Status() : tl::unexpected(written.error());
  }
  for (const schedule::Algorithm& a : collectives::algorithms())
    if (a.name == settings.algorithm) return {};
  return bad_input("WEFT_ALGO '{}' is not an algorithm", settings.algorithm);
}

tune::Question question_of(const schedule::Task& task, const Request& request, const protocol::Capabilities& can,
                           bool registered) {
  return {.task = task,
          .can = can,
          .registered = registered,
          .in_order = request.reproducible && order_matters(request),
          .algorithm = request.algorithm,
          .protocol = request.protocol,
          .channels = request.channels};
}

session::Chooser chooser_of(std::shared_ptr<const cost::MachineView> machine, const env::Settings& settings,
                            std::shared_ptr<const Log> log) {
  return [machine = std::move(machine), log = std::move(log), algorithm = settings.algorithm,
          protocol = settings.protocol, channels = static_cast<int>(settings.channels),
          reproducible = settings.reproducible](const schedule::Task& task, const Request& request,
                                                const protocol::Capabilities& can,
                                                bool registered) -> Result<schedule::Plan> {
    static std::mutex turns;  // threads may share a machine view, whose routes cache
    const std::lock_guard guard(turns);
    tune::Question own = question_of(task, request, can, registered);
    own.in_order = (reproducible || request.reproducible) && order_matters(request);
    tune::Question forced = own;
    if (own.algorithm.empty()) forced.algorithm = algorithm;
    if (own.algorithm.empty() && own.protocol.empty()) forced.protocol = protocol;
    if (own.channels == 0) forced.channels = channels;
    if (const auto chosen = tune::choose(*machine, forced)) {
      log_choice(*log, *machine, forced, *chosen);
      return chosen->plan;
    }
    WEFT_TRY(const auto chosen, tune::choose(*machine, own));
    log_choice(*log, *machine, own, chosen);
    return chosen.plan;
  };
}

}  // namespace weft::api
