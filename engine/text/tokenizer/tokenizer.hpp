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

/// A special token that was recognised in a text.
struct control_token {
    text_range where;  // its spelling, without the white space that it includes
    token_id id;
};

class tokenizer {
  public:
    /// Blocks. `model`: a folder, whose tokenizer.json is read, or a GGUF file, see from_gguf().
    /// Errors: not_found, corrupt, incompatible (with the component that is not supported);
    /// bad_value for a `pre` with a folder.
    static storage::result<tokenizer> load(const std::string& model, std::string_view pre = {});
    static storage::result<tokenizer> parse(std::string_view tokenizer_json);
    /// The tokenizer of a GGUF, with the same ids as the tokenizer.json that it was converted from.
    /// `pre`: overrides tokenizer.ggml.pre, one of gguf_pres(); empty: as the file says. Errors:
    /// corrupt, with the key; incompatible, with the key and what is not supported; bad_value if
    /// `pre` is unknown, or if the file's tokenizer has no such setting.
    static storage::result<tokenizer> from_gguf(const storage::gguf_view& metadata,
                                                std::string_view pre = {});
    /// The values of tokenizer.ggml.pre that are known: "gpt-2, smollm, ...".
    static std::string gguf_pres();
    static bool is_gguf_pre(std::string_view name);
    tokenizer(tokenizer&&) noexcept;
    tokenizer& operator=(tokenizer&&) noexcept;
    ~tokenizer();

    /// Tokenises a text; added tokens in it become their ids. `add_special`: with the tokens that
    /// the post-processor adds (BOS, ...). Invalid UTF-8 is encoded byte by byte if the vocabulary
    /// has bytes, otherwise as the unknown token. Linear in the text's length.
    std::vector<token_id> encode(std::string_view text, bool add_special = false) const;
    /// Tokenises a text as encode(text), and writes the byte offset in `text` at which each token
    /// ends (ascending; the last is text.size()). `content`: ranges of `text`, ascending and not
    /// overlapping, in which no special token is recognised: its spelling is tokenised as other
    /// text.
    std::vector<token_id> encode(std::string_view text, std::vector<std::uint32_t>& token_ends,
                                 std::span<const text_range> content = {}) const;
    /// The special tokens that encode() recognises in `text`, in order; without those that it uses
    /// for characters that the vocabulary lacks. Much cheaper than encode().
    std::vector<control_token> control_tokens(std::string_view text,
                                              std::span<const text_range> content) const;

    /// The raw bytes of one token, which may be part of a UTF-8 character. Empty for an id outside
    /// the vocabulary.
    std::string_view bytes(token_id id) const;
    /// The text of several tokens; invalid UTF-8 becomes U+FFFD, as in the reference decoder.
    /// Special tokens are written as text unless `skip_special`.
    std::string decode(const std::vector<token_id>& ids, bool skip_special = false) const;

    bool is_special(token_id id) const;  // an added token marked special
    /// Whether a token `id` that was made of `text` is a control token that the text spells. The
    /// tokens of unknown characters and of bytes may be marked special, too, and are none.
    bool is_control(token_id id, std::string_view text) const;
    /// Returns: the id of an added token or vocabulary entry spelled exactly so, or -1.
    token_id find(std::string_view token) const;
    int vocabulary() const noexcept;  // one past the largest id
    /// The most bytes of text that one token can spell; 0: any number. A text has at least its
    /// length divided by this many tokens.
    std::size_t bytes_per_token_max() const noexcept;

    /// Whether tokenising `left` and `right` separately certainly gives the same ids as tokenising
    /// them together: an added token ends `left` or begins `right`, or the splitter cuts there
    /// whatever comes before. False if in doubt. `content`: as in encode(), for both together.
    bool is_safe_boundary(std::string_view left, std::string_view right,
                          std::span<const text_range> content = {}) const;

  private:
    struct impl;
    explicit tokenizer(std::unique_ptr<impl> state);
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine
