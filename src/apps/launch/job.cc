#include "apps/launch/job.h"

#include <nlohmann/json.hpp>

namespace weft::launch {
namespace {

using nlohmann::json;

// Bytes of environments and arguments need not be UTF-8, so they are written as Latin-1, which any byte is.
std::string latin(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string bytes_of(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0xc0 && i + 1 < text.size())
      bytes += static_cast<char>((byte & 0x03) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    else
      bytes += text[i];
  }
  return bytes;
}

// Calls read(json), whose exceptions mean a text of another version.
template <class Value, class Read>
Result<Value> parsed(const std::string& text, const Read& read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception& problem) {
    return failure(Code::kSystem, Blame::kInput, "the launcher and the agent do not understand each other: {}",
                   problem.what());
  }
}

}  // namespace

std::string HostJob::to_text() const {
  json words = json::array(), settings = json::object();
  for (const std::string& word : program) words.push_back(latin(word));
  for (const auto& [name, value] : environment) settings[latin(name)] = latin(value);
  return json{{"program", words},        {"folder", latin(folder)},
              {"environment", settings}, {"first", first},
              {"ranks", ranks},          {"size", size},
              {"opens", opens},          {"at", at}}
      .dump();
}

Result<HostJob> HostJob::parse(const std::string& text) {
  return parsed<HostJob>(text, [](const json& j) {
    HostJob job{.folder = bytes_of(j.at("folder")),
                .first = j.at("first"),
                .ranks = j.at("ranks"),
                .size = j.at("size"),
                .opens = j.at("opens"),
                .at = j.at("at")};
    for (const json& word : j.at("program")) job.program.push_back(bytes_of(word));
    for (const auto& [name, value] : j.at("environment").items())
      job.environment.emplace_back(bytes_of(name), bytes_of(value));
    return job;
  });
}

std::string Hello::to_text() const {
  return json{{"host", latin(host)}, {"client", client}, {"server", server}}.dump();
}

Result<Hello> Hello::parse(const std::string& text) {
  return parsed<Hello>(text, [](const json& j) {
    return Hello{.host = bytes_of(j.at("host")), .client = j.at("client"), .server = j.at("server")};
  });
}

std::string Place::to_text() const { return json{{"join", join}, {"arbiter", arbiter}}.dump(); }

Result<Place> Place::parse(const std::string& text) {
  return parsed<Place>(text, [](const json& j) { return Place{.join = j.at("join"), .arbiter = j.at("arbiter")}; });
}

std::string RankEnd::to_text() const { return json{{"code", code}, {"signal", signal}, {"last", latin(last)}}.dump(); }

Result<RankEnd> RankEnd::parse(const std::string& text) {
  return parsed<RankEnd>(text, [](const json& j) {
    return RankEnd{.code = j.at("code"), .signal = j.at("signal"), .last = bytes_of(j.at("last"))};
  });
}

}  // namespace weft::launch
