#include "net/object/http.h"

namespace weft::net::object {

Result<std::unique_ptr<Http>> Http::open(const std::string& /*authorities*/) {
  return failure(Code::kUnsupported, Blame::kInput,
                 "s3: weft was built without libcurl; install libcurl4-openssl-dev and build it again");
}

}  // namespace weft::net::object
