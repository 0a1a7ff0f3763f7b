// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/json.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <charconv>
#include <functional>
#include <optional>
#include <random>
#include <string>

namespace semantic::protocol {
namespace {

namespace json = boost::json;

json::value parsed(std::string_view text) {
    auto value = parse_json(text, {});
    EXPECT_TRUE(value) << text << ": " << (value ? "" : value.error().message);
    return value ? *value : json::value();
}

failure fault_of(std::string_view text, json_limits limits = {}) {
    auto value = parse_json(text, limits);
    EXPECT_FALSE(value) << text;
    return value ? failure{errc::internal, "no failure", {}, {}} : value.error();
}

std::string nested(std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
}

TEST(parse_json, body_of_the_greatest_size_is_read_and_one_byte_more_is_refused) {
    json_limits limits;
    limits.bytes_max = 6;
    EXPECT_TRUE(parse_json("\"1234\"", limits));
    failure f = fault_of("\"12345\"", limits);
    EXPECT_EQ(f.code, errc::body_too_large);
    EXPECT_EQ(f.message, "the body has 7 bytes, at most 6 are accepted");
}

TEST(parse_json, nesting_of_the_greatest_depth_is_read_and_one_level_more_is_refused) {
    EXPECT_TRUE(parse_json(nested(64), {}));
    failure f = fault_of(nested(65));
    EXPECT_EQ(f.code, errc::malformed_json);
    EXPECT_EQ(f.message, "the body is not valid JSON: nested deeper than 64 levels at byte 64");
}

TEST(parse_json, as_many_values_as_allowed_are_read_and_one_more_is_refused) {
    json_limits limits;
    limits.values_max = 4;
    EXPECT_TRUE(parse_json("[1,2,3]", limits));
    failure f = fault_of("[1,2,3,4]", limits);
    EXPECT_EQ(f.code, errc::bad_value);
    EXPECT_EQ(f.message, "the body has more than 4 JSON values");
}

TEST(parse_json, what_is_not_one_json_value_is_malformed_and_says_where) {
    EXPECT_EQ(fault_of("").message, "the body is empty; a JSON object is expected");
    for (std::string_view text : {"{", "{\"a\":1,}", "[1 2]", "nul", "01", "1.", "\"a", "{} {}",
                                  "{'a':1}", "// c\n1", "NaN", "\"\x01\"", "\"\xff\"",
                                  "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\\ud8\"", "\"\\udzzz\"",

                                  "\xef\xbb\xbf\xef\xbb\xbf{}", "{}\xef\xbb\xbf"}) {
        failure f = fault_of(text);
        EXPECT_EQ(f.code, errc::malformed_json) << text;
        EXPECT_NE(f.message.find(" at byte "), std::string::npos) << f.message;
    }
    EXPECT_NE(fault_of("{\"a\":1,}").message.find("at byte 7"), std::string::npos);
}

TEST(parse_json, numbers_that_nothing_holds_keep_their_digits) {
    for (const char* exact :
         {"12345678901234567890123", "-12345678901234567890123", "100000000000000000000", "1e400",
          "-2.5E+999", "1e-400", "0.1000000000000000055511151231257827",
          "3.14159265358979323846264338327950288", "18446744073709551616",
          "-9223372036854775809"}) {
        EXPECT_EQ(to_text(parsed(exact)), exact);
        EXPECT_EQ(exact_number(parsed(exact)), exact);
        EXPECT_STREQ(kind_name(parsed(exact)), "a number");
        const std::string within = std::string("{\"a\":[") + exact + ",1]}";
        EXPECT_EQ(to_text(parsed(within)), within);
    }
    for (const char* held : {"0.5", "1e22", "18446744073709551615", "-9223372036854775808", "1.50",
                             "0.30000000000000004", "5e-324", "-0.0", "0e999", "123.000"})
        EXPECT_FALSE(exact_number(parsed(held))) << held;
}

TEST(json_cursor, a_number_that_nothing_holds_is_a_number_all_the_same) {
    std::optional<failure> complaint;
    const auto read = [&](const char* number) {
        static json::value kept;
        kept = json::object{{"n", parsed(number)}};
        complaint.reset();
        return json_cursor(kept, "", complaint).at("n");
    };
    EXPECT_EQ(read("0.1000000000000000055511151231257827").as_number(0, 1), 0.1);
    EXPECT_FALSE(complaint);
    read("1e400").as_number(0, 2);
    EXPECT_EQ(complaint->message, "n: must be between 0 and 2, is 1e400");
    EXPECT_EQ(read("1e-400").as_number(0, 2), 0.0);
    EXPECT_FALSE(complaint);
    read("12345678901234567890123").as_integer(0, 9);
    EXPECT_EQ(complaint->message, "n: must be between 0 and 9, is 12345678901234567890123");
    read("0.1000000000000000055511151231257827").as_integer(0, 9);
    EXPECT_TRUE(complaint->message.starts_with("n: expected an integer, found 0.1"))
        << complaint->message;
    EXPECT_EQ(read("12345678901234567890123").as_string(), "");
    EXPECT_EQ(complaint->message, "n: expected a string, found a number");
}

TEST(parse_json, a_byte_order_mark_in_front_is_skipped) {
    EXPECT_EQ(to_text(parsed("\xef\xbb\xbf{}")), "{}");
    EXPECT_EQ(fault_of("\xef\xbb\xbf").message, "the body is empty; a JSON object is expected");
    EXPECT_NE(fault_of("\xef\xbb\xbf{\"a\":1,}").message.find("at byte 10"), std::string::npos);
}

TEST(parse_json, half_of_a_character_becomes_the_replacement_character) {
    struct row {
        const char* text;
        const char* read;
    };
    for (const row& r :
         {row{R"("\ud800")", "\xef\xbf\xbd"}, row{R"("\uDFFF")", "\xef\xbf\xbd"},
          row{R"("a\ud83db")",
              "a\xef\xbf\xbd"
              "b"},
          row{R"("\ud83d\ud83d\ude00")", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
          row{R"("\ud83d\ude00\ude00")", "\xf0\x9f\x98\x80\xef\xbf\xbd"},
          row{R"("\ud83d\n")", "\xef\xbf\xbd\n"}, row{R"("\\ud800\ud800")", "\\ud800\xef\xbf\xbd"},
          row{R"("\ud800\u0041")",
              "\xef\xbf\xbd"
              "A"}})
        EXPECT_EQ(parsed(r.text).as_string(), r.read) << r.text;
    EXPECT_EQ(to_text(parsed(R"({"\ud800":1})")), "{\"\xef\xbf\xbd\":1}");
    EXPECT_EQ(fault_of(R"(["\ud800",])").message.find("the body is not valid JSON"), 0u);
}

TEST(to_text, keeps_order_and_plain_numbers) {
    for (std::string_view text :
         {R"({"z":1,"a":{"y":null,"b":[true,false]},"m":"é\n\"\\"})", "[0.5,1.0,-0.0,1e+20,1e-07]",
          "[18446744073709551615,-9223372036854775808,123456.789]", "{}", "[]", "\"\"", "0.1"})
        EXPECT_EQ(to_text(parsed(text)), text);
}

TEST(to_text, every_double_survives_reading_and_writing) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 20000; ++i) {
        double number = static_cast<double>(random() % 1'000'000'000) / (i % 2 ? 1000.0 : 1e12);
        char digits[64];
        auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
        std::string text(digits, end);
        EXPECT_EQ(parsed(text).to_number<double>(), number) << text;
    }
    EXPECT_EQ(to_text(parsed("1e-999")), "1e-999");
}

/// What `read` complains of, given a cursor at the document's root.
failure complaint_of(const json::value& document, const std::function<void(json_cursor)>& read,
                     const std::string& path = "") {
    std::optional<failure> complaint;
    read(json_cursor(document, path, complaint));
    EXPECT_TRUE(complaint);
    return complaint.value_or(failure{errc::internal, "no complaint", {}, {}});
}

TEST(json_cursor, complaints_carry_the_path_and_what_was_found) {
    json::value document = parsed(R"({"messages":[{"content":[{"text":7}]}],"n":null})");
    failure text = complaint_of(document, [](json_cursor root) {
        root.at("messages").item(0).at("content").item(0).at("text").as_string();
    });
    EXPECT_EQ(text.code, errc::bad_value);
    EXPECT_EQ(text.message, "messages.0.content.0.text: expected a string, found a number");
    EXPECT_EQ(text.path, "messages.0.content.0.text");
    failure gone = complaint_of(document, [](json_cursor root) { root.at("gone"); });
    EXPECT_EQ(gone.message, "gone: field required");
    EXPECT_EQ(gone.code, errc::missing_field);
    auto message = [&](auto read) { return complaint_of(document, read).message; };
    EXPECT_EQ(message([](json_cursor root) { root.at("n").as_array(); }),
              "n: expected an array, found null");
    EXPECT_EQ(message([](json_cursor root) { root.as_string(); }),
              "the body: expected a string, found an object");
    EXPECT_EQ(message([](json_cursor root) { root.at("messages").at("x"); }),
              "messages: expected an object, found an array");
}

TEST(json_cursor, keeps_the_first_complaint_and_reads_defaults_from_then_on) {
    json::value document = parsed(R"({"a":[],"n":"x"})");
    std::optional<failure> complaint;
    json_cursor root(document, "", complaint);
    EXPECT_EQ(root.at("n").as_string(), "x");
    EXPECT_TRUE(root.ok());
    EXPECT_EQ(root.at("a").as_string(), "");
    EXPECT_FALSE(root.ok());
    EXPECT_EQ(root.at("gone").at("and").at("more").as_integer(3, 5), 3);
    EXPECT_EQ(root.at("n").as_number(-1, 5), -1);
    EXPECT_FALSE(root.at("n").as_bool());
    EXPECT_TRUE(root.at("n").as_object().empty());
    EXPECT_TRUE(root.at("n").as_array().empty());
    root.fail(errc::unsupported, "too late");
    EXPECT_EQ(complaint->message, "a: expected a string, found an array");
    EXPECT_EQ(root.at("n").as_string(), "x") << "what is right is read as before";
}

TEST(json_cursor, absent_and_null_fields_are_both_not_found) {
    json::value document = parsed(R"({"n":null,"x":false})");
    std::optional<failure> complaint;
    json_cursor root(document, "", complaint);
    EXPECT_FALSE(root.find("n"));
    EXPECT_FALSE(root.find("gone"));
    ASSERT_TRUE(root.find("x"));
    EXPECT_FALSE(root.find("x")->as_bool());
    EXPECT_TRUE(root.ok());
}

TEST(json_cursor, integers_are_exact_and_bounded) {
    json::value document = parsed(R"([5, 5.0, 5.5, "5", 18446744073709551615, 1e300, -1, 6])");
    std::optional<failure> complaint;
    json_cursor list(document, "n", complaint);
    EXPECT_EQ(list.item(0).as_integer(0, 5), 5);
    EXPECT_EQ(list.item(1).as_integer(0, 5), 5);
    EXPECT_TRUE(list.ok());
    auto message = [&](std::size_t index, std::int64_t high) {
        return complaint_of(
                   document, [&](json_cursor root) { root.item(index).as_integer(0, high); }, "n")
            .message;
    };
    EXPECT_EQ(message(2, 9), "n.2: expected an integer, found 5.5");
    EXPECT_EQ(message(3, 9), "n.3: expected an integer, found a string");
    EXPECT_EQ(message(4, 9), "n.4: must be between 0 and 9, is 18446744073709551615");
    EXPECT_EQ(message(5, 9), "n.5: must be between 0 and 9, is 1e+300");
    EXPECT_EQ(message(6, 9), "n.6: must be between 0 and 9, is -1");
    EXPECT_EQ(message(7, 5), "n.7: must be between 0 and 5, is 6");
}

TEST(json_cursor, numbers_are_bounded) {
    json::value document = parsed(R"([2, 2.0, 2.01, "2", -0.1])");
    std::optional<failure> complaint;
    json_cursor list(document, "t", complaint);
    EXPECT_EQ(list.item(0).as_number(0, 2), 2.0);
    EXPECT_EQ(list.item(1).as_number(0, 2), 2.0);
    EXPECT_TRUE(list.ok());
    auto message = [&](std::size_t index) {
        return complaint_of(
                   document, [&](json_cursor root) { root.item(index).as_number(0, 2); }, "t")
            .message;
    };
    EXPECT_EQ(message(2), "t.2: must be between 0 and 2, is 2.01");
    EXPECT_EQ(message(3), "t.3: expected a number, found a string");
    EXPECT_EQ(message(4), "t.4: must be between 0 and 2, is -0.1");
}

}  // namespace
}  // namespace semantic::protocol
