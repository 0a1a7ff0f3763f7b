// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/token_decoder.hpp"

#include <boost/json.hpp>

#include <array>

#include "engine/text/tokenizer/json_access.hpp"
#include "engine/text/tokenizer/utf8.hpp"
#include "storage/types/hex.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

/// Character -> byte. Printable Latin-1 maps to itself, the others follow from U+0100 on.
std::array<std::int16_t, 0x180> make_alphabet() {
    std::array<std::int16_t, 0x180> table{};
    table.fill(-1);
    std::size_t moved = 0x100;
    for (std::size_t byte = 0; byte < 256; ++byte) {
        const bool stays =
            (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        table[stays ? byte : moved++] = static_cast<std::int16_t>(byte);
    }
    return table;
}

void replace_all(std::string& text, const std::string& pattern, const std::string& replacement) {
    for (std::size_t at = text.find(pattern); at != std::string::npos;
         at = text.find(pattern, at + replacement.size())) {
        text.replace(at, pattern.size(), replacement);
    }
}

}  // namespace

std::optional<std::string> from_byte_alphabet(std::string_view spelling) {
    static const auto alphabet = make_alphabet();
    std::string bytes;
    while (!spelling.empty()) {
        const utf8::step s = utf8::next(spelling);
        if (s.code < 0 || static_cast<std::size_t>(s.code) >= alphabet.size()) return std::nullopt;
        const std::int16_t byte = alphabet[static_cast<std::size_t>(s.code)];
        if (byte < 0) return std::nullopt;
        bytes += static_cast<char>(byte);
        spelling.remove_prefix(s.length);
    }
    return bytes;
}

std::optional<char> named_byte(std::string_view spelling) {
    if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') {
        return std::nullopt;
    }
    const auto byte = storage::number_of_hex(spelling.substr(3, 2));
    if (!byte) return std::nullopt;
    return static_cast<char>(*byte);
}

/// Adds one step, or all of a Sequence. Errors: incompatible for types that are not supported, and
/// where ByteLevel is not alone; corrupt.
result<void> token_decoder::add(const boost::json::value& json) {
    const std::string type = text_of(json, "type");
    if (type == "ByteLevel") {
        if (!steps_.empty()) {
            return failure{errc::incompatible, "decoder ByteLevel behind another is not supported"};
        }
        byte_level_ = true;
        return {};
    }
    if (type == "Sequence") {
        const boost::json::array* parts = array_of(json, "decoders");
        if (parts == nullptr) return failure{errc::corrupt, "decoder Sequence has no decoders"};
        for (const auto& part : *parts) {
            if (auto added = add(part); !added) return added;
        }
        return {};
    }
    // It changes nothing after ByteLevel, which joins all tokens anyway.
    if (type == "Fuse") {
        steps_.emplace_back(fuse{});
        return {};
    }
    if (byte_level_) {
        return failure{errc::incompatible,
                       "decoder '" + type + "' behind ByteLevel is not supported"};
    }
    if (type == "ByteFallback") {
        steps_.emplace_back(byte_fallback{});
        return {};
    }
    if (type == "Replace") {
        const std::string pattern = text_of(member(json, "pattern"), "String");
        if (pattern.empty()) {
            return failure{errc::incompatible,
                           "decoder Replace: only a String pattern is supported"};
        }
        steps_.emplace_back(replace{pattern, text_of(json, "content")});
        return {};
    }
    if (type == "Strip") {
        const auto count = [&](const char* key) {
            const boost::json::value& number = member(json, key);
            return number.is_int64() && number.get_int64() > 0
                       ? static_cast<std::size_t>(number.get_int64())
                       : std::size_t{0};
        };
        steps_.emplace_back(strip{text_of(json, "content"), count("start"), count("stop")});
        return {};
    }
    return failure{errc::incompatible,
                   "decoder of type '" + (json.is_null() ? "null" : type) +
                       "' is not supported (supported: ByteLevel, Replace, ByteFallback, Fuse, "
                       "Strip, Sequence)"};
}

result<token_decoder> token_decoder::parse(const boost::json::value& json) {
    token_decoder made;
    if (auto added = made.add(json); !added) return added.error();
    return made;
}

void token_decoder::run(const replace& s, tokens& list) {
    for (std::string& token : list) replace_all(token, s.pattern, s.replacement);
}

/// Joins the bytes of tokens such as <0xE2> in a row to characters.
void token_decoder::run(const byte_fallback&, tokens& list) {
    tokens out;
    std::string run_of_bytes;
    const auto flush = [&] {
        if (run_of_bytes.empty()) return;
        // All of the run or nothing, as the reference does.
        if (utf8::valid_prefix(run_of_bytes) == run_of_bytes.size()) {
            out.push_back(run_of_bytes);
        } else {
            for (std::size_t i = 0; i < run_of_bytes.size(); ++i) {
                out.emplace_back(utf8::replacement);
            }
        }
        run_of_bytes.clear();
    };
    for (std::string& token : list) {
        if (const auto byte = named_byte(token)) {
            run_of_bytes += *byte;
        } else {
            flush();
            out.push_back(std::move(token));
        }
    }
    flush();
    list = std::move(out);
}

void token_decoder::run(const fuse&, tokens& list) {
    std::string all;
    for (const std::string& token : list) all += token;
    list.assign(1, std::move(all));
}

void token_decoder::run(const strip& s, tokens& list) {
    if (s.text.empty()) return;
    for (std::string& token : list) {
        for (std::size_t i = 0; i < s.start && token.starts_with(s.text); ++i) {
            token.erase(0, s.text.size());
        }
        for (std::size_t i = 0; i < s.stop && token.ends_with(s.text); ++i) {
            token.erase(token.size() - s.text.size());
        }
    }
}

std::string token_decoder::bytes(std::string_view spelling) const {
    // Added tokens are spelled as text, which may not be in the alphabet.
    if (byte_level_) return from_byte_alphabet(spelling).value_or(std::string(spelling));
    std::string out(spelling);
    for (const step& s : steps_) {
        if (const auto* r = std::get_if<replace>(&s)) replace_all(out, r->pattern, r->replacement);
        if (std::holds_alternative<byte_fallback>(s)) {
            if (const auto byte = named_byte(out)) return std::string(1, *byte);
        }
    }
    return out;
}

std::string token_decoder::decode(const std::vector<std::string_view>& spellings) const {
    std::string out;
    if (byte_level_) {
        std::string all;
        for (const std::string_view spelling : spellings) all += bytes(spelling);
        utf8::append_lossy(out, all);
        return out;
    }
    tokens list(spellings.begin(), spellings.end());
    for (const step& s : steps_) {
        std::visit([&](const auto& each) { run(each, list); }, s);
    }
    for (const std::string& token : list) out += token;
    return out;
}

}  // namespace semantic::engine
