#pragma once

#include "plan/schedule/algorithm.h"
#include "plan/schedule/exchange/document.h"

namespace weft::schedule {

// A schedule that was read, as an algorithm, for what it was written for. The orders between a rank's lanes become
// signals between them. Requires: check(document.schedule), and a proof.
Algorithm to_algorithm(std::shared_ptr<const Document> document);

// Does this name of an algorithm name a file with a schedule, by its ending .xml or .json?
bool names_file(std::string_view name);

// Errors (bad input): of the reader, by the file's ending: MSCCL XML or weft.schedule/1.
Result<Document> read_document(const std::string& file);

// The name, which ends in .json, stands for this text of weft.schedule/1 from here on, wherever a file may be named,
// until the process ends. A name keeps its text. Thread: any. Errors (bad input): another ending; the
// name stands for another text; of the reader.
Status name_schedule(const std::string& name, std::string text);

// Reads a file, proves it, and keeps it as an algorithm until the process ends; later changes of the file are not seen.
// Thread: any. Errors (bad input): of the reader; the proof's counterexample, with its place in the file.
Result<const Algorithm*> written_algorithm(std::string_view file);

}  // namespace weft::schedule
