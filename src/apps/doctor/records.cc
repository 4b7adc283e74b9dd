#include "apps/doctor/records.h"

#include "apps/doctor/line.h"
#include "base/text.h"

namespace weft::doctor {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

}  // namespace

int blamed_by_weft(std::string_view line) {
  if (line.find(" called ") != std::string_view::npos) return -1;  // two ranks that differ
  for (const std::string_view word : {" has ended", "aborted", "waited "})
    if (line.find(word) != std::string_view::npos) {
      const auto last = line.rfind("rank ");
      return last == std::string_view::npos ? -1 : number_behind(line.substr(last), "rank ");
    }
  return -1;
}

const std::string* Records::add(const std::string& file, const nlohmann::json& document) {
  const auto text = [&](const char* key) {
    const auto at = document.find(key);
    return at != document.end() && at->is_string() ? at->get_ptr<const std::string*>() : nullptr;
  };
  const auto number = [&](const char* key) {
    const auto at = document.find(key);
    return at != document.end() && at->is_number_integer() ? at->get<std::int64_t>() : -1;
  };
  const std::string* const schema = document.is_object() ? text("schema") : nullptr;
  const std::string *const job = text("job"), *const communicator = text("communicator"), *const error = text("error");
  if (schema == nullptr || *schema != "weft.record/1" || job == nullptr || communicator == nullptr || error == nullptr)
    return nullptr;
  Communicator& of = communicators_[{*job, *communicator}];
  of.file = file;
  of.error = *error;
  of.ranks = std::max(of.ranks, std::min(number("ranks"), kMostRanks));
  of.recorded.insert(number("rank"));
  return error;
}

void Records::finish(const Finder& found) const {
  for (const auto& [name, of] : communicators_)
    for (std::int64_t rank = 0; rank < of.ranks; ++rank)
      if (!of.recorded.contains(rank))
        found("W40", {.file = of.file,
                      .text = fmt::format("weft: rank {} of {} left no record, {} of {} ranks did", rank,
                                          shown(name.second), of.recorded.size(), of.ranks),
                      .source = "weft",
                      .rank = static_cast<int>(rank)});
}

}  // namespace weft::doctor
