// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/pre_tokenizer.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <string>

#include "engine/text/tokenizer/json_access.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

// What ByteLevel with use_regex cuts by.
constexpr std::string_view byte_level_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

bool pre_tokenizer::drops() const noexcept {
    return std::any_of(stages_.begin(), stages_.end(),
                       [](const stage& each) { return each.action == behavior::removed; });
}

result<void> pre_tokenizer::add_stage(std::string_view pattern, behavior action) {
    auto compiled = regex::compile(pattern);
    if (!compiled) return compiled.error();
    stages_.push_back({*compiled, action, false});
    return {};
}

/// Adds a stage of type Split. Errors: incompatible for a pattern or behavior that is not
/// supported.
result<void> pre_tokenizer::add_split(const boost::json::value& json) {
    auto pattern = parse_pattern(json, "pre_tokenizer Split");
    if (!pattern) return pattern.error();
    const std::string name = text_of(json, "behavior");
    behavior action = behavior::removed;
    if (name == "Isolated") {
        action = behavior::isolated;
    } else if (name == "MergedWithPrevious") {
        action = behavior::merged_with_previous;
    } else if (name == "MergedWithNext") {
        action = behavior::merged_with_next;
    } else if (name == "Contiguous") {
        action = behavior::contiguous;
    } else if (name != "Removed") {
        return failure{errc::incompatible,
                       "pre_tokenizer Split: behavior '" + name + "' is not supported"};
    }
    stages_.push_back({*pattern, action, flag_of(json, "invert", false)});
    return {};
}

/// Adds a stage of type ByteLevel, which works on bytes, puts a blank in front of the text unless
/// that is turned off, and splits words by its own pattern. Errors: incompatible.
result<void> pre_tokenizer::add_byte_level(const boost::json::value& json) {
    if (flag_of(json, "add_prefix_space", true)) {
        if (!stages_.empty()) {
            return failure{errc::incompatible,
                           "pre_tokenizer ByteLevel: add_prefix_space behind another "
                           "pre_tokenizer is not supported"};
        }
        adds_prefix_space_ = true;
    }
    byte_level_ = true;
    if (!flag_of(json, "use_regex", true)) return {};
    return add_stage(byte_level_pattern, behavior::isolated);
}

/// Adds one stage, or all of a Sequence; null adds none. Errors: incompatible; corrupt.
result<void> pre_tokenizer::add(const boost::json::value& json) {
    if (json.is_null()) return {};
    const std::string type = text_of(json, "type");
    if (byte_level_) {
        return failure{errc::incompatible,
                       "pre_tokenizer '" + type + "' behind ByteLevel is not supported"};
    }
    if (type == "Split") return add_split(json);
    if (type == "ByteLevel") return add_byte_level(json);
    if (type == "Digits") {
        const bool each = flag_of(json, "individual_digits", false);
        return add_stage("\\p{N}", each ? behavior::isolated : behavior::contiguous);
    }
    if (type == "Sequence") {
        const boost::json::array* parts = array_of(json, "pretokenizers");
        if (parts == nullptr) {
            return failure{errc::corrupt, "pre_tokenizer Sequence has no pretokenizers"};
        }
        for (const auto& part : *parts) {
            if (auto added = add(part); !added) return added;
        }
        return {};
    }
    return failure{errc::incompatible,
                   "pre_tokenizer of type '" + type +
                       "' is not supported (supported: Split, ByteLevel, Digits, Sequence)"};
}

result<pre_tokenizer> pre_tokenizer::parse(const boost::json::value& json) {
    pre_tokenizer made;
    if (auto added = made.add(json); !added) return added.error();
    return made;
}

/// Makes pieces of a text's matches and what is between them (`spans`), as the behavior says:
/// matches are dropped, stay alone, or join what is before or after them.
void pre_tokenizer::arrange(behavior action, const std::vector<span>& spans,
                            std::vector<text_range>& out) {
    const std::size_t first = out.size();
    const bool backwards = action == behavior::merged_with_next;
    bool previous_match = false;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const span& s = spans[backwards ? spans.size() - 1 - i : i];
        const bool has_last = out.size() > first;
        bool join = false;
        switch (action) {
            case behavior::removed:
                if (s.match) continue;
                break;
            case behavior::isolated:
                break;
            case behavior::contiguous:
                join = has_last && s.match == previous_match;
                break;
            case behavior::merged_with_previous:
            case behavior::merged_with_next:
                join = has_last && s.match && !previous_match;
                break;
        }
        if (!join) {
            out.push_back(s.where);
        } else if (backwards) {
            out.back().begin = s.where.begin;
        } else {
            out.back().end = s.where.end;
        }
        previous_match = s.match;
    }
    if (backwards) std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

std::vector<text_range> pre_tokenizer::split(std::string_view text) const {
    std::vector<text_range> pieces;
    // Patterns see whole characters only; what is not UTF-8 is taken out first.
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t good = utf8::valid_prefix(text.substr(at));
        if (good > 0) pieces.push_back({at, at + good});
        at += good;
        if (at < text.size()) {
            pieces.push_back({at, at + 1});
            ++at;
        }
    }
    const auto is_stray = [&](const text_range& r) {
        return r.end - r.begin == 1 && static_cast<unsigned char>(text[r.begin]) >= 0x80;
    };
    std::vector<text_range> next;
    std::vector<std::pair<std::size_t, std::size_t>> matches;
    std::vector<span> spans;
    for (const stage& s : stages_) {
        next.clear();
        for (const text_range& piece : pieces) {
            if (is_stray(piece)) {
                next.push_back(piece);
                continue;
            }
            s.pattern.find_all(text.substr(piece.begin, piece.end - piece.begin), matches);
            spans.clear();
            std::size_t at = piece.begin;
            for (const auto& [begin, end] : matches) {
                const text_range hit{piece.begin + begin, piece.begin + end};
                if (at < hit.begin) spans.push_back({{at, hit.begin}, s.invert});
                spans.push_back({hit, !s.invert});
                at = hit.end;
            }
            if (at < piece.end) spans.push_back({{at, piece.end}, s.invert});
            arrange(s.action, spans, next);
        }
        pieces.swap(next);
    }
    return pieces;
}

}  // namespace semantic::engine
