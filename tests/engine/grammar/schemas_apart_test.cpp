// SPDX-License-Identifier: Apache-2.0
// Many schemas are distinguished at once as each two of them would be.

#include "engine/grammar/schema/schemas_apart.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace semantic::engine {
namespace {

namespace json = boost::json;

bool apart(const std::vector<std::string>& schemas) {
    std::vector<json::value> parsed;
    for (const std::string& each : schemas) parsed.push_back(json::parse(each));
    std::vector<const json::object*> objects;
    for (const json::value& each : parsed) objects.push_back(&each.get_object());
    storage::work_budget budget;
    return are_apart(objects, budget);
}

std::string object_of(const std::string& properties, const std::string& required) {
    return R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required +
           "]}";
}

TEST(schemas_apart, types_and_constants_tell_them_apart) {
    EXPECT_TRUE(apart({R"({"type":"string"})", R"({"type":"integer"})", R"({"type":"null"})"}));
    EXPECT_FALSE(apart({R"({"type":"number"})", R"({"type":"integer"})"}));
    EXPECT_TRUE(apart({R"({"const":1})", R"({"enum":[2,"1"]})", R"({"const":[1]})"}));
    EXPECT_FALSE(apart({R"({"const":1})", R"({"enum":[2,1]})"}));
    EXPECT_TRUE(apart({R"({"const":1,"type":"integer"})", R"({"type":"string"})"}));
    EXPECT_FALSE(apart({R"({"const":1})", R"({"type":"string"})"})) << "it names no type";
    EXPECT_FALSE(apart({"{}", R"({"type":"string"})"}));
}

TEST(schemas_apart, constants_of_required_properties_tell_objects_apart) {
    const std::string a = object_of(R"("k":{"const":"a"},"v":{"const":1})", R"("k","v")");
    const std::string b = object_of(R"("k":{"const":"b"},"v":{"const":1})", R"("k","v")");
    const std::string c = object_of(R"("k":{"const":"a"},"v":{"const":2})", R"("k","v")");
    EXPECT_TRUE(apart({a, b, c})) << "one property divides some, another one the others";
    EXPECT_FALSE(apart({a, b, c, a}));
    EXPECT_FALSE(apart({a, object_of(R"("k":{"const":"b"})", "")})) << "it need not be there";
    EXPECT_FALSE(apart({a, R"({"type":["object","null"]})"}));
    EXPECT_TRUE(apart({a, b, R"({"type":["string","null"]})"}));
}

// No property is in all three, and yet each two differ in one.
TEST(schemas_apart, objects_that_no_one_property_divides_are_compared_in_pairs) {
    EXPECT_TRUE(apart({object_of(R"("a":{"const":1},"b":{"const":1})", R"("a","b")"),
                       object_of(R"("a":{"const":2},"c":{"const":1})", R"("a","c")"),
                       object_of(R"("b":{"const":2},"c":{"const":2})", R"("b","c")")}));
    EXPECT_FALSE(apart({object_of(R"("a":{"const":1},"b":{"const":1})", R"("a","b")"),
                        object_of(R"("a":{"const":2},"c":{"const":1})", R"("a","c")"),
                        object_of(R"("b":{"const":1},"c":{"const":2})", R"("b","c")")}));
}

TEST(schemas_apart, all_at_once_says_what_each_pair_says) {
    std::mt19937 random(9);
    const auto below = [&](unsigned count) { return random() % count; };
    const std::vector<std::string> types{"string", "integer", "number", "null", "object"};
    const auto any_schema = [&]() -> std::string {
        switch (below(4)) {
            case 0:
                return R"({"type":")" + types[below(5)] + "\"}";
            case 1:
                return R"({"enum":[)" + std::to_string(below(9)) + "," + std::to_string(below(9)) +
                       R"(],"type":"integer"})";
            default: {
                std::string properties, required;
                for (const char* name : {"a", "b", "c"}) {
                    if (below(3) == 0) continue;
                    properties += (properties.empty() ? "\"" : ",\"") + std::string(name) +
                                  R"(":{"enum":[)" + std::to_string(below(3)) + "," +
                                  std::to_string(below(3)) + "]}";
                    if (below(4) == 0) continue;
                    required += (required.empty() ? "\"" : ",\"") + std::string(name) + "\"";
                }
                return object_of(properties, required);
            }
        }
    };
    int apart_count = 0;
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::string> schemas;
        for (unsigned i = 0; i < 2 + below(3); ++i) schemas.push_back(any_schema());
        bool each_pair = true;
        for (std::size_t i = 0; i < schemas.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                each_pair = each_pair && apart({schemas[i], schemas[j]});
        ASSERT_EQ(apart(schemas), each_pair) << testing::PrintToString(schemas);
        apart_count += each_pair ? 1 : 0;
    }
    EXPECT_GT(apart_count, 100);
}

}  // namespace
}  // namespace semantic::engine
