// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/s3_xml.hpp"

#include <gtest/gtest.h>

namespace semantic::storage {
namespace {

const std::string page_start =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>";
const std::string two_objects =
    "<Contents><Key>p/a</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    "<ETag>&quot;00&quot;</ETag><Size>12</Size></Contents>"
    "<Contents><Key>p/b/c</Key><Size>1073741824</Size></Contents>";
const std::string last_page = "<IsTruncated>false</IsTruncated></ListBucketResult>";

TEST(s3_list, gives_names_sizes_and_where_it_goes_on) {
    const auto page = parse_s3_list(page_start + two_objects +
                                        "<IsTruncated>true</IsTruncated>"
                                        "<NextContinuationToken>a&amp;b=</NextContinuationToken>"
                                        "</ListBucketResult>",
                                    "p/");
    ASSERT_TRUE(page) << page.error().what;
    ASSERT_EQ(page->objects.size(), 2U);
    EXPECT_EQ(page->objects[0].name, "a");
    EXPECT_EQ(page->objects[0].bytes, 12U);
    EXPECT_EQ(page->objects[1].name, "b/c");
    EXPECT_EQ(page->objects[1].bytes, 1073741824U);
    EXPECT_EQ(page->next, "a&b=");
}

TEST(s3_list, ends_where_nothing_more_is_said_to_come) {
    const auto page = parse_s3_list(page_start + two_objects + last_page, "p/");
    ASSERT_TRUE(page) << page.error().what;
    EXPECT_EQ(page->next, "");
    EXPECT_TRUE(parse_s3_list(page_start + last_page, "p/")->objects.empty());
}

TEST(s3_list, keys_are_decoded_where_the_store_says_that_it_encoded_them) {
    const std::string key = "<Contents><Key>p/a%2Db</Key><Size>1</Size></Contents>";
    const auto encoded =
        parse_s3_list(page_start + "<EncodingType>url</EncodingType>" + key + last_page, "p/");
    ASSERT_EQ(encoded->objects.size(), 1U);
    EXPECT_EQ(encoded->objects[0].name, "a-b");
    EXPECT_TRUE(parse_s3_list(page_start + key + last_page, "p/")->objects.empty());
}

TEST(s3_list, strangers_are_left_out) {
    for (const char* key : {"q/a", "p/", "p/.hidden", "p/a b", "p/../a", "p/&#xe4;"}) {
        const auto page =
            parse_s3_list(page_start + "<Contents><Key>" + key + "</Key><Size>1</Size></Contents>" +
                              two_objects + last_page,
                          "p/");
        ASSERT_TRUE(page) << key;
        EXPECT_EQ(page->objects.size(), 2U) << key;
    }
}

TEST(s3_list, one_that_is_cut_off_anywhere_is_damaged) {
    const std::string whole = page_start + two_objects + last_page;
    for (std::size_t i = 0; i < whole.size(); ++i) {
        const auto page = parse_s3_list(whole.substr(0, i), "p/");
        ASSERT_FALSE(page) << i;
        EXPECT_EQ(page.error().code, object_errc::corrupt);
    }
}

TEST(s3_list, one_that_lacks_what_counts_is_damaged) {
    for (const std::string& inside :
         {"<Contents><Size>1</Size></Contents>" + last_page,
          "<Contents><Key>p/a</Key></Contents>" + last_page,
          "<Contents><Key>p/a</Key><Size>-1</Size></Contents>" + last_page,
          "<Contents><Key>p/a</Key><Size>1x</Size></Contents>" + last_page,
          "<Contents><Key>p/a</Key><Size>99999999999999999999</Size></Contents>" + last_page,
          std::string("</ListBucketResult>"),
          std::string("<IsTruncated>maybe</IsTruncated></ListBucketResult>"),
          std::string("<IsTruncated>true</IsTruncated></ListBucketResult>")}) {
        const auto page = parse_s3_list(page_start + inside, "p/");
        ASSERT_FALSE(page) << inside;
        EXPECT_EQ(page.error().code, object_errc::corrupt) << inside;
    }
    for (const char* other : {"", "{}", "<html><body>proxy</body></html>", "<Error/>"})
        EXPECT_FALSE(parse_s3_list(other, "p/")) << other;
}

TEST(s3_list, entities_of_its_own_expand_to_nothing) {
    const std::string bomb =
        "<?xml version=\"1.0\"?><!DOCTYPE l [<!ENTITY a \"aaaaaaaaaa\">"
        "<!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">]>"
        "<ListBucketResult><Contents><Key>p/&b;</Key><Size>1</Size></Contents>" +
        last_page;
    const auto page = parse_s3_list(bomb, "p/");
    EXPECT_TRUE(!page || page->objects.empty());
}

TEST(s3_list, depth_costs_no_stack) {
    std::string deep = page_start;
    for (int i = 0; i < 500'000; ++i) deep += "<a>";
    EXPECT_FALSE(parse_s3_list(deep, "p/"));
    for (int i = 0; i < 500'000; ++i) deep += "</a>";
    EXPECT_TRUE(parse_s3_list(deep + last_page, "p/"));
}

TEST(s3_error_answer, gives_code_and_message_and_is_empty_for_anything_else) {
    const s3_error error = parse_s3_error(
        "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Reduce\nyour rate</Message>"
        "</Error>");
    EXPECT_EQ(error.code, "SlowDown");
    EXPECT_EQ(error.message, "Reduce?your rate");
    EXPECT_EQ(parse_s3_error("<Error><Message>" + std::string(201, 'm') + "</Message></Error>")
                  .message.size(),
              200U);
    for (const char* other : {"", "<html>502</html>", "not XML", "<Error>"}) {
        EXPECT_EQ(parse_s3_error(other).code, "") << other;
        EXPECT_EQ(parse_s3_error(other).message, "") << other;
    }
}

}  // namespace
}  // namespace semantic::storage
