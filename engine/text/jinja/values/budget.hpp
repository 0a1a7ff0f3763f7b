// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a template may cost, and how anything that goes wrong ends its run.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace semantic::engine::jinja {

/// A position in a template's source; both from 1, columns in characters.
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

/// Leaves the parser and the interpreter as an exception; none leaves this folder. The first
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
    /// Statements and expressions, and what builtins do beyond constant work. A step takes about
    /// 50 ns, so these are some 30 ms.
    std::uint64_t steps = 500'000;
    std::size_t output_bytes = std::size_t{64} << 20;
    unsigned call_depth = 64;  // of macros
    /// Whether append() and pop() may change lists, which Hugging Face's sandbox forbids and some
    /// templates rely on. What is appended is no list and no dict, so that lists stay flat.
    bool lists_change = false;
};

// Of a template's source; Python's own parser refuses deeper nesting too.
constexpr std::size_t source_bytes_max = std::size_t{1} << 20;
constexpr unsigned syntax_depth_max = 150;
// Of lists in lists; what recurses through them recurses no deeper.
constexpr unsigned value_depth_max = 100;
// As Jinja's sandbox has it.
constexpr std::int64_t range_length_max = 100'000;
// Of one list or text.
constexpr std::size_t list_items_max = std::size_t{1} << 20;
constexpr std::size_t text_bytes_max = std::size_t{64} << 20;

/// Counts down what is left of a run's steps. Belongs to one run.
class budget {
  public:
    explicit budget(std::uint64_t steps) : left_(steps) {}
    void spend(std::uint64_t steps = 1) {
        if (steps > left_) fail("the template takes too many steps", error_kind::limit);
        left_ -= steps;
    }
    /// For work that is linear in `bytes` and does little with each.
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
