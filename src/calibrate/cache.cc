#include "calibrate/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "calibrate/cpus.h"

namespace weft::calibrate {
namespace {

constexpr char kSchema[] = "weft.cached-rates/1";
constexpr std::uintmax_t kLargest = 64 << 10;
constexpr std::chrono::seconds kForAnother{10};  // that measures

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

// Empty, or why it is not this user's alone.
std::string fault_of(const struct stat& s) {
  if (s.st_uid != geteuid()) return "belongs to another user";
  return (s.st_mode & (S_IWGRP | S_IWOTH)) != 0 ? "may be written by others" : "";
}

std::string make_own(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path path(folder);
  std::filesystem::create_directories(path.parent_path(), ignored);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  struct stat s {};
  if (lstat(folder.c_str(), &s) != 0) return std::strerror(errno);
  return S_ISDIR(s.st_mode) ? fault_of(s) : "is no folder";
}

std::uint64_t hash_of(const std::string& text) {  // FNV-1a: the same in every process and version
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

std::string fingerprint() {
  std::string model = "unknown";
  std::set<std::string> sockets;
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    const auto value = [&] {
      const auto colon = line.find(':');
      return colon == std::string::npos || colon + 2 > line.size() ? "" : line.substr(colon + 2);
    };
    if (line.starts_with("model name") && model == "unknown") model = value();
    if (line.starts_with("physical id")) sockets.insert(value());
  }
  struct sysinfo memory {};
  sysinfo(&memory);
  const std::uint64_t gib = (std::uint64_t{memory.totalram} * memory.mem_unit) >> 30;
  utsname kernel{};
  uname(&kernel);
  return fmt::format("{}, {} of {} processors, {} sockets, {} GiB, {} {}, weft {}", model, every_cpu().size(),
                     sysconf(_SC_NPROCESSORS_ONLN), sockets.size(), gib, kernel.sysname, kernel.release, WEFT_VERSION);
}

Cache::Cache(std::string folder, std::function<void(const std::string&)> say)
    : folder_(std::move(folder)), say_(std::move(say)) {
  if (folder_.empty()) return;
  const std::string fault = make_own(folder_);
  usable_ = fault.empty();
  if (!usable_ && say_) say_(fmt::format("rates are not kept: {}: {}", folder_, fault));
}

std::string Cache::file(bool ucx) const {
  return fmt::format("{}/rates-{:016x}{}.json", folder_, hash_of(fingerprint()), ucx ? "-ucx" : "");
}

std::optional<Rates> Cache::find(bool ucx) const {
  if (!usable_) return std::nullopt;
  const std::string path = file(ucx);
  const auto refuse = [&](const std::string& why) {
    if (say_) say_(fmt::format("rates are measured again: {}: {}", path, why));
    return std::nullopt;
  };
  const Descriptor opened(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (opened.fd < 0) return errno == ENOENT ? std::nullopt : refuse(std::strerror(errno));
  struct stat s {};
  if (fstat(opened.fd, &s) != 0) return refuse(std::strerror(errno));
  if (!S_ISREG(s.st_mode) || s.st_size > static_cast<off_t>(kLargest)) return refuse("is no file of rates");
  if (const std::string fault = fault_of(s); !fault.empty()) return refuse(fault);
  std::string text(static_cast<std::size_t>(s.st_size), '\0');
  if (read(opened.fd, text.data(), text.size()) != s.st_size) return refuse("was cut short");
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("schema") != kSchema) return refuse(fmt::format("its schema is not {}", kSchema));
    if (json.at("machine") != fingerprint()) return refuse("is of another machine");
    const auto rates = from_text(json.at("rates").dump());
    if (!rates) return refuse(rates.error().message);
    return *rates;
  } catch (const std::exception& problem) {
    return refuse(problem.what());
  }
}

bool Cache::keep(bool ucx, const Rates& rates) const {
  if (!usable_) return false;
  const nlohmann::json json = {
      {"schema", kSchema}, {"machine", fingerprint()}, {"rates", nlohmann::json::parse(to_text(rates))}};
  const std::string text = json.dump(1) + "\n", path = file(ucx);
  std::string draft = path + ".XXXXXX";
  const Descriptor opened(mkostemp(draft.data(), O_CLOEXEC));  // for this user alone, and never through a link
  if (opened.fd < 0) return false;
  const bool written = write(opened.fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && rename(draft.c_str(), path.c_str()) == 0) return true;
  unlink(draft.c_str());
  return false;
}

Rates Cache::find_or(bool ucx, const std::function<Rates()>& measure) const {
  if (const auto known = find(ucx)) return *known;
  if (!usable_) return measure();
  const Descriptor lock(open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  const auto until = std::chrono::steady_clock::now() + kForAnother;
  while (lock.fd >= 0 && flock(lock.fd, LOCK_EX | LOCK_NB) != 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // Its last holder may have measured since this one looked.
  if (const Cache silent(folder_, nullptr); const auto known = silent.find(ucx)) return *known;
  const Rates rates = measure();
  keep(ucx, rates);
  return from_text(to_text(rates)).value_or(rates);  // as readers of the file have it
}

}  // namespace weft::calibrate
