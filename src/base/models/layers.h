#pragma once

#include <string>

#include "base/models/keys.h"
#include "base/models/model.h"

namespace weft::models {

// A family of data/models/families.json.
struct Family {
  std::string window, hybrid;
  bool half_ffn = false;
  int blocks = 1;  // of attention and dense MLP in a layer; experts stand in the first of them (LongCat: 2)
};

// Sizes that all layers of one file share.
struct Shared {
  Attention attention;   // of a layer without a window
  std::int64_t ffn = 0;  // width of a dense MLP
  std::int64_t layers = 0;
};

// Reads layer by layer; errors are kept in `keys`.
void read_layers(Keys& keys, const Family& family, const Shared& shared, Model& model);

// The recurrent mixer of a family's hybrid layers, and which layers have one.
Recurrent recurrent_mixer(Keys& keys, const std::string& hybrid, const Model& model, const Attention& attention);
Mixer mixer_of_layer(Keys& keys, const std::string& hybrid, std::int64_t layer, std::int64_t layers, Mixer attention);

// The letter of a layer in Nemotron-H's pattern: M Mamba 2, * attention, - MLP, E experts; 0: the file has no pattern.
char nemotron_letter(Keys& keys, std::int64_t layer);

}  // namespace weft::models
