#include "cli/rates.h"

#include "base/env.h"

namespace weft::cli {

Result<calibrate::Rates> rates_of_this_machine() {
  WEFT_TRY(const env::Settings settings, env::read());
  if (!settings.rates.empty()) return calibrate::from_text(settings.rates);
  const std::string file = settings.cache_dir.empty() ? "" : settings.cache_dir + "/rates.json";
  if (!file.empty())
    if (auto cached = calibrate::load(file)) return cached;
  calibrate::Rates rates = calibrate::measure();
  if (!file.empty()) (void)calibrate::save(rates, file);  // a cache that cannot be written is measured again next time
  return rates;
}

}  // namespace weft::cli
