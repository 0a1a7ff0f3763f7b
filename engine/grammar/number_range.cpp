// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>

#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;

constexpr std::size_t side_digits_max = 15;  // on each side of the point

// A decimal without sign: the digits before and after its point.
struct magnitude {
    std::string whole = "0", fraction;
    bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// `text`: [-]digits[.digits], as the caller prints a bound. Throws unsupported_schema for too many
// digits after the point.
magnitude parse(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    std::size_t point = std::min(text.find('.'), text.size());
    magnitude out{std::string(text.substr(0, point)), {}};
    if (point < text.size()) out.fraction = text.substr(point + 1);
    while (out.fraction.ends_with('0')) out.fraction.pop_back();
    if (out.fraction.size() > side_digits_max)
        throw unsupported_schema("the bound " + std::string(text) +
                                 " has more than 15 digits behind its point");
    return out;
}

struct limit {
    magnitude at;
    bool excluded = false;
};

// Writes the numbers between two bounds digit by digit. `low`, `high`: the digits so far equal
// those of the lower (upper) bound, so that the next digit must not be smaller (greater) than the
// bound's.
class decimal_digits {
  public:
    decimal_digits(grammar_builder& out, const limit& least, const std::optional<limit>& most,
                   int fraction_digits)
        : out_(out),
          least_(least),
          most_(most),
          fraction_digits_(static_cast<std::size_t>(fraction_digits)) {}

    /// The rule of all these numbers: a way for each count of digits before the point.
    symbol all() {
        std::vector<grammar::sequence> ways;
        std::size_t longest = most_ ? most_->at.whole.size() : side_digits_max;
        for (std::size_t size = least_.at.whole.size(); size <= longest; ++size)
            ways.push_back({whole(size, 0, size == least_.at.whole.size(),
                                  most_ && size == most_->at.whole.size())});
        return out_.any_of(std::move(ways));
    }

  private:
    symbol digit(int first, int last) {
        byte_set set;
        for (int d = first; d <= last; ++d) set.set(static_cast<std::size_t>('0' + d));
        return out_.bytes(set);
    }
    static int digit_of(const std::string& text, std::size_t at) {
        return at < text.size() ? text[at] - '0' : 0;
    }

    // The ways to write one digit within the bounds, followed by rest(low, high).
    template <class Rest>
    void each_digit(std::vector<grammar::sequence>& ways, int from, int to, bool low, bool high,
                    Rest rest) {
        if (from > to) return;
        if (low && high && from == to) {
            ways.push_back({digit(from, from), rest(true, true)});
            return;
        }
        if (low) ways.push_back({digit(from, from), rest(true, false)});
        int first = from + (low ? 1 : 0);
        int last = to - (high ? 1 : 0);
        if (first <= last) ways.push_back({digit(first, last), rest(false, false)});
        if (high) ways.push_back({digit(to, to), rest(false, true)});
    }

    symbol whole(std::size_t size, std::size_t at, bool low, bool high) {
        if (at == size) return behind_point(0, low, high);
        int from = low ? digit_of(least_.at.whole, at) : (at == 0 && size > 1 ? 1 : 0);
        int to = high ? digit_of(most_->at.whole, at) : 9;
        std::vector<grammar::sequence> ways;
        each_digit(ways, from, to, low, high,
                   [&](bool l, bool h) { return whole(size, at + 1, l, h); });
        return out_.any_of(std::move(ways));
    }

    static bool all_zero_from(const std::string& text, std::size_t at) {
        return at >= text.size() || text.find_first_not_of('0', at) == std::string::npos;
    }
    bool may_end(std::size_t written, bool low, bool high) const {
        if (low && (least_.excluded || !all_zero_from(least_.at.fraction, written))) return false;
        return !high || !most_->excluded || !all_zero_from(most_->at.fraction, written);
    }

    /// The rule of a fraction's further digits after `written` of them. `low`, `high`: whether the
    /// digits so far are those of the least or of the greatest number, so that the next digit is
    /// bounded by it.
    symbol behind_point(std::size_t written, bool low, bool high) {
        if (!low && !high) return free_fraction(written);
        std::vector<grammar::sequence> ways;
        if (may_end(written, low, high)) ways.emplace_back();
        if (written < fraction_digits_) {
            int from = low ? digit_of(least_.at.fraction, written) : 0;
            int to = high ? digit_of(most_->at.fraction, written) : 9;
            std::vector<grammar::sequence> digits;
            each_digit(digits, from, to, low, high,
                       [&](bool l, bool h) { return behind_point(written + 1, l, h); });
            for (auto& way : digits)
                ways.push_back(written == 0 ? out_.literal(".") + way : std::move(way));
        }
        return out_.any_of(std::move(ways));
    }

    symbol free_fraction(std::size_t written) {
        if (fraction_digits_ == 0) return out_.any_of({{}});
        int left = static_cast<int>(fraction_digits_ - written);
        if (written > 0) return out_.repeat({digit(0, 9)}, 0, left);
        return out_.any_of({{}, out_.literal(".") + out_.repeat({digit(0, 9)}, 1, left)});
    }

    grammar_builder& out_;
    limit least_;
    std::optional<limit> most_;
    std::size_t fraction_digits_;
};

// The bound as a limit; nothing if all numbers of side_digits_max digits satisfy it. Throws
// unsupported_schema if none does.
std::optional<limit> bound_of(const std::string& text, bool excluded, bool is_least) {
    if (text.empty()) return std::nullopt;
    limit bound{parse(text), excluded};
    if (bound.at.whole.size() <= side_digits_max) return bound;
    if (text.starts_with('-') != is_least)
        throw unsupported_schema("the bound " + text + " leaves no number of at most 15 digits");
    return std::nullopt;
}

}  // namespace

symbol numbers_in_range(grammar_builder& out, const number_range& range) {
    std::optional<limit> least = bound_of(range.least, range.least_excluded, true);
    std::optional<limit> most = bound_of(range.most, range.most_excluded, false);
    auto negative = [](const std::string& text, const std::optional<limit>& bound) {
        return bound && text.starts_with('-') && !bound->at.is_zero();
    };
    bool least_below = !least || negative(range.least, least);
    bool most_below = negative(range.most, most);
    limit zero;
    std::vector<grammar::sequence> ways;
    auto digits = [&](const limit& from, const std::optional<limit>& to) {
        return decimal_digits(out, from, to, range.fraction_digits).all();
    };
    // Negative numbers are written by magnitude, with the bounds exchanged; zero has no sign.
    if (least_below)
        ways.push_back(out.literal("-") + digits(most_below ? *most : limit{{}, true}, least));
    if (!most_below) ways.push_back({digits(least_below ? zero : *least, most)});
    return out.any_of(std::move(ways));
}

}  // namespace semantic::engine
