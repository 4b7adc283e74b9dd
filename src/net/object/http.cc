#include "net/object/http.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstring>

namespace weft::net::object {
namespace {

// The functions of libcurl that weft uses, loaded when an object is asked for.
struct Library {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_multi_init) multi_init;
  decltype(&::curl_multi_cleanup) multi_cleanup;
  decltype(&::curl_multi_add_handle) multi_add_handle;
  decltype(&::curl_multi_remove_handle) multi_remove_handle;
  decltype(&::curl_multi_perform) multi_perform;
  decltype(&::curl_multi_poll) multi_poll;
  decltype(&::curl_multi_info_read) multi_info_read;
};

Result<Library> load() {
  void* handle = nullptr;
  for (const char* const name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
    if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return failure(Code::kUnsupported, Blame::kInput, "s3: {}; install libcurl4", dlerror());
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  Library l{};
  find(l.global_init, "curl_global_init");
  find(l.easy_init, "curl_easy_init");
  find(l.easy_cleanup, "curl_easy_cleanup");
  find(l.easy_reset, "curl_easy_reset");
  find(l.easy_setopt, "curl_easy_setopt");
  find(l.easy_getinfo, "curl_easy_getinfo");
  find(l.easy_strerror, "curl_easy_strerror");
  find(l.slist_append, "curl_slist_append");
  find(l.slist_free_all, "curl_slist_free_all");
  find(l.multi_init, "curl_multi_init");
  find(l.multi_cleanup, "curl_multi_cleanup");
  find(l.multi_add_handle, "curl_multi_add_handle");
  find(l.multi_remove_handle, "curl_multi_remove_handle");
  find(l.multi_perform, "curl_multi_perform");
  find(l.multi_poll, "curl_multi_poll");
  find(l.multi_info_read, "curl_multi_info_read");
  if (missing != nullptr)
    return failure(Code::kUnsupported, Blame::kInput, "s3: libcurl has no {}; weft needs 7.66 or newer", missing);
  l.global_init(CURL_GLOBAL_DEFAULT);
  return l;
}

const Result<Library>& library() {
  static const Result<Library> loaded = load();
  return loaded;
}

constexpr std::size_t kMostText = 1 << 20;
constexpr long kConnectMs = 5000, kStalledSeconds = 10;

struct Running {
  Exchange* exchange = nullptr;
  const Leave* leave = nullptr;
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  std::size_t sent = 0;
  bool too_many = false, over = false;
};

std::size_t header_came(char* data, std::size_t size, std::size_t count, void* user) {
  Exchange& e = *static_cast<Running*>(user)->exchange;
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {
    e.answered.clear();
    e.status = 0;
    if (const std::size_t blank = line.find(' '); blank != std::string_view::npos)
      e.status = std::strtol(std::string(line.substr(blank + 1, 3)).c_str(), nullptr, 10);
  } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon)), value(line.substr(colon + 1));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t begin = value.find_first_not_of(" \t"), end = value.find_last_not_of(" \t\r\n");
    e.answered[name] =
        begin == std::string::npos || end == std::string::npos ? "" : value.substr(begin, end - begin + 1);
  }
  return size * count;
}

std::size_t data_came(char* data, std::size_t size, std::size_t count, void* user) {
  Running& r = *static_cast<Running*>(user);
  Exchange& e = *r.exchange;
  const std::size_t bytes = size * count;
  if (e.into.empty() || e.status < 200 || e.status >= 300) {
    e.text.append(data, std::min(bytes, kMostText - std::min(kMostText, e.text.size())));
    return bytes;
  }
  const auto at = static_cast<std::size_t>(e.received);
  r.too_many = at + bytes > e.into.size();
  if (r.too_many) return 0;
  if (!r.leave->with([&] { std::memcpy(e.into.data() + at, data, bytes); })) return 0;
  e.received += static_cast<Bytes>(bytes);
  return bytes;
}

std::size_t data_wanted(char* to, std::size_t size, std::size_t count, void* user) {
  Running& r = *static_cast<Running*>(user);
  const std::size_t bytes = std::min(size * count, r.exchange->body.size() - r.sent);
  if (!r.leave->with([&] { std::memcpy(to, r.exchange->body.data() + r.sent, bytes); })) return CURL_READFUNC_ABORT;
  r.sent += bytes;
  return bytes;
}

int begin_anew(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Running*>(user)->sent = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

class Curl final : public Http {
 public:
  Curl(const Library& library, std::string authorities)
      : l_(library), authorities_(std::move(authorities)), multi_(l_.multi_init()) {}
  ~Curl() override {
    for (CURL* const handle : idle_) l_.easy_cleanup(handle);
    l_.multi_cleanup(multi_);
  }
  bool open() const { return multi_ != nullptr; }

  void run(std::span<Exchange> exchanges, const Leave& leave) override {
    std::vector<Running> all(exchanges.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].exchange = &exchanges[i];
      all[i].leave = &leave;
      begin(all[i]);
    }
    std::size_t left = all.size();
    while (left > 0 && !leave.taken() && Clock::now() < leave.until()) {
      int running = 0, waiting = 0;
      if (l_.multi_perform(multi_, &running) != CURLM_OK) break;
      while (const CURLMsg* const said = l_.multi_info_read(multi_, &waiting)) {
        const auto of = std::ranges::find_if(all, [&](const Running& r) { return r.handle == said->easy_handle; });
        judge(*of, said->data.result);
        --left;
      }
      if (left > 0) l_.multi_poll(multi_, nullptr, 0, 5, nullptr);
    }
    for (Running& r : all) {
      if (!r.over) r.exchange->failure = leave.taken() ? "it was cancelled" : "its deadline has passed";
      end(r);
    }
  }

 private:
  void begin(Running& r) {
    if (idle_.empty()) {
      r.handle = l_.easy_init();
    } else {
      r.handle = idle_.back();
      idle_.pop_back();
      l_.easy_reset(r.handle);
    }
    const Exchange& e = *r.exchange;
    const auto set = [&](CURLoption option, auto value) { l_.easy_setopt(r.handle, option, value); };
    for (const std::string& header : e.headers) r.headers = l_.slist_append(r.headers, header.c_str());
    set(CURLOPT_URL, e.url.c_str());
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    set(CURLOPT_BUFFERSIZE, 512L << 10);
    set(CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    set(CURLOPT_HTTPHEADER, r.headers);
    set(CURLOPT_HEADERFUNCTION, &header_came);
    set(CURLOPT_HEADERDATA, &r);
    set(CURLOPT_WRITEFUNCTION, &data_came);
    set(CURLOPT_WRITEDATA, &r);
    if (!authorities_.empty()) set(CURLOPT_CAINFO, authorities_.c_str());
    if (e.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (e.method == "PUT") {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(e.body.size()));
      set(CURLOPT_READFUNCTION, &data_wanted);
      set(CURLOPT_READDATA, &r);
      set(CURLOPT_SEEKFUNCTION, &begin_anew);
      set(CURLOPT_SEEKDATA, &r);
    } else if (e.method == "POST") {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(e.body.size()));
      set(CURLOPT_POSTFIELDS, reinterpret_cast<const char*>(e.body.data()));
    } else if (e.method != "GET") {
      set(CURLOPT_CUSTOMREQUEST, e.method.c_str());
    }
    l_.multi_add_handle(multi_, r.handle);
  }

  void judge(Running& r, CURLcode code) {
    Exchange& e = *r.exchange;
    r.over = true;
    if (r.too_many) {
      e.failure = "more bytes came than were asked for";
    } else if (code == CURLE_ABORTED_BY_CALLBACK || code == CURLE_WRITE_ERROR) {
      e.failure = "it was cancelled";
    } else if (code != CURLE_OK) {
      e.failure = l_.easy_strerror(code);
      e.again = code != CURLE_PEER_FAILED_VERIFICATION && code != CURLE_SSL_CACERT_BADFILE &&
                code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL;
    } else if (!e.into.empty() && e.status / 100 == 2 && e.received != static_cast<Bytes>(e.into.size())) {
      const bool whole = e.header("content-length") == fmt::format("{}", e.received);
      e.failure = fmt::format("{}{} of {} bytes came", whole ? "it ends there: " : "", e.received, e.into.size());
      e.again = !whole;
    }
  }

  void end(Running& r) {
    l_.multi_remove_handle(multi_, r.handle);
    l_.slist_free_all(r.headers);
    idle_.push_back(r.handle);
  }

  const Library& l_;
  std::string authorities_;
  CURLM* multi_;
  std::vector<CURL*> idle_;
};

}  // namespace

Result<std::unique_ptr<Http>> Http::open(const std::string& authorities) {
  const auto& loaded = library();
  if (!loaded) return tl::make_unexpected(loaded.error());
  auto curl = std::make_unique<Curl>(*loaded, authorities);
  if (!curl->open()) return failure(Code::kNoResources, Blame::kOperation, "s3: libcurl has no room");
  return std::unique_ptr<Http>(std::move(curl));
}

}  // namespace weft::net::object
