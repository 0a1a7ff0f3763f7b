// SPDX-License-Identifier: Apache-2.0
#pragma once
// The limits of a template's run, and the exception that ends a run when something goes wrong.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace semantic::engine::jinja {

/// A position in a template's source; line and column count from 1, columns in characters.
struct position {
    unsigned line = 1;
    unsigned column = 1;
};

enum class error_kind {
    syntax,   // the source is no template
    raised,   // the template called raise_exception
    runtime,  // an undefined value used, a type that does not fit, an unknown filter ...
    limit,    // it takes too many steps, goes too deep or writes too much
};

/// The exception of the parser and the interpreter; it is caught within this folder. The first
/// function that knows the position fills it in.
struct stopped {
    error_kind kind;
    std::string message;
    position at{};
    bool placed = false;
};

[[noreturn]] inline void fail(std::string message, error_kind kind = error_kind::runtime) {
    throw stopped{kind, std::move(message)};
}

struct limits {
    /// Statements, expressions, and work of builtins that is not constant. A step takes about 50
    /// ns, so these are some 30 ms.
    std::uint64_t steps = 500'000;
    std::size_t output_bytes = std::size_t{64} << 20;
    unsigned call_depth = 64;  // of macros
    /// Whether append() and pop() may change lists, which Hugging Face's sandbox forbids but some
    /// templates need. Lists and dicts cannot be appended, so lists stay flat.
    bool lists_change = false;
};

// Limits of a template's source.
constexpr std::size_t source_bytes_max = std::size_t{1} << 20;
constexpr unsigned syntax_depth_max = 150;
// The deepest nesting of values; recursion through values is no deeper.
constexpr unsigned value_depth_max = 100;
// The longest range(), as in Jinja's sandbox.
constexpr std::int64_t range_length_max = 100'000;
// The most items of one list, or bytes of one text.
constexpr std::size_t list_items_max = std::size_t{1} << 20;
constexpr std::size_t text_bytes_max = std::size_t{64} << 20;

/// Counts down the steps that are left of a run. Belongs to one run.
class budget {
  public:
    explicit budget(std::uint64_t steps) : left_(steps) {}
    void spend(std::uint64_t steps = 1) {
        if (steps > left_) fail("the template takes too many steps", error_kind::limit);
        left_ -= steps;
    }
    /// For cheap work that is linear in `bytes`, such as copying.
    void spend_bytes(std::size_t bytes) { spend(1 + bytes / 64); }
    /// For a new text of so many bytes.
    void spend_text(std::size_t bytes) {
        if (bytes > text_bytes_max) fail("a text grows too long", error_kind::limit);
        spend_bytes(bytes);
    }
    /// For a text that grows by `added` to `total` bytes.
    void spend_growth(std::size_t total, std::size_t added) {
        if (total > text_bytes_max) fail("a text grows too long", error_kind::limit);
        spend_bytes(added);
    }
    /// For work with each character of so many bytes.
    void spend_characters(std::size_t bytes) {
        spend_text(bytes);
        spend(bytes / 2);
    }
    /// For a new list of so many items.
    void spend_items(std::size_t items) {
        if (items > list_items_max) fail("a list grows too long", error_kind::limit);
        spend(1 + items / 4);
    }

  private:
    std::uint64_t left_;
};

}  // namespace semantic::engine::jinja
