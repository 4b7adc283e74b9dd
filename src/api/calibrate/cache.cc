#include "api/calibrate/cache.h"

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

#include "api/calibrate/cpus.h"
#include "base/own_folder.h"
#include "base/unique_fd.h"

namespace weft::calibrate {
namespace {

constexpr char kSchema[] = "weft.cached-rates/1";
constexpr std::size_t kLargest = 64 << 10;       // bytes; a usual file has 700
constexpr std::chrono::seconds kForAnother{10};  // that measures

std::string make_own(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path path(folder);
  std::filesystem::create_directories(path.parent_path(), ignored);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  struct stat s {};
  if (lstat(folder.c_str(), &s) != 0) return std::strerror(errno);
  return S_ISDIR(s.st_mode) ? fault_of_own(s, kOthersWrite) : "is no folder";
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
    if (say_) say_("rates are measured again: " + why);
    return std::nullopt;
  };
  const auto text = read_own_file(path, kOthersWrite, kLargest);
  if (!text) return refuse(text.error().message);
  if (!*text) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(**text);
    if (json.at("schema") != kSchema) return refuse(fmt::format("{}: its schema is not {}", path, kSchema));
    if (json.at("machine") != fingerprint()) return refuse(path + ": of another machine");
    const auto rates = from_text(json.at("rates").dump());
    if (!rates) return refuse(path + ": " + rates.error().message);
    return *rates;
  } catch (const std::exception& problem) {
    return refuse(path + ": " + problem.what());
  }
}

bool Cache::keep(bool ucx, const Rates& rates) const {
  if (!usable_) return false;
  const nlohmann::json json = {
      {"schema", kSchema}, {"machine", fingerprint()}, {"rates", nlohmann::json::parse(to_text(rates))}};
  const std::string text = json.dump(1) + "\n", path = file(ucx);
  std::string draft = path + ".XXXXXX";
  const UniqueFd opened(mkostemp(draft.data(), O_CLOEXEC));  // for this user alone, and never through a link
  if (!opened.open()) return false;
  const bool written = write(opened.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && rename(draft.c_str(), path.c_str()) == 0) return true;
  unlink(draft.c_str());
  return false;
}

Rates Cache::find_or(bool ucx, const std::function<Rates()>& measure) const {
  if (const auto known = find(ucx)) return *known;
  if (!usable_) return measure();
  const UniqueFd lock(open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  const auto until = std::chrono::steady_clock::now() + kForAnother;
  while (lock.open() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // Its last holder may have measured since this one looked.
  if (const Cache silent(folder_, nullptr); const auto known = silent.find(ucx)) return *known;
  const Rates rates = measure();
  keep(ucx, rates);
  return as_read(rates);  // as readers of the file have them
}

}  // namespace weft::calibrate
