#include "machine/detect/record.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/job_text.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/text_file.h"
#include "base/xml_file.h"

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

Result<Topology> read_hwloc(const fs::path& file, const HostFacts& facts) {
  WEFT_TRY(const std::string text, read_text_file(file));
  const std::string name = file.filename().string();
  // hwloc says only that it failed; where the XML is none, this names the line.
  WEFT_TRY(const XmlFile xml, XmlFile::parse(name, text));
  if (std::string_view(xml.root().name()) != "topology")
    return bad_input("{}: <{}> where hwloc's <topology> is expected", xml.where(xml.root()), xml.root().name());
  // hwloc 2 reads the files of 1.x and 2.x, not of 3.x; its own error names no version.
  const std::string_view version = xml.root().attribute("version").value();
  const int major = version.empty() ? 1 : number_at(version, 0);
  const char* kind = xml.root().child("object").attribute("type").value();
  if (major > 2)
    return bad_input(
        "{}:1: a file of hwloc {}; libhwloc 2 reads 1.x and 2.x: lstopo --of xml --export-xml-flags v2 writes "
        "it for that",
        name, shown(version));
  if (!survives_reading(text, facts)) return bad_input("{}: libhwloc does not survive reading this file", name);
  auto topology = detect(RecordedHost(text), std::nullopt, Endpoints::kGpusOrCores, facts);
  if (!topology)
    return bad_input("{}:1: {} (a file of hwloc {}{})", name, topology.error().message,
                     version.empty() ? "1.x" : shown(version), kind[0] == 0 ? ", without <object>" : "");
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
