// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts that are made to cost much: one construct again and again, deep nesting, very many names,
// very long ones, references to everything, and mutations of those. A language is given by its
// pieces, by kinds, so that most texts are well-formed: only then a parser gets past the first
// fault. The same seed makes the same texts.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::cost {

constexpr std::size_t input_bytes_max = 64 * 1024;

/// The pieces that may occur in one place. In a piece a backquote and the characters after it are
/// replaced: `*k pieces of kind k, one or more; `1k one of them; `# a number that counts up; `=
/// that number again; `% a number at random; `@ a name; `$ a long text; `` a backquote.
struct piece_kind {
    char letter;
    std::string_view separator;            // between several
    std::vector<std::string_view> pieces;  // the first has no piece in it
};

struct language {
    std::string_view frame;  // a piece around all of it
    std::vector<piece_kind> kinds;
};

class hostile_text {
  public:
    explicit hostile_text(const language& words) : words_(words) {}

    /// About as long as `bytes`, and never above input_bytes_max.
    std::string make(std::uint64_t seed, std::size_t bytes);
    /// Another text, made of one that was found to cost much: mostly no longer well-formed.
    std::string mutated(std::string text, std::uint64_t seed);

  private:
    /// In [0, count).
    std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }
    std::string written(std::string_view piece, std::size_t bytes, int depth);
    std::string listed(const piece_kind& kind, std::size_t bytes, int depth);
    std::string one(const piece_kind& kind, std::size_t bytes, int depth);
    std::string long_text(std::size_t bytes);
    const piece_kind& kind_of(char letter) const;

    const language& words_;
    std::mt19937_64 random_;
    std::size_t counted_ = 0;
    std::size_t names_ = 1;  // how many there are to choose from in this text
};

}  // namespace semantic::cost
