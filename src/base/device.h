#pragma once

#include "weft/device_mark.h"  // WEFT_DEVICE: for the interpreter, which kernels of an application share
