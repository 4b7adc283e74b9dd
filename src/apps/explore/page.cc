#include <nlohmann/json.hpp>

#include "apps/explore/explore.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> explorer_files();
}

namespace weft::explore {
namespace {

std::string_view embedded_text(std::string_view file) {
  for (const embedded::File& f : embedded::explorer_files())
    if (f.path.ends_with(file)) return f.text;
  return {};
}

void replace(std::string& text, std::string_view mark, std::string_view by) {
  if (const std::size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), by);
}

}  // namespace

std::string page(const report::Explorer& report) {
  std::string html(embedded_text("index.html"));
  replace(html, "/*POLICY*/", kContentPolicy);
  replace(html, "/*STYLE*/", embedded_text("style.css"));
  replace(html, "/*CORE*/", embedded_text("weft.wasm.gz.base64"));
  replace(html, "/*WORKLOADS*/", embedded_text("workloads.wasm.gz.base64"));
  replace(html, "/*TOUR*/", embedded_text("tour.json"));
  replace(html, "/*WORKER*/", embedded_text("worker.js"));
  std::string scripts;  // core.js and explorer.js first, keys.js, which starts the page, last
  for (const char* file : {"core.js", "explorer.js", "machine.js", "map.js", "follow.js", "wiring.js", "weave.js",
                           "stepper.js", "scale.js", "sentence.js", "words.js", "curves.js", "training.js",
                           "serving.js", "export.js", "cliff.js", "tour_steps.js", "tour.js", "keys.js"})
    scripts += embedded_text(file);
  replace(html, "/*SCRIPT*/", scripts);
  // The data stand in a script element that is not executed; "<" is written as an escape, so that no text of a file
  // can end the element.
  std::string data = to_json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos; at += 6) data.replace(at, 1, "\\u003c");
  replace(html, "/*DATA*/", data);
  return html;
}

}  // namespace weft::explore
