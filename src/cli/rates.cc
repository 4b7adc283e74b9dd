#include "cli/rates.h"

#include "base/env.h"

namespace weft::cli {

Result<calibrate::Rates> rates_of_this_machine() {
  WEFT_TRY(const env::Settings settings, env::read());
  return settings.rates.empty() ? calibrate::measure() : calibrate::from_text(settings.rates);
}

}  // namespace weft::cli
