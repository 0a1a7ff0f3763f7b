// SPDX-License-Identifier: Apache-2.0
// Multiples of a number. A decimal with k digits after its point is a whole number of units of
// 10^-k, so it is a multiple of n * 10^-k if its digits, read as a whole number, are divisible by
// n. The grammar reads the digits and keeps the remainder.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr std::size_t whole_digits_max = 15;
constexpr std::size_t fraction_digits_max = 3;  // of a step: 10^18 is a 64-bit number
constexpr std::int64_t divisor_max = 256;
constexpr std::int64_t listed_max = 1000;

struct step_size {
    std::int64_t divisor = 1;
    int digits = 0;         // after the point
    std::size_t zeros = 0;  // of the divisor, taken from its end
};

std::int64_t power_of_ten(int exponent) {
    std::int64_t power = 1;
    for (int i = 0; i < exponent; ++i) power *= 10;
    return power;
}

// `text`: [-]digits[.digits], without its sign and point.
struct decimal {
    bool is_negative = false;
    std::string whole, fraction;
    explicit decimal(std::string_view text) {
        is_negative = text.starts_with('-');
        if (is_negative) text.remove_prefix(1);
        const std::size_t point = std::min(text.find('.'), text.size());
        whole = text.substr(0, point);
        if (point < text.size()) fraction = text.substr(point + 1);
        while (fraction.ends_with('0')) fraction.pop_back();
    }
};

[[noreturn]] void refuse(const std::string& step) {
    throw unsupported_schema("'multipleOf' " + step + " with these bounds is not supported");
}

// The bound in units of 10^-digits, rounded to the inside of the range; nothing if it has too many
// digits.
std::optional<std::int64_t> scaled(const std::string& text, bool excluded, bool is_least,
                                   int digits) {
    const decimal bound(text);
    if (bound.whole.size() > whole_digits_max) return std::nullopt;
    std::string padded =
        bound.fraction.substr(0, std::min(bound.fraction.size(), static_cast<std::size_t>(digits)));
    const bool is_exact = padded.size() == bound.fraction.size();
    padded.resize(static_cast<std::size_t>(digits), '0');
    std::int64_t value = std::stoll(bound.whole + padded);
    if (bound.is_negative) value = -value;
    // The digits that were cut off made the number nearer to zero.
    if (is_exact ? excluded : bound.is_negative != is_least) value += is_least ? 1 : -1;
    return value;
}

class multiple_digits {
  public:
    multiple_digits(grammar_builder& out, step_size step) : out_(out), step_(step) {}

    symbol above_zero() { return out_.any_of(led_by_no_zero()); }
    symbol from_zero() {
        std::vector<sequence> ways = led_by_no_zero();
        ways.push_back(out_.literal("0") + (step_.digits > 0 ? behind_whole(0) : sequence{}));
        return out_.any_of(std::move(ways));
    }

  private:
    std::int64_t rest_after(std::int64_t rest, int digit) const {
        return (rest * 10 + digit) % step_.divisor;
    }
    // A digit from `first` on, followed by next(remainder).
    template <class Next>
    std::vector<sequence> digits(std::int64_t rest, int first, Next next) {
        std::map<std::int64_t, byte_set> ways;
        for (int digit = first; digit < 10; ++digit)
            ways[rest_after(rest, digit)].set(static_cast<std::size_t>('0' + digit));
        std::vector<sequence> out;
        for (const auto& [left, set] : ways) out.push_back({out_.bytes(set), next(left)});
        return out;
    }
    std::vector<sequence> led_by_no_zero() {
        return digits(0, 1, [&](std::int64_t left) { return whole(1, left); });
    }
    // What may follow `written` digits with the remainder `rest`. Each pair is one rule. Recursion
    // is at most whole_digits_max deep.
    symbol whole(std::size_t written, std::int64_t rest) {
        auto [known, is_new] = wholes_.try_emplace({written, rest});
        if (!is_new) return known->second;
        std::vector<sequence> ways;
        if (written + step_.zeros < whole_digits_max)
            ways = digits(rest, 0, [&](std::int64_t left) { return whole(written + 1, left); });
        ways.push_back(behind_whole(rest));
        return wholes_[{written, rest}] = out_.any_of(std::move(ways));
    }
    // Whether the number is a multiple if zeros take the place of the digits that are left.
    bool may_end(int written, std::int64_t rest) const {
        return rest * power_of_ten(step_.digits - written) % step_.divisor == 0;
    }
    // The end of the digits before the point: the divisor's zeros, or a point and more digits.
    sequence behind_whole(std::int64_t rest) {
        std::vector<sequence> ways;
        if (may_end(0, rest)) ways.push_back(out_.literal(std::string(step_.zeros, '0')));
        if (step_.digits > 0)
            for (sequence& way : fraction_digits(0, rest)) ways.push_back(out_.literal(".") + way);
        return {out_.any_of(std::move(ways))};
    }
    std::vector<sequence> fraction_digits(int written, std::int64_t rest) {
        return digits(rest, 0, [&](std::int64_t left) {
            std::vector<sequence> ways;
            if (written + 1 < step_.digits) ways = fraction_digits(written + 1, left);
            if (may_end(written + 1, left)) ways.emplace_back();
            return out_.any_of(std::move(ways));
        });
    }

    grammar_builder& out_;
    const step_size step_;
    std::map<std::pair<std::size_t, std::int64_t>, symbol> wholes_;
};

std::string text_of(std::int64_t value, int digits) {
    std::string text = std::to_string(value < 0 ? -value : value);
    const auto decimals = static_cast<std::size_t>(digits);
    if (text.size() <= decimals) text.insert(0, decimals + 1 - text.size(), '0');
    if (digits > 0) {
        text.insert(text.size() - decimals, ".");
        while (text.ends_with('0')) text.pop_back();
        if (text.ends_with('.')) text.pop_back();
    }
    return value < 0 ? "-" + text : text;
}

symbol listed(grammar_builder& out, std::int64_t least, std::int64_t most, step_size step,
              const std::string& shown) {
    // Below 0 the remainder is negative, so taking it away rounds up.
    const std::int64_t over = least % step.divisor;
    std::int64_t first = least - over + (over > 0 ? step.divisor : 0);
    if (first <= most && (most - first) / step.divisor >= listed_max) refuse(shown);
    std::vector<sequence> ways;
    for (; first <= most; first += step.divisor)
        ways.push_back(out.literal(text_of(first, step.digits)));
    return out.any_of(std::move(ways));
}

}  // namespace

symbol multiples_in_range(grammar_builder& out, const number_range& range,
                          const std::string& step) {
    const decimal parsed(step);
    if (parsed.whole.size() + parsed.fraction.size() > whole_digits_max) refuse(step);
    step_size size{std::stoll(parsed.whole + parsed.fraction),
                   static_cast<int>(parsed.fraction.size())};
    if (parsed.is_negative || size.divisor <= 0)
        throw unsupported_schema("'multipleOf' is not above 0: " + step);
    if (size.divisor == 1) {
        number_range coarser = range;
        coarser.fraction_digits = std::min(range.fraction_digits, size.digits);
        return numbers_in_range(out, coarser);
    }
    if (parsed.fraction.size() > fraction_digits_max ||
        (size.digits > 0 && range.fraction_digits == 0))
        refuse(step);
    std::optional<std::int64_t> least, most;
    if (!range.least.empty()) least = scaled(range.least, range.least_excluded, true, size.digits);
    if (!range.most.empty()) most = scaled(range.most, range.most_excluded, false, size.digits);
    if (least && most) return listed(out, *least, *most, size, step);
    for (; size.digits == 0 && size.divisor % 10 == 0; size.divisor /= 10) ++size.zeros;
    // Bounds of too many digits are not set here: they allow every number, or (`is_far`) none.
    const bool is_far = (!least && !range.least.empty() && !range.least.starts_with('-')) ||
                        (!most && range.most.starts_with('-'));
    // The lower bound may only be 0, or 1: above 0.
    if (is_far || most || size.divisor > divisor_max || (least && (*least < 0 || *least > 1)))
        refuse(step);
    multiple_digits digits(out, size);
    if (!least) {
        const symbol some = digits.from_zero();
        return out.any_of({{some}, out.literal("-") + some});
    }
    if (*least == 0) return digits.from_zero();
    if (size.digits > 0) refuse(step);
    return digits.above_zero();
}

}  // namespace semantic::engine
