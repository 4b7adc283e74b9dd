#include "api/settings.h"

#include "api/chooser.h"
#include "exec/recorder/trace.h"
#include "net/bootstrap/job.h"
#include "net/bootstrap/secret.h"

namespace weft::api {

Status check_settings(const env::Settings& settings) {
  WEFT_CHECK(check_forced(settings));
  // The file of a key may be on the hosts only that use it.
  if (!settings.key.starts_with("file:")) WEFT_CHECK(net::bootstrap::secret_of(settings));
  WEFT_CHECK(net::bootstrap::arbiter_of(settings));
  WEFT_CHECK(net::bootstrap::ports_of(settings));
  WEFT_CHECK(recorder::parse_categories(settings.trace_events));
  return {};
}

}  // namespace weft::api
