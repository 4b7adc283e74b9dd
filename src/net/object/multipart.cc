#include <algorithm>

#include "net/object/client.h"
#include "net/tcp/crc32c.h"

// Objects in parts: begun, sent several at a time, completed at once. Until then nobody sees any of it; what is not
// completed is removed.
namespace weft::net::object {
namespace {

constexpr Bytes kMostParts = 10000;  // S3's bound

}  // namespace

Result<Known> Client::write_parts(const Name& name, std::span<const std::byte> bytes, std::uint32_t sum,
                                  const Leave& leave) {
  Ask begin{.method = "POST", .query = {{"uploads", ""}}};
  begin.headers[kSum] = fmt::format("{:08x}", sum);
  begin.headers["x-amz-checksum-algorithm"] = "CRC32C";
  WEFT_TRY(const Exchange e, one(name, begin, leave));
  const std::string upload = element_of(e.text, "UploadId");
  if (upload.empty())
    return failure(Code::kSystem, Blame::kOperation, "{} POST: the answer has no UploadId", name.text());
  std::vector<std::string> tags;
  Result<Known> done = [&]() -> Result<Known> {
    WEFT_CHECK(send_parts(name, upload, bytes, tags, leave));
    return complete(name, upload, tags, static_cast<Bytes>(bytes.size()), sum, leave);
  }();
  if (done) return done;
  // The parts go, whatever the caller's leave says; what went wrong stays the first error.
  const Leave own(Clock::now() + std::chrono::seconds(5));
  (void)one(name, {.method = "DELETE", .query = {{"uploadId", upload}}}, own);
  return done;
}

Status Client::send_parts(const Name& name, const std::string& upload, std::span<const std::byte> bytes,
                          std::vector<std::string>& tags, const Leave& leave) {
  const auto whole = static_cast<Bytes>(bytes.size());
  const Bytes part = std::max(habits_.part, (whole + kMostParts - 1) / kMostParts);
  std::vector<Ask> asks;
  std::vector<Exchange> exchanges;
  for (Bytes at = 0; at < whole;) {
    asks.clear();
    for (int i = 0; i < habits_.at_once && at < whole; ++i) {
      const auto size = std::min(part, whole - at);
      Ask ask{.method = "PUT", .body = bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size))};
      ask.query = {{"partNumber", fmt::format("{}", at / part + 1)}, {"uploadId", upload}};
      std::uint32_t sum = 0;
      if (!leave.with([&] { sum = tcp::crc32c(0, ask.body.data(), ask.body.size()); }))
        return failure(Code::kAborted, Blame::kOperation, "{} PUT: it was cancelled", name.text());
      ask.headers["x-amz-checksum-crc32c"] = checksum_header(sum);
      asks.push_back(std::move(ask));
      at += size;
    }
    WEFT_CHECK(carry_out(name, asks, exchanges, leave));
    for (std::size_t i = 0; i < asks.size(); ++i) {
      const std::string tag = exchanges[i].header("etag");
      if (tag.empty())
        return failure(Code::kSystem, Blame::kOperation, "{} PUT: the answer to a part has no ETag", name.text());
      tags.push_back(
          fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag><ChecksumCRC32C>{}</ChecksumCRC32C></Part>",
                      tags.size() + 1, tag, asks[i].headers["x-amz-checksum-crc32c"]));
    }
  }
  return {};
}

Result<Known> Client::complete(const Name& name, const std::string& upload, const std::vector<std::string>& tags,
                               Bytes bytes, std::uint32_t sum, const Leave& leave) {
  const std::string text = fmt::format("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", fmt::join(tags, ""));
  const Ask ask{
      .method = "POST", .query = {{"uploadId", upload}}, .body = std::as_bytes(std::span(text.data(), text.size()))};
  const auto written = [&]() -> std::optional<Known> {
    auto known = look(name, leave);
    if (known && known->bytes == bytes && known->sum == sum) return *known;
    return std::nullopt;
  };
  for (int attempt = 1;; ++attempt) {
    auto answer = one(name, ask, leave);
    // An answer that got lost: the upload is no more because it is the object.
    if (!answer && answer.error().code == Code::kNotFound)
      if (const auto known = written()) return *known;
    if (!answer) return tl::make_unexpected(answer.error());
    // S3 begins its answer before it knows the end: 200 with an error in it.
    const std::string code = element_of(answer->text, "Code");
    if (code.empty()) return Known{bytes, element_of(answer->text, "ETag"), sum};
    if (!rest(attempt, leave))
      return failure(Code::kSystem, Blame::kOperation, "{} POST: {}: {} ({} attempts)", name.text(), code,
                     element_of(answer->text, "Message"), attempt);
  }
}

}  // namespace weft::net::object
