// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tokenizer of a model, from tokenizer.json or from a GGUF's metadata: text to token ids and
// back. Immutable after load; every method is safe from any thread.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/text_range.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {
struct gguf_view;
}

namespace semantic::engine {

using storage::token_id;

/// A special token that a text spells.
struct control_token {
    text_range where;  // its spelling, without white space that it takes
    token_id id;
};

class tokenizer {
  public:
    /// Blocks. `model`: a folder, whose tokenizer.json is read, or a GGUF file, as from_gguf().
    /// Errors: not_found, corrupt, incompatible (names the component that is not supported);
    /// bad_value for a `pre` with a folder.
    static storage::result<tokenizer> load(const std::string& model, std::string_view pre = {});
    static storage::result<tokenizer> parse(std::string_view tokenizer_json);
    /// The same ids as the tokenizer.json that the file was converted from. `pre`: what
    /// tokenizer.ggml.pre is taken for, one of gguf_pres(); empty: what the file says. Errors:
    /// corrupt, naming the key; incompatible, naming the key and what is not supported; bad_value,
    /// when `pre` is none of them or the file's tokenizer has no such thing.
    static storage::result<tokenizer> from_gguf(const storage::gguf_view& metadata,
                                                std::string_view pre = {});
    /// The values of tokenizer.ggml.pre that are known: "gpt-2, smollm, ...".
    static std::string gguf_pres();
    static bool is_gguf_pre(std::string_view name);
    tokenizer(tokenizer&&) noexcept;
    tokenizer& operator=(tokenizer&&) noexcept;
    ~tokenizer();

    /// Added tokens inside the text become their ids. `add_special`: also what the post-processor
    /// adds (BOS, ...). Invalid UTF-8 is encoded byte by byte where the model has bytes, else as
    /// the unknown token. Linear in the text's length.
    std::vector<token_id> encode(std::string_view text, bool add_special = false) const;
    /// The same, and for each token the byte offset of its end in `text` (never decreasing; the
    /// last is text.size()). `content`: ranges of `text`, in order and apart, in which no special
    /// token is found: what spells one there is text like any other.
    std::vector<token_id> encode(std::string_view text, std::vector<std::uint32_t>& token_ends,
                                 std::span<const text_range> content = {}) const;
    /// The special tokens that encode() finds in `text`, in order; not those that it writes for
    /// what the vocabulary lacks. Costs little compared with encode().
    std::vector<control_token> control_tokens(std::string_view text,
                                              std::span<const text_range> content) const;

    /// Raw bytes of one token (may be part of a UTF-8 character). Empty for an id outside the
    /// vocabulary.
    std::string_view bytes(token_id id) const;
    /// The bytes of all, invalid UTF-8 replaced by U+FFFD as the reference decoder does. Special
    /// tokens are kept as text unless skipped.
    std::string decode(const std::vector<token_id>& ids, bool skip_special = false) const;

    bool is_special(token_id id) const;  // an added token marked special
    /// Whether `id`, the token of `text` somewhere, is a special token that is spelled there:
    /// unknown characters and bytes have tokens, too, which may be marked special.
    bool is_control(token_id id, std::string_view text) const;
    /// Returns: the id of an added token or vocabulary entry spelled exactly so, or -1.
    token_id find(std::string_view token) const;
    int vocabulary() const noexcept;  // one past the largest id
    /// The most bytes of text that one token can spell; 0: any number. So a text's length gives the
    /// least number of its tokens.
    std::size_t bytes_per_token_max() const noexcept;

    /// True when tokenising `left` and `right` apart gives the same ids as tokenising them
    /// together: an added token ends `left` or begins `right`, or the splitter parts there whatever
    /// surrounds it and the merges do not cross. `content`: of both together, as encode()'s.
    bool is_safe_boundary(std::string_view left, std::string_view right,
                          std::span<const text_range> content = {}) const;

  private:
    struct impl;
    explicit tokenizer(std::unique_ptr<impl> state);
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine
