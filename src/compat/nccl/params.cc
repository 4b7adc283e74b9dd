// The process's parameters, and encryption: what concerns no communicator.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/nccl_names.h"
#include "base/text.h"
#include "compat/nccl/config.h"

// A parameter is a variable of the environment that weft reads. Handles are never freed.
struct ncclParamHandle {
  std::string name;
};

namespace weft::compat::nccl {
namespace {

using Parameters = std::vector<ncclParamHandle>;

// NCCL's names first, then weft's own, but for those whose values are secrets.
const Parameters& parameters() {
  static const Parameters all = [] {
    Parameters made;
    for (const std::string_view name : env::nccl_names()) made.push_back({std::string(name)});
    for (const env::Variable& v : env::table())
      if (v.name.starts_with("WEFT_") && v.name != "WEFT_KEY" && v.name != "WEFT_JOIN")
        made.push_back({std::string(v.name)});
    return made;
  }();
  return all;
}

// Those that NCCL documents; with NCCL_PARAM_DUMP_ALL=true weft's, too.
std::vector<const ncclParamHandle*> listed() {
  const std::string wish = env::value_of("NCCL_PARAM_DUMP_ALL").value_or("");
  std::vector<const ncclParamHandle*> some;
  for (const ncclParamHandle& p : parameters())
    if (wish == "true" || wish == "1" || p.name.starts_with("NCCL_")) some.push_back(&p);
  return some;
}

const ncclParamHandle* find(const char* key) {
  const auto found = std::ranges::find(parameters(), std::string_view(key), &ncclParamHandle::name);
  return found == parameters().end() ? nullptr : &*found;
}

std::string value_of(const ncclParamHandle& parameter) { return env::value_of(parameter.name).value_or(""); }

ncclResult_t unknown(const char* function, const char* key) {
  return refuse(ncclInvalidArgument, "{}: '{}' is no parameter that weft knows", function, shown(key));
}

template <class T>
ncclResult_t read_number(const ncclParamHandle* parameter, T* value) {
  if (parameter == nullptr || value == nullptr) return refuse(ncclInvalidArgument, "ncclParamGet: null");
  const std::string text = value_of(*parameter);
  if (text.empty()) return refuse(ncclInvalidUsage, "{} is not set: weft chooses", parameter->name);
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    *value = number;
    return ncclSuccess;
  }
  return refuse(ncclInvalidArgument, "{}={} is no whole number from {} to {}", parameter->name, shown(text),
                std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

}  // namespace
}  // namespace weft::compat::nccl

using namespace weft::compat::nccl;

WEFT_NCCL_DEFINE(ncclResult_t, ParamBind, (ncclParamHandle_t * parameter, const char* key)) {
  if (parameter == nullptr || key == nullptr) return refuse(ncclInvalidArgument, "ncclParamBind: null");
  const ncclParamHandle* const found = find(key);
  if (found == nullptr) return unknown("ncclParamBind", key);
  *parameter = const_cast<ncclParamHandle*>(found);
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, ParamGetI8, (ncclParamHandle_t p, int8_t* value)) { return read_number(p, value); }
WEFT_NCCL_DEFINE(ncclResult_t, ParamGetI16, (ncclParamHandle_t p, int16_t* value)) { return read_number(p, value); }
WEFT_NCCL_DEFINE(ncclResult_t, ParamGetI32, (ncclParamHandle_t p, int32_t* value)) { return read_number(p, value); }
WEFT_NCCL_DEFINE(ncclResult_t, ParamGetI64, (ncclParamHandle_t p, int64_t* value)) { return read_number(p, value); }
WEFT_NCCL_DEFINE(ncclResult_t, ParamGetU8, (ncclParamHandle_t p, uint8_t* value)) { return read_number(p, value); }
WEFT_NCCL_DEFINE(ncclResult_t, ParamGetU16, (ncclParamHandle_t p, uint16_t* value)) { return read_number(p, value); }
WEFT_NCCL_DEFINE(ncclResult_t, ParamGetU32, (ncclParamHandle_t p, uint32_t* value)) { return read_number(p, value); }
WEFT_NCCL_DEFINE(ncclResult_t, ParamGetU64, (ncclParamHandle_t p, uint64_t* value)) { return read_number(p, value); }

WEFT_NCCL_DEFINE(ncclResult_t, ParamGetStr, (ncclParamHandle_t parameter, const char** value)) {
  if (parameter == nullptr || value == nullptr) return refuse(ncclInvalidArgument, "ncclParamGetStr: null");
  thread_local std::string text;
  text = value_of(*parameter);
  *value = text.c_str();
  return ncclSuccess;
}

// The value's bytes, without a zero behind them.
WEFT_NCCL_DEFINE(ncclResult_t, ParamGet, (ncclParamHandle_t parameter, void* value, int room, int* size)) {
  if (parameter == nullptr || value == nullptr || size == nullptr)
    return refuse(ncclInvalidArgument, "ncclParamGet: null");
  const std::string text = value_of(*parameter);
  *size = static_cast<int>(text.size());
  if (room < *size)
    return refuse(ncclInvalidArgument, "ncclParamGet: {} has {} bytes, there is room for {}", parameter->name, *size,
                  room);
  std::memcpy(value, text.data(), text.size());
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, ParamGetParameter, (const char* key, const char** value, int* length)) {
  if (key == nullptr || value == nullptr) return refuse(ncclInvalidArgument, "ncclParamGetParameter: null");
  const ncclParamHandle* const found = find(key);
  if (found == nullptr) return unknown("ncclParamGetParameter", key);
  thread_local std::string text;
  text = value_of(*found);
  *value = text.c_str();
  if (length != nullptr) *length = static_cast<int>(text.size());
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, ParamGetAllParameterKeys, (const char*** keys, int* count)) {
  if (keys == nullptr || count == nullptr) return refuse(ncclInvalidArgument, "ncclParamGetAllParameterKeys: null");
  thread_local std::vector<const char*> table;
  table.clear();
  for (const ncclParamHandle* p : listed()) table.push_back(p->name.c_str());
  *keys = table.data();
  *count = static_cast<int>(table.size());
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(void, ParamDumpAll, (void)) {
  for (const ncclParamHandle* p : listed()) {
    const auto value = weft::env::value_of(p->name);
    fmt::print(stderr, "weft: {}{}\n", p->name, value ? "=" + weft::shown(*value) : " is not set");
  }
}

WEFT_NCCL_DEFINE(ncclResult_t, SetEncryption, (const ncclEncryptionConfig_t* config)) {
  if (config == nullptr || !is_initialized(config) || config->size < sizeof(ncclEncryptionConfig_t))
    return refuse(ncclInvalidArgument,
                  "ncclSetEncryption: the ncclEncryptionConfig_t is null or not initialized: begin with "
                  "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
  if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return ncclSuccess;
  if (config->mode == NCCL_ENCRYPTION_MODE_PSK)
    return refuse(ncclInvalidUsage,
                  "ncclSetEncryption: NCCL_ENCRYPTION_MODE_PSK: ranks of libnccl.so.2 share one machine's memory, so "
                  "nothing of theirs crosses a socket; WEFT_SECURE=encrypt is for weft's own communicators");
  return refuse(ncclInvalidArgument, "ncclSetEncryption: mode {}: there are NCCL_ENCRYPTION_MODE_NONE and _PSK",
                config->mode);
}
