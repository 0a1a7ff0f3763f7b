// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of byte-level tokenizers that GGUF files name in tokenizer.ggml.pre. A GGUF holds the
// vocabulary and the merges; what its models do around these is known by that name alone.

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace semantic::engine {

/// One row: what the published tokenizer.json of these models says apart from vocabulary and
/// merges.
struct gguf_pipeline {
    std::vector<std::string_view> names;   // values of tokenizer.ggml.pre
    std::vector<std::string_view> splits;  // patterns of Split, behaviour Isolated, in order
    bool splits_words = false;             // ByteLevel cuts by its own pattern after them
    bool composes = false;                 // the normalizer is NFC
    bool ignore_merges = false;
    bool adds_bos = false;  // where tokenizer.ggml.add_bos_token is missing
    /// Added tokens that the published file does not mark special although they look so, and are
    /// control tokens in a GGUF. One that ends in * matches all that begin so.
    std::vector<std::string_view> plain{};

    boost::json::value normalizer() const;
    boost::json::value pre_tokenizer() const;
    bool is_plain(std::string_view token) const;
};
/// Null when the table has none of that name.
const gguf_pipeline* find_gguf_pipeline(std::string_view pre);
/// All names: "gpt-2, llama-bpe, ...".
std::string gguf_pipeline_names();

}  // namespace semantic::engine
