#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"

// AWS Signature Version 4, as its documentation describes it for requests whose headers carry the signature.
namespace weft::net::object {

struct Credentials {
  std::string key_id, secret, session;  // session: of temporary credentials, or empty
};

struct Unsigned {
  std::string method;
  std::string path;                            // as it is sent: "/bucket/a%20key"
  std::map<std::string, std::string> query;    // not encoded
  std::map<std::string, std::string> headers;  // names in lower case; host, x-amz-date, x-amz-content-sha256 among them
};

// Percent-encoding of all but unreserved characters; `slashes` stay where asked.
std::string percent_encoded(std::string_view text, bool keep_slashes);
std::string encoded_query(const std::map<std::string, std::string>& query);
std::string hex(std::span<const std::uint8_t> bytes);
std::string base64(std::span<const std::uint8_t> bytes);

// The value of the header "authorization". Requires: headers["x-amz-date"] is YYYYMMDDTHHMMSSZ.
std::string authorization(const Unsigned& request, const Credentials& credentials, const std::string& region,
                          const std::string& service);

}  // namespace weft::net::object
