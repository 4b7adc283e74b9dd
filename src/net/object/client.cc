#include "net/object/client.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <pugixml.hpp>
#include <random>
#include <thread>

#include "net/link/key.h"
#include "net/tcp/crc32c.h"

namespace weft::net::object {
namespace {

std::string now_as_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[20];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc)};
}

std::string sha256_of(std::span<const std::byte> bytes) {
  return hex(link::sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  T value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

Known known_of(const Exchange& e, Bytes bytes) {
  Known known{.bytes = bytes, .tag = e.header("etag")};
  known.sum = number<std::uint32_t>(e.header(kSum), 16);
  return known;
}

// A server that is busy or broken, for the moment. 409 and 412 say that the object is another one.
bool passes(const Exchange& e) {
  if (!e.failure.empty()) return e.again;
  if (e.status == 408 || e.status == 429 || e.status >= 500) return true;
  const std::string code = element_of(e.text, "Code");
  return code == "RequestTimeout" || code == "SlowDown" || code == "InternalError";
}

Error error_of(const std::string& what, const Exchange& e, int attempts, const Leave& leave) {
  const std::string tries = attempts > 1 ? fmt::format(" ({} attempts)", attempts) : "";
  if (leave.taken()) return {Code::kAborted, Blame::kOperation, what + ": it was cancelled"};
  const bool late = Clock::now() >= leave.until();
  if (!e.failure.empty())
    return {late ? Code::kTimeout : Code::kSystem, Blame::kOperation, fmt::format("{}: {}{}", what, e.failure, tries)};
  const std::string code = element_of(e.text, "Code"), message = element_of(e.text, "Message");
  const std::string said = fmt::format("{}: {}{}{}{}{}{}", what, e.status, code.empty() ? "" : " ", code,
                                       message.empty() ? "" : ": ", message, tries);
  switch (e.status) {
    case 404:
      return {Code::kNotFound, Blame::kInput, said + (code.empty() ? " no such object" : "")};
    case 400:
      return {code == "BadDigest" || code == "InvalidDigest" || code == "XAmzContentChecksumMismatch"
                  ? Code::kMismatch
                  : Code::kInvalidArgument,
              Blame::kInput, said};
    case 301:
    case 307:
      return {Code::kInvalidArgument, Blame::kInput,
              fmt::format("{}: the bucket is in region {}: set AWS_REGION", said, e.header("x-amz-bucket-region"))};
    case 401:
    case 403:
      return {Code::kInvalidArgument, Blame::kInput, said + (code.empty() ? " access is refused" : "")};
    case 409:
    case 412:
      return {Code::kMismatch, Blame::kOperation, said + ": the object is another one than when it was looked at"};
    case 416:
      return {Code::kSystem, Blame::kOperation, said + ": the object ends before that"};
    default:
      return {late ? Code::kTimeout : Code::kSystem, Blame::kOperation, said};
  }
}

}  // namespace

std::string checksum_header(std::uint32_t sum) {
  const std::uint8_t bytes[4] = {static_cast<std::uint8_t>(sum >> 24), static_cast<std::uint8_t>(sum >> 16),
                                 static_cast<std::uint8_t>(sum >> 8), static_cast<std::uint8_t>(sum)};
  return base64(bytes);
}

std::string element_of(const std::string& xml, const char* name) {
  pugi::xml_document document;
  if (xml.find('<') == std::string::npos || !document.load_buffer(xml.data(), xml.size())) return {};
  const auto found =
      document.find_node([&](const pugi::xml_node& node) { return std::string_view(node.name()) == name; });
  return found.text().as_string();
}

Result<Client> Client::open(Place place, Habits habits) {
  WEFT_TRY(auto http, Http::open(place.authorities));
  return Client(std::move(place), habits, std::move(http));
}

Exchange Client::exchange_of(const Name& name, const Ask& ask) const {
  const Route route = route_to(place_, name.bucket, name.key);
  Unsigned request{.method = ask.method, .path = route.path, .query = ask.query, .headers = ask.headers};
  request.headers["host"] = route.host;
  request.headers["x-amz-date"] = now_as_text();
  // Encryption protects the body; without it the signature does.
  const bool sealed = route.base.starts_with("https:");
  request.headers["x-amz-content-sha256"] = sealed && !ask.body.empty() ? "UNSIGNED-PAYLOAD" : sha256_of(ask.body);
  if (!place_.credentials.session.empty()) request.headers["x-amz-security-token"] = place_.credentials.session;
  Exchange e{.method = ask.method, .body = ask.body, .into = ask.into};
  const std::string query = encoded_query(ask.query);
  e.url = route.base + route.path + (query.empty() ? "" : "?" + query);
  e.headers.push_back("authorization: " + authorization(request, place_.credentials, place_.region, "s3"));
  for (const auto& [key, value] : request.headers)
    if (key != "host") e.headers.push_back(key + ": " + value);
  e.headers.emplace_back("expect:");  // no wait for "100 Continue"
  e.headers.emplace_back("content-type: application/octet-stream");
  return e;
}

// Returns whether another attempt may follow.
bool Client::rest(int attempt, const Leave& leave) const {
  if (attempt >= habits_.attempts) return false;
  thread_local std::mt19937 random(std::random_device{}());
  const auto whole =
      std::min<std::chrono::milliseconds>(habits_.first_pause * (1 << (attempt - 1)), std::chrono::seconds(2));
  const auto until = Clock::now() + whole * std::uniform_real_distribution<double>(0.5, 1)(random);
  while (Clock::now() < until) {
    if (leave.taken() || Clock::now() >= leave.until()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return !leave.taken() && Clock::now() < leave.until();
}

Status Client::carry_out(const Name& name, std::span<const Ask> asks, std::vector<Exchange>& exchanges,
                         const Leave& leave) {
  exchanges.assign(asks.size(), {});
  std::vector<std::size_t> left(asks.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  for (int attempt = 1;; ++attempt) {
    std::vector<Exchange> now;
    bool signable = true;
    for (const std::size_t i : left)
      signable = signable && leave.with([&] { now.push_back(exchange_of(name, asks[i])); });
    if (signable) http_->run(now, leave);
    std::vector<std::size_t> again;
    for (std::size_t k = 0; k < now.size(); ++k) {
      exchanges[left[k]] = std::move(now[k]);
      Exchange& e = exchanges[left[k]];
      if (e.good()) continue;
      if (!passes(e))
        return tl::make_unexpected(error_of(fmt::format("{} {}", name.text(), e.method), e, attempt, leave));
      again.push_back(left[k]);
    }
    if (again.empty() && signable) return {};
    left = again;
    if (!signable || !rest(attempt, leave)) {
      const std::size_t bad = left.empty() ? 0 : left[0];
      return tl::make_unexpected(
          error_of(fmt::format("{} {}", name.text(), asks[bad].method), exchanges[bad], attempt, leave));
    }
  }
}

Result<Exchange> Client::one(const Name& name, const Ask& ask, const Leave& leave) {
  std::vector<Exchange> exchanges;
  WEFT_CHECK(carry_out(name, {&ask, 1}, exchanges, leave));
  return std::move(exchanges[0]);
}

Result<Known> Client::look(const Name& name, const Leave& leave) {
  auto looked = one(name, {.method = "HEAD"}, leave);
  // An answer to HEAD has no body that says whether the object or its bucket is missing.
  if (!looked && looked.error().code == Code::kNotFound)
    if (const auto first = one(name, {.method = "GET", .headers = {{"range", "bytes=0-0"}}}, leave);
        !first && first.error().code == Code::kNotFound)
      return tl::make_unexpected(first.error());
  if (!looked) return tl::make_unexpected(looked.error());
  const Exchange& e = *looked;
  const auto bytes = number<Bytes>(e.header("content-length"));
  if (!bytes) return failure(Code::kSystem, Blame::kOperation, "{} HEAD: the answer has no length", name.text());
  return known_of(e, *bytes);
}

Result<Known> Client::read(const Name& name, Bytes offset, std::span<std::byte> into, const Known* known,
                           const Leave& leave) {
  const auto bytes = static_cast<Bytes>(into.size());
  Ask ask{.method = "GET", .into = into};
  ask.headers["range"] = fmt::format("bytes={}-{}", offset, offset + bytes - 1);
  if (known != nullptr && !known->tag.empty()) ask.headers["if-match"] = known->tag;
  WEFT_TRY(const Exchange e, one(name, ask, leave));
  const std::string where = fmt::format("{} GET bytes {} to {}", name.text(), offset, offset + bytes - 1);
  // "bytes FIRST-LAST/TOTAL". A server that ignores ranges sends everything from the beginning, with 200.
  const std::string range = e.header("content-range"), wanted = fmt::format("bytes {}-{}/", offset, offset + bytes - 1);
  if (e.status == 206 ? !range.starts_with(wanted) : offset != 0)
    return failure(Code::kSystem, Blame::kOperation, "{}: the server sent {}", where,
                   range.empty() ? "the whole object" : range);
  const auto total = e.status == 206 ? number<Bytes>(std::string_view(range).substr(wanted.size())) : bytes;
  Known found = known_of(e, total.value_or(-1));
  if (known != nullptr && !known->tag.empty() && found.tag != known->tag)
    return failure(Code::kMismatch, Blame::kOperation, "{}: the object is another one than when it was looked at",
                   where);
  if (offset == 0 && found.bytes == bytes && found.sum) {
    std::uint32_t sum = 0;
    if (!leave.with([&] { sum = tcp::crc32c(0, into.data(), into.size()); }))
      return failure(Code::kAborted, Blame::kOperation, "{}: it was cancelled", where);
    if (sum != *found.sum)
      return failure(Code::kMismatch, Blame::kOperation, "{}: the checksum differs: it is not what was written", where);
  }
  return found;
}

Result<Known> Client::write(const Name& name, std::span<const std::byte> bytes, const Leave& leave) {
  std::uint32_t sum = 0;
  if (!leave.with([&] { sum = tcp::crc32c(0, bytes.data(), bytes.size()); }))
    return failure(Code::kAborted, Blame::kOperation, "{} PUT: it was cancelled", name.text());
  if (static_cast<Bytes>(bytes.size()) > habits_.part) return write_parts(name, bytes, sum, leave);
  Ask ask{.method = "PUT", .body = bytes};
  ask.headers["x-amz-checksum-crc32c"] = checksum_header(sum);
  ask.headers[kSum] = fmt::format("{:08x}", sum);
  WEFT_TRY(const Exchange e, one(name, ask, leave));
  return Known{static_cast<Bytes>(bytes.size()), e.header("etag"), sum};
}

Status Client::remove(const Name& name, const Leave& leave) {
  WEFT_CHECK(one(name, {.method = "DELETE"}, leave));
  return {};
}

Result<std::vector<Listed>> Client::list(const Name& name, const Leave& leave) {
  std::vector<Listed> all;
  std::string after;
  const Name bucket{name.bucket, {}};
  do {
    Ask ask{.method = "GET", .query = {{"list-type", "2"}, {"prefix", name.key}}};
    if (!after.empty()) ask.query["continuation-token"] = after;
    WEFT_TRY(const Exchange e, one(bucket, ask, leave));
    pugi::xml_document document;
    const auto root =
        document.load_buffer(e.text.data(), e.text.size()) ? document.child("ListBucketResult") : pugi::xml_node();
    if (!root) return failure(Code::kSystem, Blame::kOperation, "{} GET: the answer is no list", name.text());
    for (const auto& object : root.children("Contents"))
      all.push_back({object.child_value("Key"), number<Bytes>(object.child_value("Size")).value_or(-1)});
    after =
        std::string_view(root.child_value("IsTruncated")) == "true" ? root.child_value("NextContinuationToken") : "";
  } while (!after.empty());
  return all;
}

}  // namespace weft::net::object
