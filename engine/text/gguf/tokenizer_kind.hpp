// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which kind of tokenizer a GGUF's metadata names, without its vocabulary: what decides whether it
// is read at all. Pure.

#include <string_view>

#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

struct gguf_pipeline;

struct gguf_tokenizer_kind {
    std::string_view model;                   // tokenizer.ggml.model: gpt2, llama or gemma4
    const gguf_pipeline* pipeline = nullptr;  // of gpt2 only
};

/// `pre`: what tokenizer.ggml.pre is taken for; empty: what the file says. Errors: as
/// tokenizer::from_gguf().
storage::result<gguf_tokenizer_kind> kind_of_gguf_tokenizer(const storage::gguf_view& metadata,
                                                            std::string_view pre);

}  // namespace semantic::engine
