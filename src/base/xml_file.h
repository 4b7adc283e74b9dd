#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft {

// Text of others for XML, SVG and HTML, within elements and in attributes between double or single quotes. Control
// characters, which XML does not allow, and bytes that are no UTF-8 become \x1b as in shown().
std::string xml_escaped(std::string_view text);

// A parsed XML text that knows the line of everything in it.
class XmlFile {
 public:
  // Errors (bad input): "name:12: …" when it is not XML.
  static Result<XmlFile> parse(std::string_view name, std::string_view text);

  pugi::xml_node root() const { return document_.document_element(); }
  // "name:12", for messages.
  std::string where(pugi::xml_node node) const;
  std::int64_t line(pugi::xml_node node) const { return line_of(node.offset_debug()); }

  // A whole number in [low, high] of an attribute, or `fallback` when it is missing or empty.
  // Errors (bad input): "name:12: link_width '99' …".
  Result<std::int64_t> integer(pugi::xml_node node, const char* attribute, std::int64_t low, std::int64_t high,
                               std::int64_t fallback) const;

 private:
  std::string name_;
  std::vector<std::ptrdiff_t> line_starts_;
  pugi::xml_document document_;

  std::int64_t line_of(std::ptrdiff_t offset) const;
};

}  // namespace weft
