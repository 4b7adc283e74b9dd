#include "backend/backend_plugin.h"
#include "compat/nixl_plugin/engine.h"

// NIXL's plugin manager looks for these two functions in libplugin_WEFT.so.

extern "C" NIXL_PLUGIN_EXPORT nixlBackendPlugin* nixl_plugin_init() {
  static nixlBackendPlugin plugin{
      NIXL_PLUGIN_API_VERSION,
      [](const nixlBackendInitParams* init) -> nixlBackendEngine* {
        try {
          return new weft::nixl::Engine(*init);
        } catch (const std::exception& e) {
          NIXL_ERROR << "weft: " << e.what() << "\n";
          return nullptr;
        }
      },
      [](nixlBackendEngine* engine) { delete engine; },
      [] { return "WEFT"; },
      [] { return "0.1.0"; },
      [] {
        return nixl_b_params_t{{"key", ""}, {"listen", ""}, {"network", ""}};
      },
      [] {
        return weft::transfer::gpus() > 0 ? nixl_mem_list_t{DRAM_SEG, VRAM_SEG} : nixl_mem_list_t{DRAM_SEG};
      },
  };
  return &plugin;
}

extern "C" NIXL_PLUGIN_EXPORT void nixl_plugin_fini() {}
