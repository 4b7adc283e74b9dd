#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "base/text_file.h"
#include "model/accuracy/measured.h"

namespace weft::accuracy {

Result<std::vector<Table>> tables_of(const std::filesystem::path& folder, std::vector<std::string>& unknown) {
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem)) return bad_input("{} is not a folder", shown(folder.string()));
  const bool own = std::filesystem::exists(folder / kTableList, problem);
  std::string list;
  if (own) {
    WEFT_TRY(list, read_text_file(folder / kTableList));
  } else {
    list = shipped_list();
  }
  const auto text_of = [&](const std::string& file) -> Result<std::optional<std::string>> {
    std::error_code absent;
    if (!std::filesystem::exists(folder / file, absent)) return std::nullopt;
    WEFT_TRY(std::string text, read_text_file(folder / file));
    return text;
  };
  std::set<std::string> described;
  WEFT_TRY(auto tables,
           tables_in(own ? (folder / kTableList).string() : std::string(kTableList), list, text_of, &described));
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (entry->path().extension() == ".csv" && !described.contains(entry->path().filename().string()))
      unknown.push_back(entry->path().filename().string());
  if (problem) return bad_input("{}: {}", shown(folder.string()), problem.message());
  std::ranges::sort(unknown);
  return tables;
}

}  // namespace weft::accuracy
