// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates the metadata of hybrid architectures, which have recurrent layers, into their
// config.json. Used by gguf_config.cpp only. Owner: the reader, on its stack. Thread: one.

#include <boost/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model/config/gguf_fields.hpp"

namespace semantic::engine {

/// Whether the family has recurrent layers.
bool is_hybrid_type(std::string_view model_type);

/// Adds the factors of embedding, residual stream, scores and logits, by their names in Granite's
/// config.json.
void read_multipliers(gguf_fields& keys, boost::json::object& config);

class gguf_hybrid {
  public:
    /// All references must outlive this. `config`: has the sizes of the model and its heads
    /// already; read() adds the fields of hybrids.
    gguf_hybrid(gguf_fields& keys, std::string_view model_type, std::size_t layers,
                boost::json::object& config)
        : keys_(keys), type_(model_type), layers_(layers), config_(config) {}

    void read();

  private:
    void read_layers();
    void read_short_convolution();
    void read_delta_rule();
    void read_state_space();
    void read_mixture();
    bool attends(std::size_t layer) const { return kv_heads_[layer] > 0; }

    gguf_fields& keys_;
    const std::string_view type_;
    const std::size_t layers_;
    boost::json::object& config_;
    std::vector<std::int64_t> kv_heads_, widths_;  // by layer; widths of the feed-forward part
};

}  // namespace semantic::engine
