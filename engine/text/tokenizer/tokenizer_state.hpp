// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of a loaded tokenizer. For tokenizer*.cpp only.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/tokenizer/added_tokens.hpp"
#include "engine/text/tokenizer/bpe.hpp"
#include "engine/text/tokenizer/normalizer.hpp"
#include "engine/text/tokenizer/pre_tokenizer.hpp"
#include "engine/text/tokenizer/token_decoder.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"

namespace boost::json {
class value;
}

namespace semantic::engine {

struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
        return std::hash<std::string_view>{}(text);
    }
};
using token_map = std::unordered_map<std::string, token_id, text_hash, std::equal_to<>>;

// So many ids at most: an id beyond is taken for damage, before a table is made for it.
constexpr std::int64_t token_ids_max = std::int64_t{1} << 24;

struct tokenizer::impl {
    class encoding;
    class gguf_reading;

    static storage::result<std::unique_ptr<impl>> build(std::string_view tokenizer_json);

    // Reading tokenizer.json
    storage::result<void> read_pipeline(const boost::json::value& file);
    storage::result<void> read_model(const boost::json::value& model);
    storage::result<void> read_vocabulary(const boost::json::value& model);
    storage::result<void> read_merges(const boost::json::value& model);
    storage::result<void> read_added(const boost::json::value& file);
    storage::result<void> read_post_processor(const boost::json::value& json);
    storage::result<void> read_template(const boost::json::value& json);

    // Used for files of every kind
    void keep(token_id id, std::string spelling);
    void take_added(const added_token& token);
    /// The rule that merges two spellings; nothing if one of them, or their join, is not in the
    /// vocabulary. `joined`: scratch.
    std::optional<bpe_merges::rule> rule_of(std::string_view left, std::string_view right,
                                            std::string& joined) const;
    void finish();  // requires: everything is read
    void prepare_pieces();
    /// See tokenizer::bytes_per_token_max(). Requires: everything else is read.
    std::size_t widest_token() const;

    /// Whether the token is used for text that does not spell it: an unknown character, or a byte.
    bool stands_for_others(token_id id) const {
        return id == unknown ||
               std::find(fallback_ids.begin(), fallback_ids.end(), id) != fallback_ids.end();
    }

    /// A piece of a section of normalised text; an added token is one piece.
    struct piece {
        text_range where;
        token_id added = -1;
        bool operator==(const piece&) const = default;
    };
    std::vector<piece> pieces(std::string_view normalized) const;
    /// Whether a section that has `tail` and then `head` is cut between them, whatever comes before
    /// `tail`. `anchored`: the section begins with `tail`. `has_content`: parts may be content.
    bool parts(std::string_view tail, std::string_view head, bool anchored, bool has_content) const;

    // The model: vocabulary and merges.
    std::vector<std::string> spellings;        // by id; empty where the id is not used
    std::vector<std::string> raw;              // by id: its bytes
    std::vector<bool> special;                 // by id
    token_map model_ids;                       // spelling of the model's own entries
    token_map added_ids;                       // spelling of added tokens
    token_map whole_pieces;                    // bytes of entries, only where they win over merges
    std::array<token_id, 256> byte_ids{};      // byte-level: the entry of one byte, or -1
    std::array<token_id, 256> fallback_ids{};  // the entry spelled <0xNN>, or -1
    bpe_merges merges;
    token_id unknown = -1;       // -1: the model has none
    bool fuse_unknown = false;   // several in a row become one
    bool byte_fallback = false;  // characters that are missing are spelled by bytes
    bool ignore_merges = false;  // a piece that is an entry is not merged

    // The pipeline around it.
    normalizer normal;
    pre_tokenizer splitter;
    token_decoder decoder;
    added_token_finder added;              // searched in the text as it came
    added_token_finder added_normalized;   // searched in the normalised text
    std::vector<token_id> prefix, suffix;  // what the post-processor puts around a text
    std::size_t bytes_per_token_max = 0;   // see tokenizer::bytes_per_token_max()
};

}  // namespace semantic::engine
