// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/s3_xml.hpp"

#include <pugixml.hpp>

#include <charconv>
#include <optional>

#include "storage/objects/s3_signature.hpp"

namespace semantic::storage {

namespace {

constexpr std::size_t message_bytes_max = 200;

/// No declarations of types or entities are looked at, so nothing in the text can expand.
constexpr unsigned parse_options = pugi::parse_cdata | pugi::parse_escapes | pugi::parse_eol;

std::string printable(std::string_view text) {
    std::string out(text.substr(0, message_bytes_max));
    for (char& each : out)
        if (each < ' ' || each > '~') each = '?';
    return out;
}

object_failure damaged(const std::string& message) {
    return {object_errc::corrupt, "the object store's list: " + message};
}

std::optional<std::uint64_t> number_of(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

s3_error parse_s3_error(std::string_view xml) {
    pugi::xml_document document;
    if (!document.load_buffer(xml.data(), xml.size(), parse_options)) return {};
    const pugi::xml_node error = document.child("Error");
    return {printable(error.child_value("Code")), printable(error.child_value("Message"))};
}

object_result<object_page> parse_s3_list(std::string_view xml, std::string_view key_prefix) {
    pugi::xml_document document;
    const auto parsed = document.load_buffer(xml.data(), xml.size(), parse_options);
    if (!parsed)
        return damaged(std::string(parsed.description()) + " at byte " +
                       std::to_string(parsed.offset));
    const pugi::xml_node list = document.child("ListBucketResult");
    if (!list) return damaged("no ListBucketResult");
    const bool is_encoded = std::string_view(list.child_value("EncodingType")) == "url";
    object_page page;
    for (const pugi::xml_node each : list.children("Contents")) {
        const auto bytes = number_of(each.child_value("Size"));
        std::string key = each.child_value("Key");
        if (key.empty()) return damaged("an object without a key");
        if (!bytes) return damaged("an object without a size");
        if (is_encoded) key = percent_decode(key);
        if (!key.starts_with(key_prefix)) continue;
        key.erase(0, key_prefix.size());
        if (check_object_name(key)) page.objects.push_back({std::move(key), *bytes});
    }
    const std::string_view truncated = list.child_value("IsTruncated");
    if (truncated != "true" && truncated != "false") return damaged("no word of whether it is all");
    if (truncated == "false") return page;
    page.next = list.child_value("NextContinuationToken");
    if (page.next.empty()) return damaged("more is promised, and no word of where");
    return page;
}

}  // namespace semantic::storage
