#include "apps/cli/rates.h"

#include "api/open.h"
#include "base/env.h"

namespace weft::cli {

Result<calibrate::Rates> rates_of_this_machine(const std::string& transport) {
  WEFT_TRY(const env::Settings settings, env::read());
  if (!settings.rates.empty()) return api::rates_of(settings);
  const bool ucx = transport.ends_with("ucx");
  return api::cache_of(settings).find_or(ucx, [&] { return calibrate::measure(ucx); });
}

}  // namespace weft::cli
