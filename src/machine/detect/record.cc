#include "machine/detect/record.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/job_text.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/text_file.h"
#include "base/xml_file.h"
#include "machine/detect/hwloc_nvlinks.h"

namespace weft::topology {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHwloc = "hwloc.xml";
constexpr const char* kFacts = "host_facts.json";

// Some damaged files crash libhwloc 2.9 (decision 0134), so a child process reads each first. True: it survived.
bool survives_reading(const std::string& xml, const HostFacts& facts) {
  constexpr rlim_t kSeconds = 20;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{kSeconds, kSeconds}, none{0, 0};
    setrlimit(RLIMIT_CPU, &limit);
    setrlimit(RLIMIT_CORE, &none);
    const int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(silent, STDERR_FILENO);
    (void)detect(RecordedHost(xml), std::nullopt, Endpoints::kGpusOrCores, facts);
    _exit(0);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && status == 0;
}

// A file of hwloc 3 as hwloc 2 reads it: version 3 has kinds of devices as bits, of which version 2 knows one number.
std::string as_version_2(std::string text) {
  constexpr std::pair<int, const char*> kKinds[] = {{8, "5"},  {4, "1"}, {32, "3"}, {16, "2"},
                                                    {64, "4"}, {2, "0"}, {1, "0"}};
  const std::string key = "osdev_type=\"";
  for (auto at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    at += key.size();
    const int bits = number_at(text, at);
    const auto* kind = std::ranges::find_if(kKinds, [&](const auto& k) { return bits > 0 && (bits & k.first) != 0; });
    const auto end = text.find('"', at);
    if (kind != std::end(kKinds) && end != std::string::npos) text.replace(at, end - at, kind->second);
  }
  const auto root = text.find("<topology"), version = text.find("version=\"3", root);
  if (version != std::string::npos) text[version + 9] = '2';
  return text;
}

Result<Topology> read_hwloc(const fs::path& file, HostFacts facts) {
  WEFT_TRY(std::string text, read_text_file(file));
  const std::string name = file.filename().string();
  // hwloc says only that it failed; where the XML is none, this names the line.
  WEFT_TRY(const XmlFile xml, XmlFile::parse(name, text));
  if (std::string_view(xml.root().name()) != "topology")
    return bad_input("{}: <{}> where hwloc's <topology> is expected", xml.where(xml.root()), xml.root().name());
  if (facts.gpus.empty()) {
    WEFT_TRY(const Catalog catalog, Catalog::shipped());
    facts.gpus = nvlinks_of(xml, catalog);
  }
  // hwloc 2 reads the files of 1.x and 2.x; its own error names no version.
  const std::string version = xml.root().attribute("version").value();
  const int major = version.empty() ? 1 : number_at(version, 0);
  if (major == 3) text = as_version_2(std::move(text));
  const char* kind = xml.root().child("object").attribute("type").value();
  if (major > 3)
    return bad_input(
        "{}:1: a file of hwloc {}; 1.x to 3.x are read: lstopo --of xml --export-xml-flags v2 writes it for that", name,
        shown(version));
  if (!survives_reading(text, facts)) return bad_input("{}: libhwloc does not survive reading this file", name);
  auto topology = detect(RecordedHost(text), std::nullopt, Endpoints::kGpusOrCores, facts);
  if (!topology)
    return bad_input("{}:1: {} (a file of hwloc {}{})", name, topology.error().message,
                     version.empty() ? std::string("1.x") : std::string(shown(version)),
                     kind[0] == 0 ? ", without <object>" : "");
  return topology;
}

// hwloc's files start with its DTD or the element itself.
bool is_hwloc_xml(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string start(512, '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(stream.gcount()));
  return start.find("hwloc") != std::string::npos || start.find("<topology") != std::string::npos;
}

}  // namespace

Status record(const HostProbe& probe, const HostFacts& facts, const fs::path& folder) {
  WEFT_TRY(const HwlocTopology host, probe.read());
  WEFT_TRY(const std::string xml, to_hwloc_xml(host.get()));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return failure(Code::kSystem, Blame::kInput, "cannot make {}: {}", folder.string(), error.message());
  WEFT_CHECK(write_file(folder / kHwloc, xml));
  return write_file(folder / kFacts, to_json(facts));
}

Result<std::optional<Topology>> read_recorded(const fs::path& path) {
  std::error_code ignored;
  HostFacts facts;
  fs::path hwloc = path;
  if (fs::is_directory(path, ignored)) {
    hwloc = path / kHwloc;
    if (!fs::exists(hwloc, ignored)) return bad_input("{}: no {} in it: no recorded machine", path.string(), kHwloc);
    if (fs::exists(path / kFacts, ignored)) {
      WEFT_TRY(const std::string text, read_text_file(path / kFacts));
      WEFT_TRY(facts, host_facts_from_json(kFacts, text));
    }
  } else if (!fs::is_regular_file(path, ignored) || !is_hwloc_xml(path)) {
    return std::optional<Topology>();
  }
  WEFT_TRY(Topology topology, read_hwloc(hwloc, facts));
  topology.title = (path.has_filename() ? path : path.parent_path()).filename().string();
  return std::optional<Topology>(std::move(topology));
}

}  // namespace weft::topology
