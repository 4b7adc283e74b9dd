#pragma once

#include <string>

#include "base/result.h"

namespace weft::cli {

// Posts JSON to http://HOST[:PORT]/PATH, with ten seconds for all of it. Errors: bad input: a URL that is none, or of
// https; kSystem: no connection, no answer, or an answer other than 2xx, which is named.
Status post_json(const std::string& url, const std::string& body);

}  // namespace weft::cli
