#include "api/settings.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "api/chooser.h"
#include "exec/recorder/trace.h"
#include "net/bootstrap/job.h"
#include "net/bootstrap/secret.h"

namespace weft::api {
namespace {

// A rank whose communicator breaks has no better moment to say that its record could not be left.
Status check_record_folder(const std::string& folder) {
  if (folder.empty() || access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return bad_input("WEFT_RECORD_DIR: cannot write into {}: {}", folder, std::strerror(errno));
}

}  // namespace

Status check_settings(const env::Settings& settings) {
  WEFT_CHECK(check_forced(settings));
  // The file of a key may be on the hosts only that use it.
  if (!settings.key.starts_with("file:")) WEFT_CHECK(net::bootstrap::secret_of(settings));
  WEFT_CHECK(net::bootstrap::arbiter_of(settings));
  WEFT_CHECK(net::bootstrap::ports_of(settings));
  WEFT_CHECK(recorder::parse_categories(settings.trace_events));
  WEFT_CHECK(check_record_folder(settings.record_folder));
  return {};
}

}  // namespace weft::api
