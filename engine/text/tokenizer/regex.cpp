// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <limits>

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

// Unicode White_Space and its complement, as members of a class. PCRE2's own \s adds U+180E.
constexpr std::string_view space_members =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view non_space_members =
    R"(\x00-\x08\x0E-\x1F\x21-\x84\x86-\x9F\xA1-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr std::string_view word_members = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

failure refuse(std::string_view pattern, std::string_view why) {
    return {errc::incompatible, "the pattern " + std::string(pattern) + " uses " +
                                    std::string(why) + ", which is not supported"};
}

/// A boundary of words, or (`wanted` false) a position that is none, by the members of words above.
std::string word_boundary(bool wanted) {
    const std::string word = "[" + std::string(word_members) + "]";
    const std::string begins = "(?<!" + word + ")(?=" + word + ")";
    const std::string ends = "(?<=" + word + ")(?!" + word + ")";
    const std::string inside = "(?<=" + word + ")(?=" + word + ")";
    const std::string outside = "(?<!" + word + ")(?!" + word + ")";
    return wanted ? "(?:" + begins + "|" + ends + ")" : "(?:" + inside + "|" + outside + ")";
}

/// The replacement of an escape, given by its letter; empty if PCRE2 reads it as the reference
/// does.
std::string replace_escape(char letter, bool in_class) {
    const auto wrap = [&](std::string_view members, bool negated) {
        if (in_class) return std::string(members);
        return (negated ? "[^" : "[") + std::string(members) + "]";
    };
    switch (letter) {
        case 's':
            return wrap(space_members, false);
        case 'S':
            return in_class ? std::string(non_space_members) : wrap(space_members, true);
        case 'w':
            return wrap(word_members, false);
        case 'W':
            // translate_pattern() has refused it in a class; so nothing is right here.
            return in_class ? std::string() : wrap(word_members, true);
        case 'b':  // PCRE2's own word boundary goes by PCRE2's own \w
        case 'B':
            return in_class ? std::string() : word_boundary(letter == 'b');
        default:
            return {};
    }
}

/// Whether a repetition such as {1,3} ends at `close` and is followed by +.
bool is_repeated_interval(std::string_view pattern, std::size_t close) {
    if (close + 1 >= pattern.size() || pattern[close + 1] != '+') return false;
    const std::size_t open = pattern.rfind('{', close);
    return open != std::string_view::npos &&
           (open == 0 || (pattern[open - 1] != 'p' && pattern[open - 1] != 'P')) &&
           pattern.substr(open + 1, close - open - 1).find_first_not_of("0123456789,") ==
               std::string_view::npos;
}

}  // namespace

result<std::string> translate_pattern(std::string_view pattern) {
    std::string out;
    bool in_class = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c == '\\' && i + 1 < pattern.size()) {
            const char letter = pattern[++i];
            if (letter == 'h' || letter == 'H') return refuse(pattern, "\\h");
            if (letter == 'W' && in_class) return refuse(pattern, "\\W inside a class");
            const std::string replaced = replace_escape(letter, in_class);
            if (replaced.empty()) out += {c, letter};
            out += replaced;
            continue;
        }
        if (in_class && c == '[') return refuse(pattern, "a class inside a class");
        if (in_class && pattern.substr(i, 2) == "&&") return refuse(pattern, "&& in a class");
        if (!in_class && c == '}' && is_repeated_interval(pattern, i)) {
            return refuse(pattern, "+ after a counted repeat");
        }
        if (c == '[') in_class = true;
        if (c == ']') in_class = false;
        out += c;
    }
    return out;
}

struct regex::impl {
    pcre2_code* code = nullptr;
    impl() = default;
    impl(const impl&) = delete;
    impl& operator=(const impl&) = delete;
    ~impl() { pcre2_code_free(code); }
};

/// Compiles a translated pattern. `shown`: the pattern as it came, for the error.
result<regex> regex::build(std::string_view translated, std::string_view shown) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    auto state = std::make_shared<impl>();
    // Lines end at \n only and ^ $ see them, as in the reference.
    pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    state->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (state->code == nullptr) {
        PCRE2_UCHAR message[160] = {};
        pcre2_get_error_message(error, message, sizeof message);
        return failure{errc::incompatible,
                       "the pattern " + std::string(shown) +
                           " cannot be used: " + reinterpret_cast<const char*>(message)};
    }
    pcre2_jit_compile(state->code, PCRE2_JIT_COMPLETE);  // without JIT it is slower, not wrong
    return regex(std::move(state));
}

result<regex> regex::compile(std::string_view pattern) {
    auto translated = translate_pattern(pattern);
    if (!translated) return translated.error();
    return build(*translated, pattern);
}

result<regex> regex::literal(std::string_view text) {
    std::string quoted;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        // All other ASCII is escaped: PCRE2 then takes it as the character itself.
        const bool plain = byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || byte < 0x20;
        if (!plain) quoted += '\\';
        quoted += c;
    }
    return build(quoted, text);
}

namespace {

/// PCRE2's buffers for matching, one object a thread. The JIT stack grows on demand, because long
/// runs of text backtrack deeply.
class match_state {
  public:
    match_state()
        : data(pcre2_match_data_create(1, nullptr)),
          context(pcre2_match_context_create(nullptr)),
          stack(pcre2_jit_stack_create(std::size_t{64} << 10, std::size_t{64} << 20, nullptr)) {
        pcre2_jit_stack_assign(context, nullptr, stack);
        // No match may be lost to a limit: find_all() could not say so.
        pcre2_set_match_limit(context, std::numeric_limits<std::uint32_t>::max());
        pcre2_set_depth_limit(context, std::numeric_limits<std::uint32_t>::max());
    }
    match_state(const match_state&) = delete;
    match_state& operator=(const match_state&) = delete;
    ~match_state() {
        pcre2_jit_stack_free(stack);
        pcre2_match_context_free(context);
        pcre2_match_data_free(data);
    }

    pcre2_match_data* data;
    pcre2_match_context* context;
    pcre2_jit_stack* stack;
};

}  // namespace

void regex::find_all(std::string_view text,
                     std::vector<std::pair<std::size_t, std::size_t>>& matches) const {
    matches.clear();
    if (text.empty()) return;
    thread_local const match_state state;
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const auto match_at = [&](std::size_t at, std::uint32_t options) {
        return pcre2_match(impl_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | options,
                           state.data, state.context);
    };
    std::size_t at = 0;
    std::size_t after_empty = 0;  // nothing empty may match before here again
    while (at <= text.size()) {
        int found = match_at(at, after_empty > at ? PCRE2_NOTEMPTY_ATSTART : 0);
        if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match_at(at, PCRE2_NO_JIT);
        // No further match. An error, such as too little memory, counts as none, too.
        if (found < 0) return;
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data);
        if (bounds[1] > bounds[0]) matches.emplace_back(bounds[0], bounds[1]);
        after_empty = bounds[1] == bounds[0] ? bounds[1] + 1 : 0;
        at = bounds[1];
    }
}

}  // namespace semantic::engine
