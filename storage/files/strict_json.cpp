// SPDX-License-Identifier: Apache-2.0
#include "storage/files/strict_json.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <set>
#include <string>
#include <vector>

namespace semantic::storage {

namespace {

namespace json = boost::json;

// Far deeper than the headers and lists that are read with it.
constexpr std::size_t depth_max = 16;
constexpr std::size_t unlimited = static_cast<std::size_t>(-1);

/// Walks a document and stops at the first key that its object has twice, which Boost.JSON's own
/// parser accepts. It has the members that boost::json::basic_parser calls on its Handler.
class duplicate_key_finder {
  public:
    static constexpr std::size_t max_object_size = unlimited;
    static constexpr std::size_t max_array_size = unlimited;
    static constexpr std::size_t max_key_size = unlimited;
    static constexpr std::size_t max_string_size = unlimited;
    using error = json::error_code;
    using text = json::string_view;

    bool on_document_begin(error&) { return true; }
    bool on_document_end(error&) { return true; }
    bool on_object_begin(error&) {
        keys_.emplace_back();
        return true;
    }
    bool on_object_end(std::size_t, error&) {
        keys_.pop_back();
        return true;
    }
    bool on_array_begin(error&) { return true; }
    bool on_array_end(std::size_t, error&) { return true; }
    bool on_key_part(text part, std::size_t, error&) {
        key_.append(part.data(), part.size());
        return true;
    }
    bool on_key(text part, std::size_t, error& ec) {
        key_.append(part.data(), part.size());
        if (!keys_.back().insert(key_).second) {
            duplicate = key_;
            // Only ends the walk: parse_strict_json() finds the key in `duplicate`.
            ec = json::error::exception;
            return false;
        }
        key_.clear();
        return true;
    }
    bool on_string_part(text, std::size_t, error&) { return true; }
    bool on_string(text, std::size_t, error&) { return true; }
    bool on_number_part(text, error&) { return true; }
    bool on_int64(std::int64_t, text, error&) { return true; }
    bool on_uint64(std::uint64_t, text, error&) { return true; }
    bool on_double(double, text, error&) { return true; }
    bool on_bool(bool, error&) { return true; }
    bool on_null(error&) { return true; }
    bool on_comment_part(text, error&) { return true; }
    bool on_comment(text, error&) { return true; }

    std::string duplicate;

  private:
    std::vector<std::set<std::string, std::less<>>> keys_;  // of the objects that are open
    std::string key_;                                       // as far as its parts have come
};

}  // namespace

result<json::value> parse_strict_json(std::string_view text) {
    json::parse_options options;
    options.max_depth = depth_max;
    json::basic_parser<duplicate_key_finder> finder(options);
    json::error_code ec;
    const std::size_t read = finder.write_some(false, text.data(), text.size(), ec);
    if (!finder.handler().duplicate.empty() || ec == json::error::exception)
        return failure{errc::corrupt,
                       "the JSON key \"" + finder.handler().duplicate + "\" stands twice"};
    if (!ec && read != text.size()) ec = json::error::extra_data;
    if (ec)
        return failure{errc::corrupt,
                       "not JSON at byte " + std::to_string(read) + ": " + ec.message()};
    json::value value = json::parse(json::string_view(text.data(), text.size()), ec, {}, options);
    if (ec) return failure{errc::corrupt, "not JSON: " + ec.message()};
    return value;
}

void append_json_string(std::string& out, std::string_view text) {
    out += json::serialize(json::string_view(text.data(), text.size()));
}

}  // namespace semantic::storage
