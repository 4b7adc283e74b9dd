#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "net/object/sign.h"

namespace weft::net::object {

// Where objects are kept, and as whom. A value.
struct Place {
  std::string endpoint;  // "http://127.0.0.1:9000": buckets stand in the path; empty: AWS, buckets in the host's name
  std::string region = "us-east-1";
  std::string authorities;  // file of certificates; empty: the system's
  Credentials credentials;
};

// Read from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION,
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_CA_BUNDLE. Errors (bad input): credentials that are not set, an endpoint
// that is no URL.
Result<Place> place_of_environment();

// The name of an object, or of a prefix of objects.
struct Name {
  std::string bucket, key;
  std::string text() const { return "s3://" + bucket + "/" + key; }
};
// "s3://bucket/key". Errors (bad input): another scheme, a bucket that cannot be one, no key.
Result<Name> parse_name(std::string_view url);

// The place that a request goes to: "http://host/bucket/key" in parts.
struct Route {
  std::string base, host, path;  // base + path is the URL; path is encoded
};
Route route_to(const Place& place, const std::string& bucket, std::string_view key);

}  // namespace weft::net::object
