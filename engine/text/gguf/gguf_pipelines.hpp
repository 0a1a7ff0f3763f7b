// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of the byte-level tokenizers that GGUF files name in tokenizer.ggml.pre. A GGUF has
// only the vocabulary and the merges; how text is normalised and split follows from this name.

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace semantic::engine {

/// One row: the settings in the published tokenizer.json of these models, without vocabulary and
/// merges.
struct gguf_pipeline {
    std::vector<std::string_view> names;   // values of tokenizer.ggml.pre
    std::vector<std::string_view> splits;  // patterns of Split, behaviour Isolated, in order
    bool splits_words = false;             // ByteLevel cuts by its own pattern after them
    bool composes = false;                 // the normalizer is NFC
    bool ignore_merges = false;
    bool adds_bos = false;  // default of tokenizer.ggml.add_bos_token
    /// Added tokens that are control tokens in a GGUF, but not special in the published file. A
    /// name that ends in * matches all tokens that begin with it.
    std::vector<std::string_view> plain{};

    boost::json::value normalizer() const;
    boost::json::value pre_tokenizer() const;
    bool is_plain(std::string_view token) const;
};
/// The row with this name; null if there is none.
const gguf_pipeline* find_gguf_pipeline(std::string_view pre);
/// All names: "gpt-2, llama-bpe, ...".
std::string gguf_pipeline_names();

}  // namespace semantic::engine
