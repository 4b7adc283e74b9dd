#include "base/report/doctor.h"

namespace weft::report {
namespace {

nlohmann::json to_json(const DoctorFact& fact) {
  return {{"file", fact.file}, {"line", fact.line}, {"rank", fact.rank},
          {"host", fact.host}, {"time", fact.time}, {"text", fact.text}};
}

nlohmann::json to_json(const std::vector<DoctorFinding>& findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const DoctorFinding& f : findings) {
    nlohmann::json evidence = nlohmann::json::array();
    for (const DoctorFact& fact : f.evidence) evidence.push_back(to_json(fact));
    list.push_back({{"id", f.id},
                    {"finding", f.finding},
                    {"role", f.role},
                    {"confidence", f.confidence},
                    {"ranks", f.ranks},
                    {"peer", f.peer},
                    {"parts", f.parts},
                    {"facts", f.facts},
                    {"evidence", evidence},
                    {"cost", f.cost},
                    {"remedy", f.remedy},
                    {"verify", f.verify},
                    {"refuted_by", f.refuted},
                    {"versions", f.versions}});
  }
  return list;
}

}  // namespace

nlohmann::json to_json(const DoctorReport& report) {
  nlohmann::json unknown = nlohmann::json::array();
  for (const auto& one : report.unknown) {
    nlohmann::json fact = to_json(one.fact);
    fact["severity"] = one.severity;
    unknown.push_back(std::move(fact));
  }
  nlohmann::json damaged = nlohmann::json::array();
  for (const auto& one : report.damaged)
    damaged.push_back({{"file", one.file}, {"rank", one.rank}, {"text", one.text}});
  return {{"schema", "weft.doctor/1"},
          {"verdict", report.verdict},
          {"roots", to_json(report.roots)},
          {"slow", to_json(report.slow)},
          {"folded", to_json(report.folded)},
          {"culprits", report.culprits},
          {"victims", report.victims},
          {"unknown", std::move(unknown)},
          {"unknown_lines", report.unknown_lines},
          {"damaged", std::move(damaged)},
          {"peer", report.peer},
          {"troubled", report.troubled},
          {"next", report.next},
          {"files", report.files},
          {"lines", report.lines},
          {"not_understood", report.not_understood},
          {"left_out", report.left_out},
          {"notes", report.notes}};
}

}  // namespace weft::report
