#include "net/object/place.h"

#include <algorithm>

#include "base/env.h"
#include "base/text.h"

namespace weft::net::object {
namespace {

std::string set_to(std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (auto value = env::value_of(name); value && !value->empty()) return *value;
  return {};
}

bool is_bucket(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  };
  return name.size() >= 3 && name.size() <= 255 && std::ranges::all_of(name, plain) && name.front() != '.' &&
         name.find("..") == std::string_view::npos;
}

}  // namespace

Result<Place> place_of_environment() {
  Place place;
  place.endpoint = set_to({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (const std::string region = set_to({"AWS_REGION", "AWS_DEFAULT_REGION"}); !region.empty()) place.region = region;
  place.authorities = set_to({"AWS_CA_BUNDLE"});
  place.credentials = {set_to({"AWS_ACCESS_KEY_ID"}), set_to({"AWS_SECRET_ACCESS_KEY"}), set_to({"AWS_SESSION_TOKEN"})};
  if (place.credentials.key_id.empty()) return bad_input("s3: AWS_ACCESS_KEY_ID is not set");
  if (place.credentials.secret.empty()) return bad_input("s3: AWS_SECRET_ACCESS_KEY is not set");
  while (!place.endpoint.empty() && place.endpoint.back() == '/') place.endpoint.pop_back();
  const bool url = place.endpoint.starts_with("http://") || place.endpoint.starts_with("https://");
  if (!place.endpoint.empty() && !url)
    return bad_input("s3: AWS_ENDPOINT_URL {} begins with neither http:// nor https://", shown(place.endpoint));
  return place;
}

Result<Name> parse_name(std::string_view url) {
  constexpr std::string_view kScheme = "s3://";
  if (!url.starts_with(kScheme)) return bad_input("object {}: it is not s3://BUCKET/KEY", shown(url));
  const std::string_view rest = url.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  Name name{std::string(rest.substr(0, slash)), {}};
  if (slash != std::string_view::npos) name.key = rest.substr(slash + 1);
  if (!is_bucket(name.bucket)) return bad_input("object {}: '{}' is no name of a bucket", shown(url), name.bucket);
  if (name.key.empty()) return bad_input("object {}: no key stands behind the bucket", shown(url));
  if (name.key.size() > 1024) return bad_input("object {}: a key has at most 1024 bytes", shown(url));
  return name;
}

Route route_to(const Place& place, const std::string& bucket, std::string_view key) {
  Route route;
  const std::string encoded = percent_encoded(key, true);
  const bool dotted = bucket.find('.') != std::string::npos;  // no certificate of AWS has such a host
  if (!place.endpoint.empty() || dotted) {
    const std::string endpoint =
        place.endpoint.empty() ? fmt::format("https://s3.{}.amazonaws.com", place.region) : place.endpoint;
    const std::size_t host = endpoint.find("://") + 3, path = endpoint.find('/', host);
    route.base = endpoint.substr(0, path);
    route.host = route.base.substr(host);
    route.path = fmt::format("{}/{}{}{}", path == std::string::npos ? "" : endpoint.substr(path), bucket,
                             key.empty() ? "" : "/", encoded);
    return route;
  }
  route.host = fmt::format("{}.s3.{}.amazonaws.com", bucket, place.region);
  route.base = "https://" + route.host;
  route.path = "/" + encoded;
  return route;
}

}  // namespace weft::net::object
