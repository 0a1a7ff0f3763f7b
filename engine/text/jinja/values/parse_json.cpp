// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/values/parse_json.hpp"

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include <charconv>
#include <string>
#include <unordered_map>

namespace semantic::engine::jinja {

namespace {

namespace json = boost::json;

/// Up to as many members of an object are searched one by one for an equal key; beyond that a hash
/// table is made.
constexpr std::size_t searched_members_max = 8;

/// An object or an array whose end has not been read yet.
struct open_value {
    std::vector<std::pair<value, value>> members{};         // of an object
    std::unordered_map<std::string, std::size_t> places{};  // indexes of `members` by their keys
    std::vector<value> items{};                             // of an array
    value key{};
    bool is_object = false;
};

/// Makes Jinja values of what boost::json::basic_parser reads. The parser calls the members on_...,
/// whose signatures its documentation prescribes. Numbers that 64 bits do not hold exactly as they
/// are spelled keep their spelling.
class value_reader {
  public:
    static constexpr std::size_t max_object_size = json::object::max_size();
    static constexpr std::size_t max_array_size = json::array::max_size();
    static constexpr std::size_t max_key_size = json::string::max_size();
    static constexpr std::size_t max_string_size = json::string::max_size();

    value release() { return std::move(whole_); }

    bool on_document_begin(json::error_code&) { return true; }
    bool on_document_end(json::error_code&) { return true; }
    bool on_object_begin(json::error_code&) {
        open_.emplace_back().is_object = true;
        return true;
    }
    bool on_array_begin(json::error_code&) {
        open_.emplace_back();
        return true;
    }
    bool on_object_end(std::size_t, json::error_code&) {
        std::vector<std::pair<value, value>> members = std::move(open_.back().members);
        open_.pop_back();
        return add(make_dict_of_different(std::move(members)));
    }
    bool on_array_end(std::size_t, json::error_code&) {
        std::vector<value> items = std::move(open_.back().items);
        open_.pop_back();
        return add(make_list(std::move(items)));
    }
    bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
        return on_part(part);
    }
    bool on_key(json::string_view part, std::size_t, json::error_code&) {
        on_part(part);
        open_.back().key = content(take_text());
        return true;
    }
    bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
        return on_part(part);
    }
    bool on_string(json::string_view part, std::size_t, json::error_code&) {
        on_part(part);
        return add(content(take_text()));
    }
    bool on_number_part(json::string_view part, json::error_code&) { return on_part(part); }
    bool on_int64(std::int64_t number, json::string_view part, json::error_code&) {
        on_part(part);
        std::string text = take_text();
        // -0 is read as 0 and keeps its spelling, too.
        const bool is_plain = text == std::to_string(number);
        return add(is_plain ? value(number) : spelled(std::move(text)));
    }
    bool on_uint64(std::uint64_t, json::string_view part, json::error_code&) {
        on_part(part);
        return add(spelled(take_text()));
    }
    bool on_double(double, json::string_view part, json::error_code&) {
        on_part(part);
        return add(spelled(take_text()));
    }
    bool on_bool(bool flag, json::error_code&) { return add(flag); }
    bool on_null(json::error_code&) { return add({}); }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }

  private:
    bool on_part(json::string_view part) {
        text_.append(part.data(), part.size());
        return true;
    }
    std::string take_text() {
        std::string taken;
        taken.swap(text_);
        return taken;
    }
    /// Adds a complete value to the innermost open object or array.
    bool add(value one) {
        if (open_.empty()) {
            whole_ = std::move(one);
            return true;
        }
        open_value& parent = open_.back();
        if (parent.is_object)
            add_member(parent, std::move(one));
        else
            parent.items.push_back(std::move(one));
        return true;
    }
    /// Adds a member; of equal keys the last value counts, at the place of the first.
    static void add_member(open_value& object, value one) {
        const std::string& key = object.key.as_text()->bytes();
        std::size_t place = object.members.size();
        if (place <= searched_members_max) {
            for (std::size_t i = 0; i < object.members.size(); ++i)
                if (object.members[i].first.as_text()->bytes() == key) place = i;
        } else {
            if (object.places.empty())
                for (std::size_t i = 0; i < object.members.size(); ++i)
                    object.places.emplace(object.members[i].first.as_text()->bytes(), i);
            place = object.places.emplace(key, place).first->second;
        }
        if (place < object.members.size())
            object.members[place].second = std::move(one);
        else
            object.members.emplace_back(std::move(object.key), std::move(one));
    }

    // Open objects and arrays, innermost last; and the whole value once it was read.
    std::vector<open_value> open_;
    value whole_;
    std::string text_;  // the string, key or number that is being read
};

}  // namespace

std::optional<value> parse_json(std::string_view text) {
    json::parse_options options;
    options.max_depth = json_depth_max;
    json::basic_parser<value_reader> parser(options);
    json::error_code error;
    const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
    // A text that is whole JSON and something more is no JSON.
    if (error || read != text.size()) return std::nullopt;
    return parser.handler().release();
}

}  // namespace semantic::engine::jinja
