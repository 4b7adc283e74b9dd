#pragma once

#include "plan/schedule/exchange/document.h"

namespace weft::schedule {

// weft.schedule/1: a schedule without loss.
//   {"schema": "weft.schedule/1", "name": "ring", "collective": "all_gather", "ranks": 2, "root": 0, "chunks": 2,
//    "scratch": 0, "lanes": 1, "slots": 2, "in_place": true, "out_of_place": true,
//    "strands": [[{"move": 0, "from": [{"in": 0}], "to": [{"out": 0}, {"peer": 1}]}, …], …], rank by rank, lane by lane
//    "orders": [[strand, step, lane, after], …]}
// Steps: {"move": CHUNK, "from": […], "to": […]}, {"signal": RANK}, {"wait": RANK}. Operands:
//   {"in": C}, {"out": C}, {"scratch": SLOT}    this rank's memory; with "of": RANK a peer's, by load and store; with
//                                               "of": [FIRST, COUNT, STRIDE] all of a group's, through a switch
//   {"peer": RANK}                              a message; "lane": L names another lane's connection, "more": true says
//                                               that the same message goes on
//   {"group": [FIRST, COUNT, STRIDE]}           an aggregation; "lane" as above
std::string to_schedule_json(const Document& document);

// Errors (bad input): "name: strand 3 step 4: …". Bounded in time and memory by `limits`. Whether the schedule is right
// is for prove() to say.
Result<Document> parse_schedule_json(std::string_view name, std::string_view text);

}  // namespace weft::schedule
