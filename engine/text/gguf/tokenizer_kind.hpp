// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the kind of tokenizer that a GGUF's metadata names, without reading its vocabulary, to
// decide whether the file is supported. Pure.

#include <string_view>

#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

struct gguf_pipeline;

struct gguf_tokenizer_kind {
    std::string_view model;                   // tokenizer.ggml.model: gpt2, llama or gemma4
    const gguf_pipeline* pipeline = nullptr;  // of gpt2 only
};

/// `pre`: overrides tokenizer.ggml.pre; empty: as the file says. Errors: as tokenizer::from_gguf().
storage::result<gguf_tokenizer_kind> kind_of_gguf_tokenizer(const storage::gguf_view& metadata,
                                                            std::string_view pre);

}  // namespace semantic::engine
