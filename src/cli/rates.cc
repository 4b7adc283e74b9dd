#include "cli/rates.h"

#include "base/env.h"

namespace weft::cli {

Result<calibrate::Rates> rates_of_this_machine(const std::string& transport) {
  WEFT_TRY(const env::Settings settings, env::read());
  return settings.rates.empty() ? calibrate::measure(transport.ends_with("ucx")) : calibrate::from_text(settings.rates);
}

}  // namespace weft::cli
