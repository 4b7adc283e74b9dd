#include <nvtx3/nvToolsExt.h>

#include <cstdio>

// A tool as NVTX loads it by NVTX_INJECTION64_PATH: prints the ranges of domains to stderr.
namespace {

nvtxRangeId_t start(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  std::fprintf(stderr, "nvtx begins: %s\n", attributes->message.ascii);
  return 42;
}
void end(nvtxDomainHandle_t, nvtxRangeId_t range) {
  std::fprintf(stderr, "nvtx ends: %llu\n", static_cast<unsigned long long>(range));
}
nvtxDomainHandle_t create(const char* name) {
  std::fprintf(stderr, "nvtx domain: %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(1);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(start);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
  return 1;
}
