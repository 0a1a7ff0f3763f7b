#pragma once
// Texts that are made to cost much: one construct again and again, deep nesting, very many names,
// very long ones, references to everything, and whatever mutation makes of those. A language is
// given by its pieces. The same seed makes the same texts.

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::cost {

constexpr std::size_t input_bytes_max = 64 * 1024;

/// In its pieces, "#" is a number that counts up, "%" a number at random, "@" a name, "$" a long
/// text, "~" other pieces one behind another and "^" one other piece.
struct language {
    std::string_view frame;  // around all of it
    std::string_view separator;
    std::vector<std::string_view> pieces;
};

class hostile_text {
  public:
    hostile_text(const language& words, unsigned seed) : words_(words), random_(seed) {}

    /// At most `bytes_max` bytes, or a little more.
    std::string make(std::size_t bytes_max);
    /// Another text, made of one that was found to cost much.
    std::string mutated(std::string text, std::size_t bytes_max);
    /// In [0, count).
    std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }

  private:
    std::string written(std::string_view piece, std::size_t bytes, int depth);
    std::string filled(std::size_t bytes, int depth);
    std::string_view any_piece() { return words_.pieces[below(words_.pieces.size())]; }

    const language& words_;
    std::mt19937 random_;
    std::size_t counted_ = 0;
    std::size_t names_ = 1;  // how many there are to choose from in this text
};

}  // namespace semantic::cost
