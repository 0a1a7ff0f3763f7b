// SPDX-License-Identifier: Apache-2.0
// The rules about what documents lead to and about words, each fed a snippet that breaks it and a
// near miss.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

std::string repeated(const std::string& line, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += line;
    return text;
}

/// The one finding of a tree; a failure when there is not exactly one.
finding only(const findings& found) {
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? finding{"", 999, ""} : found.front();
}

TEST(tidy_rules, a_link_that_leads_nowhere_is_found) {
    const auto target = make_source("storage/README.md", "# storage\n\n## Disk quota: 5 %\n");
    const auto links = [&](const std::string& text) {
        return document_links({target, make_source("etc/guide/a.md", text + "\n")});
    };
    EXPECT_TRUE(links("[a](../../storage/README.md)").empty());
    EXPECT_TRUE(links("[a](../../storage/README.md#disk-quota-5-)").empty());
    EXPECT_TRUE(links("[a](../../storage), [b](https://a.example/none.md)").empty());
    EXPECT_TRUE(links("```\n[a](none.md)\n```").empty());
    EXPECT_EQ(only(links("\n[a](../storage/README.md)")).line, 2U);
    EXPECT_EQ(links("[a](../../storage/README.md#disk)").size(), 1U);
    EXPECT_EQ(links("[a](../../../storage/README.md)").size(), 1U);
    EXPECT_EQ(links("## Here\n[a](#here) [b](#there)").size(), 1U);
}

TEST(tidy_rules, a_path_that_users_read_is_a_link) {
    const auto code = make_source("etc/start.sh", "");
    const auto paths = [&](const char* file, const std::string& text) {
        return unlinked_paths({code, make_source(file, text + "\n")}).size();
    };
    EXPECT_EQ(paths("etc/guide/a.md", "run `etc/start.sh`"), 1U);
    EXPECT_EQ(paths("etc/guide/a.md", "run [`etc/start.sh`](../start.sh), `bash etc/start.sh`"),
              0U);
    EXPECT_EQ(paths("etc/guide/a.md", "`/v1/models`, `etc`, `config.json`"), 0U);
    EXPECT_EQ(paths("storage/README.md", "run `etc/start.sh`"), 0U);
}

TEST(tidy_rules, a_command_that_no_step_has_made_is_found) {
    const auto start = make_source("etc/start.sh", "");
    const auto test = make_source("etc/test.sh", "");
    const auto commands = [&](const std::string& text) {
        return document_commands({start, test, make_source("README.md", text + "\n")});
    };
    EXPECT_TRUE(commands("bash etc/start.sh\nbuild/bin/semantic-server").empty());
    EXPECT_EQ(only(commands("bash etc/start.sh\nbuild/bin/semantic-eval")).line, 2U);
    EXPECT_EQ(commands("bash etc/test.sh --help\nbuild/bin/semantic-eval").size(), 1U);
    EXPECT_TRUE(commands("bash etc/test.sh --build\nbuild/bin/semantic-eval").empty());
    EXPECT_TRUE(commands("cmake --build build --target a-b\nbuild/bin/a-b").empty());
    EXPECT_EQ(commands("cmake --build build --target a-b\nbuild/bin/c").size(), 1U);
    EXPECT_EQ(commands("bash etc/stop.sh").size(), 1U);
}

TEST(tidy_rules, a_front_page_of_151_lines_or_101_columns_is_found) {
    const auto page = [](const std::string& text) {
        return front_page({make_source("README.md", text)}).size();
    };
    EXPECT_EQ(page(repeated("a\n", 150)), 0U);
    EXPECT_EQ(page(repeated("a\n", 151)), 1U);
    EXPECT_EQ(page(std::string(100, 'a') + "\n"), 0U);
    EXPECT_EQ(page(std::string(101, 'a') + "\n"), 1U);
}

TEST(tidy_rules, a_changelog_of_another_version_is_found) {
    const auto built = make_source("server/runtime/version.hpp",
                                   "\nstd::string_view server_version = \"1.2.0\";\n");
    const auto log = [](const std::string& version) {
        return make_source("etc/package/changelog", "semantic-server (" + version + ") a; b=c\n");
    };
    EXPECT_TRUE(changelog_version({built, log("1.2.0")}).empty());
    EXPECT_EQ(only(changelog_version({built, log("1.1.0")})).file, "etc/package/changelog");
}

TEST(tidy_rules, a_word_that_plain_english_does_without_is_found) {
    const auto words = [](const std::string& text, const std::vector<exception>& allowed = {}) {
        return plain_documents({make_source("a/README.md", text + "\n")}, allowed);
    };
    EXPECT_EQ(only(words("\nWho waits Behind the lock")).line, 2U);
    EXPECT_TRUE(words("`behind`, behindhand\n```\nbehind\n```").empty());
    const std::vector<exception> sun{{"a/README.md", "behind the sun", "where else"}};
    EXPECT_TRUE(words("stars behind the sun", sun).empty());
    EXPECT_EQ(words("stars behind the moon", sun).size(), 1U);
    EXPECT_EQ(stale_words({make_source("a/README.md", "the sun\n")}, sun).size(), 1U);
    EXPECT_TRUE(stale_words({make_source("a/README.md", "behind the sun\n")}, sun).empty());
}

TEST(tidy_rules, a_comment_with_such_a_word_is_found) {
    const auto comments = [](const std::string& code) {
        return plain_comments({make_source("storage/a.cpp", code + "\n")});
    };
    EXPECT_EQ(only(comments("\nint a;  // waits Behind the lock")).line, 2U);
    EXPECT_EQ(comments("// behind\n/// anew").size(), 2U);
    EXPECT_TRUE(comments("int behind;\nauto url = \"http://behind\";  // after").empty());
    EXPECT_TRUE(comments("// `behind`, behindhand").empty());
}

TEST(tidy_rules, a_name_that_is_a_preposition_is_found) {
    const auto names = [](const std::string& code, const std::vector<exception>& allowed = {}) {
        return plain_names({make_source("storage/a.cpp", code + "\n")}, allowed);
    };
    for (const char* declared :
         {"void f(const settings& with);", "auto of = 1;", "int who;", "T&& what)", "U* in_{};",
          "std::vector<int> them(3);", "bool in(int x);", "for (char behind : text) {"}) {
        EXPECT_EQ(names(declared).size(), 1U) << declared;
    }
    for (const char* fine : {"return of;", "f(x, of);", "g(what, with);", "// int of;", "e.what();",
                             "using with = int;", "int offset;", "case on:", "int from, to, at;",
                             "x = \"int of;\";", "const char* what() const noexcept override;"}) {
        EXPECT_TRUE(names(fine).empty()) << fine;
    }
    EXPECT_EQ(only(names("int a;\nint of_;")).line, 2U);
}

TEST(tidy_rules, a_name_is_excepted_in_its_file_and_an_exception_has_its_name) {
    const std::vector<exception> messages{{"storage/a.cpp", "what", "as std::exception has it"}};
    const auto check = [&](const char* path, const char* code) {
        return plain_names({make_source(path, code)}, messages).size();
    };
    EXPECT_EQ(check("storage/a.cpp", "std::string what;\n"), 0U);
    EXPECT_EQ(check("storage/a.cpp", "std::string what;\nint of;\n"), 1U);
    EXPECT_EQ(check("storage/b.cpp", "std::string what;\n"), 1U);
    EXPECT_TRUE(
        stale_names({make_source("storage/a.cpp", "std::string what;\n")}, messages).empty());
    EXPECT_EQ(stale_names({make_source("storage/a.cpp", "int of;\n")}, messages).size(), 1U);
    EXPECT_EQ(stale_names({}, messages).size(), 1U);
}

}  // namespace
}  // namespace semantic::tidy
