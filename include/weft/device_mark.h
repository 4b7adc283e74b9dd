#pragma once

// Text that is compiled twice, for the host and for a GPU's kernels: the CUDA compiler sees device functions, any other
// compiler ordinary ones. What is constexpr needs no mark.
#ifdef __CUDACC__
#define WEFT_DEVICE __device__
#else
#define WEFT_DEVICE
#endif
