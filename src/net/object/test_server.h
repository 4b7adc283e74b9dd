#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/object/client.h"
#include "net/tcp/crc32c.h"

namespace weft::net::object {

// A server on the loopback that keeps objects in memory and fails as a test asks: for tests of what real servers do
// seldom. It does not look at signatures; `make s3` tries those on moto.
class TestServer {
 public:
  enum class Fault {
    kNone,
    kBusy,
    kShort,
    kHangs,
    kWrongByte,
    kCut,
    kCutAfterwards,
    kErrorWith200,
    kRefused,
    kWholeObject
  };

  TestServer() {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 || listen(listener_, 64) != 0) std::abort();
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    accepts_ = std::thread([this] {
      while (!ends_) {
        pollfd ready{listener_, POLLIN, 0};
        if (poll(&ready, 1, 5) <= 0) continue;
        const int fd = accept(listener_, nullptr, nullptr);
        if (fd >= 0) serves_.emplace_back([this, fd] { serve(fd); });
      }
    });
  }
  ~TestServer() {
    ends_ = true;
    accepts_.join();
    for (std::thread& thread : serves_) thread.join();
    close(listener_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  Place place() const { return {.endpoint = endpoint(), .credentials = {"id", "secret", ""}}; }
  // The next `count` requests fail so.
  void fail(Fault fault, int count = 1) {
    const std::lock_guard guard(mutex_);
    for (int i = 0; i < count; ++i) faults_.push_back(fault);
  }
  std::string object(const std::string& key) {
    const std::lock_guard guard(mutex_);
    return objects_[key].bytes;
  }
  bool has(const std::string& key) {
    const std::lock_guard guard(mutex_);
    return objects_.count(key) != 0;
  }
  void set(const std::string& key, std::string bytes) {
    const std::lock_guard guard(mutex_);
    objects_[key] = {std::move(bytes), "", "\"" + std::to_string(++tag_) + "\""};
  }
  std::vector<std::string> requests() {  // "PUT /bucket/key?query", in the order of their answers
    const std::lock_guard guard(mutex_);
    return requests_;
  }
  std::size_t uploads() {
    const std::lock_guard guard(mutex_);
    return uploads_.size();
  }

 private:
  struct Object {
    std::string bytes, sum, tag;
  };
  struct Upload {
    std::string sum;
    std::map<int, std::string> parts;
  };
  struct Request {
    std::string method, path, query, body;
    std::map<std::string, std::string> headers;
    std::string value(const std::string& name) const {
      const std::size_t at = ("&" + query).find("&" + name + "=");
      if (at == std::string::npos) return {};
      const std::size_t begin = at + name.size() + 1;
      return query.substr(begin, query.find('&', begin) - begin);
    }
    std::string header(const std::string& name) const {
      const auto found = headers.find(name);
      return found == headers.end() ? "" : found->second;
    }
  };

  void serve(int fd) {
    std::string got;
    while (!ends_) {
      pollfd ready{fd, POLLIN, 0};
      if (poll(&ready, 1, 5) <= 0) continue;
      char block[65536];
      const ssize_t n = recv(fd, block, sizeof block, 0);
      if (n <= 0) break;
      got.append(block, static_cast<std::size_t>(n));
      Request request;
      bool goes_on = true;
      while (goes_on && parse(got, request)) goes_on = answer(fd, request);
      if (!goes_on) break;
    }
    close(fd);
  }

  static bool parse(std::string& got, Request& r) {
    const std::size_t end = got.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    r = {};
    std::size_t at = got.find("\r\n");
    const std::string first = got.substr(0, at);
    const std::size_t a = first.find(' '), b = first.rfind(' '), q = first.find('?');
    r.method = first.substr(0, a);
    r.path = first.substr(a + 1, std::min(q, b) - a - 1);
    if (q != std::string::npos) r.query = first.substr(q + 1, b - q - 1);
    while (at < end) {
      const std::size_t line = at + 2, next = got.find("\r\n", line), colon = got.find(':', line);
      std::string name = got.substr(line, colon - line);
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      if (colon < next) r.headers[name] = got.substr(colon + 2, next - colon - 2);
      at = next;
    }
    const std::size_t bytes = std::stoul("0" + r.header("content-length"));
    if (got.size() < end + 4 + bytes) return false;
    r.body = got.substr(end + 4, bytes);
    got.erase(0, end + 4 + bytes);
    return true;
  }

  // Returns whether the connection goes on.
  bool answer(int fd, const Request& r) {
    Fault fault = Fault::kNone;
    std::string text;
    {
      const std::lock_guard guard(mutex_);
      if (!faults_.empty()) {
        fault = faults_.front();
        faults_.pop_front();
      }
      requests_.push_back(r.method + " " + r.path + (r.query.empty() ? "" : "?" + r.query));
      if (fault == Fault::kCut) return false;
      if (fault == Fault::kBusy) text = error(503, "SlowDown", "Please reduce your request rate.");
      if (fault == Fault::kRefused) text = error(403, "AccessDenied", "Access Denied");
      if (fault == Fault::kErrorWith200)
        text = reply(200, "<Error><Code>InternalError</Code><Message>We failed</Message></Error>");
      if (text.empty() && fault != Fault::kHangs) text = result_of(r, fault);
    }
    if (fault == Fault::kCutAfterwards) return false;
    if (fault == Fault::kHangs) {
      while (!ends_) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return false;
    }
    if (fault == Fault::kShort) text.resize(text.size() - 1);
    if (fault == Fault::kWrongByte) text.back() = static_cast<char>(text.back() ^ 1);
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return fault != Fault::kShort;
  }

  static std::string reply(int status, const std::string& body, const std::string& headers = "") {
    return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           headers + "\r\n" + body;
  }
  static std::string error(int status, const std::string& code, const std::string& message) {
    return reply(status, "<Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>");
  }
  static std::string headers_of(const Object& o) {
    return "ETag: " + o.tag + "\r\n" + (o.sum.empty() ? "" : std::string(kSum) + ": " + o.sum + "\r\n");
  }

  std::string result_of(const Request& r, Fault fault) {  // by mutex_
    const std::string key = r.path.substr(std::min(r.path.size(), r.path.find('/', 1) + 1));
    if (r.method == "PUT" || r.method == "POST") return written(r, key);
    if (r.method == "DELETE") {
      if (const std::string upload = r.value("uploadId"); !upload.empty())
        uploads_.erase(upload);
      else
        objects_.erase(key);
      return reply(204, "");
    }
    if (r.method == "GET" && r.query.find("list-type") != std::string::npos) return listed(r);
    const auto found = objects_.find(key);
    if (found == objects_.end())
      return r.method == "HEAD" ? reply(404, "") : error(404, "NoSuchKey", "The specified key does not exist.");
    const Object& o = found->second;
    if (r.method == "HEAD")
      return "HTTP/1.1 200 X\r\nContent-Length: " + std::to_string(o.bytes.size()) + "\r\n" + headers_of(o) + "\r\n";
    if (const std::string match = r.header("if-match"); !match.empty() && match != o.tag)
      return error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
    if (fault == Fault::kWholeObject) return reply(200, o.bytes, headers_of(o));
    std::size_t from = 0, to = 0;
    (void)std::sscanf(r.header("range").c_str(), "bytes=%zu-%zu", &from, &to);
    if (from >= o.bytes.size()) return error(416, "InvalidRange", "The requested range is not satisfiable");
    to = std::min(to, o.bytes.size() - 1);
    return reply(206, o.bytes.substr(from, to - from + 1),
                 headers_of(o) + "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(to) + "/" +
                     std::to_string(o.bytes.size()) + "\r\n");
  }

  std::string written(const Request& r, const std::string& key) {
    const std::string sum = r.header("x-amz-checksum-crc32c"), upload = r.value("uploadId");
    if (!sum.empty() && sum != checksum_header(tcp::crc32c(0, r.body.data(), r.body.size())))
      return error(400, "BadDigest", "The CRC32C you specified did not match what we received.");
    if (r.query.starts_with("uploads")) {
      const std::string id = "u" + std::to_string(++tag_);
      uploads_[id].sum = r.header(kSum);
      return reply(200,
                   "<InitiateMultipartUploadResult><UploadId>" + id + "</UploadId></InitiateMultipartUploadResult>");
    }
    const std::string tag = "\"" + std::to_string(++tag_) + "\"";
    if (upload.empty()) {
      objects_[key] = {r.body, r.header(kSum), tag};
      return reply(200, "", "ETag: " + tag + "\r\n");
    }
    const auto found = uploads_.find(upload);
    if (found == uploads_.end()) return error(404, "NoSuchUpload", "The specified upload does not exist.");
    if (r.method == "PUT") {
      found->second.parts[std::stoi(r.value("partNumber"))] = r.body;
      return reply(200, "", "ETag: " + tag + "\r\n");
    }
    std::string whole;
    for (const auto& [number, part] : found->second.parts) whole += part;
    objects_[key] = {whole, found->second.sum, tag};
    uploads_.erase(found);
    return reply(200, "<CompleteMultipartUploadResult><ETag>" + tag + "</ETag></CompleteMultipartUploadResult>");
  }

  // Two objects per answer.
  std::string listed(const Request& r) {
    std::string prefix = r.value("prefix"), body, last;
    for (std::size_t at = 0; (at = prefix.find("%2F", at)) != std::string::npos;) prefix.replace(at, 3, "/");
    std::string after = r.value("continuation-token");
    for (std::size_t at = 0; (at = after.find("%2F", at)) != std::string::npos;) after.replace(at, 3, "/");
    int count = 0;
    bool more = false;
    for (const auto& [key, object] : objects_) {
      if (!key.starts_with(prefix) || key <= after) continue;
      more = count == 2;
      if (more) break;
      body += "<Contents><Key>" + key + "</Key><Size>" + std::to_string(object.bytes.size()) + "</Size></Contents>";
      last = key;
      ++count;
    }
    const std::string next = "<NextContinuationToken>" + last + "</NextContinuationToken>";
    return reply(200, "<ListBucketResult><IsTruncated>" + std::string(more ? "true" : "false") + "</IsTruncated>" +
                          (more ? next : "") + body + "</ListBucketResult>");
  }

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> ends_{false};
  std::thread accepts_;
  std::vector<std::thread> serves_;  // by accepts_, until it has ended
  std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  std::deque<Fault> faults_;
  std::vector<std::string> requests_;
  int tag_ = 0;
};

}  // namespace weft::net::object
