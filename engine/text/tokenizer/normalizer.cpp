// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/normalizer.hpp"

#include <boost/json.hpp>

#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <utility>

#include "engine/text/tokenizer/json_access.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

/// Collects a rewritten text and, for each byte of it, where its source ends in the text before.
class rewrite {
  public:
    explicit rewrite(std::size_t expected) {
        text_.reserve(expected);
        ends_.reserve(expected);
    }
    /// Appends bytes [begin, end) of `from` as they are.
    void keep(std::string_view from, std::size_t begin, std::size_t end) {
        text_.append(from.substr(begin, end - begin));
        for (std::size_t i = begin; i < end; ++i)
            ends_.push_back(static_cast<std::uint32_t>(i + 1));
    }
    /// Appends text that replaces what ends at byte `source_end`.
    void put(std::string_view made, std::size_t source_end) {
        text_.append(made);
        ends_.insert(ends_.end(), made.size(), static_cast<std::uint32_t>(source_end));
    }
    /// Makes the rewritten text the current one, with its ends in the original text.
    void finish(normalized_text& text) {
        if (!text.ends.empty()) {
            for (std::uint32_t& end : ends_) end = text.source_end(end);
        }
        text.text = std::move(text_);
        text.ends = std::move(ends_);
    }

  private:
    std::string text_;
    std::vector<std::uint32_t> ends_;  // for each byte of text_
};

// Runs of marks up to this length are left to ICU.
constexpr std::size_t marks_in_a_row_max = 64;

/// Writes combining marks (begin, class) up to byte `end` in canonical order. ICU would insert them
/// one by one, in quadratic time for a hostile text of marks only; on sorted marks it is linear.
void put_in_order(std::string_view text, std::vector<std::pair<std::size_t, int>>& marks,
                  std::size_t end, rewrite& out) {
    if (marks.size() <= marks_in_a_row_max) {
        if (!marks.empty()) out.keep(text, marks.front().first, end);
    } else {
        std::stable_sort(marks.begin(), marks.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
        for (const auto& [begin, order] : marks) {
            out.put(text.substr(begin, utf8::next(text.substr(begin)).length), end);
        }
    }
    marks.clear();
}

/// Puts long runs of combining marks into canonical order, which ICU's normalisation would sort in
/// quadratic time. Texts without long runs stay as they are.
void order_long_mark_runs(normalized_text& text) {
    rewrite out(text.text.size());
    std::vector<std::pair<std::size_t, int>> marks;
    const std::string_view view = text.text;
    std::size_t longest = 0;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < view.size();) {
        const utf8::step s = utf8::next(view.substr(at));
        const int order = s.code >= 0x300 ? u_getCombiningClass(s.code) : 0;
        if (order != 0) {
            if (marks.empty()) out.keep(view, begin, at);
            marks.emplace_back(at, order);
            longest = std::max(longest, marks.size());
        } else if (!marks.empty()) {
            put_in_order(view, marks, at, out);
            begin = at;
        }
        at += s.length;
    }
    if (longest <= marks_in_a_row_max) return;
    if (marks.empty()) {
        out.keep(view, begin, view.size());
    } else {
        put_in_order(view, marks, view.size(), out);
    }
    out.finish(text);
}

/// Null when ICU has no data for it: texts then stay as they are.
const icu::Normalizer2* normalizer_of(bool compatible) {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* found = compatible ? icu::Normalizer2::getNFKCInstance(status)
                                               : icu::Normalizer2::getNFCInstance(status);
    return U_SUCCESS(status) ? found : nullptr;
}

/// Normalises the valid UTF-8 in [begin, end) of `from`.
void normalize_range(const icu::Normalizer2& how, std::string_view from, std::size_t begin,
                     std::size_t end, rewrite& out) {
    std::string made;
    icu::StringByteSink<std::string> sink(&made);
    icu::Edits edits;
    UErrorCode status = U_ZERO_ERROR;
    how.normalizeUTF8(0, icu::StringPiece(from.data() + begin, static_cast<int>(end - begin)), sink,
                      &edits, status);
    if (U_FAILURE(status)) {
        // What ICU refuses stays as it is.
        out.keep(from, begin, end);
        return;
    }
    icu::Edits::Iterator it = edits.getFineIterator();
    while (it.next(status) && U_SUCCESS(status)) {
        const auto source = begin + static_cast<std::size_t>(it.sourceIndex());
        const auto length = static_cast<std::size_t>(it.oldLength());
        if (it.hasChange()) {
            out.put(std::string_view(made).substr(static_cast<std::size_t>(it.destinationIndex()),
                                                  static_cast<std::size_t>(it.newLength())),
                    source + length);
        } else {
            out.keep(from, source, source + length);
        }
    }
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

/// Normalises a text. Bytes that are not UTF-8 stay as they are.
void normalizer::run(form wanted, normalized_text& text) {
    if (is_ascii(text.text)) return;
    const icu::Normalizer2* how = normalizer_of(wanted == form::nfkc);
    if (how == nullptr) return;
    order_long_mark_runs(text);
    const std::string_view view = text.text;
    rewrite out(view.size());
    for (std::size_t at = 0; at < view.size();) {
        const std::size_t good = utf8::valid_prefix(view.substr(at));
        if (good > 0) normalize_range(*how, view, at, at + good, out);
        at += good;
        if (at == view.size()) break;
        out.keep(view, at, at + 1);
        ++at;
    }
    out.finish(text);
}

/// Replaces each match of a pattern. Bytes that are not UTF-8 stay as they are, and end a match.
void normalizer::run(const replace& rule, normalized_text& text) {
    const std::string_view view = text.text;
    rewrite out(view.size());
    std::vector<std::pair<std::size_t, std::size_t>> matches;
    bool changed = false;
    for (std::size_t at = 0; at < view.size();) {
        const std::size_t good = utf8::valid_prefix(view.substr(at));
        rule.pattern.find_all(view.substr(at, good), matches);
        std::size_t kept = at;
        for (const auto& [begin, end] : matches) {
            out.keep(view, kept, at + begin);
            out.put(rule.content, at + end);
            kept = at + end;
            changed = true;
        }
        out.keep(view, kept, at + good);
        at += good;
        if (at == view.size()) break;
        out.keep(view, at, at + 1);
        ++at;
    }
    if (changed) out.finish(text);
}

void normalizer::run(const prepend& prefix, normalized_text& text) {
    if (text.text.empty()) return;
    rewrite out(text.text.size() + prefix.text.size());
    out.put(prefix.text, 0);
    out.keep(text.text, 0, text.text.size());
    out.finish(text);
}

normalized_text normalizer::apply(std::string_view text) const {
    normalized_text out{std::string(text), {}};
    for (const step& s : steps_) {
        std::visit([&](const auto& each) { run(each, out); }, s);
    }
    return out;
}

bool normalizer::parts_before(std::string_view right) const {
    for (const step& s : steps_) {
        if (std::holds_alternative<prepend>(s)) return false;
        if (const auto* rule = std::get_if<replace>(&s)) {
            if (!rule->single_character) return false;
        }
        if (const auto* wanted = std::get_if<form>(&s)) {
            const icu::Normalizer2* how = normalizer_of(*wanted == form::nfkc);
            const utf8::step first = utf8::next(right);
            if (how == nullptr || first.code < 0 || !how->hasBoundaryBefore(first.code))
                return false;
        }
    }
    return true;
}

bool normalizer::prepends() const noexcept {
    return std::any_of(steps_.begin(), steps_.end(),
                       [](const step& s) { return std::holds_alternative<prepend>(s); });
}

std::size_t normalizer::shrinks_at_most() const noexcept {
    // Three bytes of a Kelvin sign become K, nine of three jamo the three of a syllable; four of a
    // mathematical letter become one where compatible characters are one.
    constexpr std::size_t nfc_most = 3;
    constexpr std::size_t nfkc_most = 4;
    std::size_t most = 1;
    for (const step& s : steps_) {
        if (const auto* rule = std::get_if<replace>(&s); rule != nullptr && rule->shortens)
            return 0;
        if (const auto* wanted = std::get_if<form>(&s))
            most *= *wanted == form::nfkc ? nfkc_most : nfc_most;
    }
    return most;
}

/// Adds one step, or all of a Sequence; null adds none. Errors: incompatible; corrupt.
result<void> normalizer::add(const boost::json::value& json) {
    if (json.is_null()) return {};
    const std::string type = text_of(json, "type");
    if (type == "NFC" || type == "NFKC") {
        steps_.emplace_back(type == "NFC" ? form::nfc : form::nfkc);
        return {};
    }
    if (type == "Prepend") {
        steps_.emplace_back(prepend{text_of(json, "prepend")});
        return {};
    }
    if (type == "Replace") {
        auto pattern = parse_pattern(json, "normalizer Replace");
        if (!pattern) return pattern.error();
        const std::string literal = text_of(member(json, "pattern"), "String");
        const bool single = !literal.empty() && utf8::next(literal).length == literal.size();
        std::string content = text_of(json, "content");
        const bool shortens = literal.empty() || content.size() < literal.size();
        steps_.emplace_back(replace{*pattern, std::move(content), single, shortens});
        return {};
    }
    if (type == "Sequence") {
        const boost::json::array* parts = array_of(json, "normalizers");
        if (parts == nullptr)
            return failure{errc::corrupt, "normalizer Sequence has no normalizers"};
        for (const auto& part : *parts) {
            if (auto added = add(part); !added) return added;
        }
        return {};
    }
    return failure{errc::incompatible,
                   "normalizer of type '" + type +
                       "' is not supported (supported: NFC, NFKC, Replace, Prepend, Sequence)"};
}

result<normalizer> normalizer::parse(const boost::json::value& json) {
    normalizer made;
    if (auto added = made.add(json); !added) return added.error();
    return made;
}

}  // namespace semantic::engine
