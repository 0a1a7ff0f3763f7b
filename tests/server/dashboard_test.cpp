// SPDX-License-Identifier: Apache-2.0
// The page's files as they are served. The page itself: tests/conformance/dashboard.mjs.

#include "server/dashboard/dashboard.hpp"

#include <gtest/gtest.h>

#include "server/dashboard/page_files.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::get;
using tests::http_client;
using tests::http_reply;

http_reply reply_to(const std::string& request) {
    test_server server;
    http_client client(server.ready().port());
    return client.request(request);
}

TEST(dashboard, leads_browsers_there_and_programs_not) {
    http_reply reply = reply_to(get("/", "accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"));
    EXPECT_EQ(reply.status, 303);
    EXPECT_EQ(reply.fields["location"], "/dashboard");
    for (const char* accept : {"", "accept: */*\r\n", "accept: application/json\r\n"})
        EXPECT_EQ(reply_to(get("/", accept)).status, 200) << accept;
}

TEST(dashboard, is_served_with_rules_that_let_nothing_but_its_own_files_run) {
    http_reply reply = reply_to(get("/dashboard"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.fields["content-type"], "text/html; charset=utf-8");
    const std::string rules = reply.fields["content-security-policy"];
    EXPECT_TRUE(rules.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
    EXPECT_EQ(rules.find("unsafe"), std::string::npos);
}

TEST(dashboard, needs_no_key_and_has_each_file_under_its_type) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"k"};
    test_server server(std::move(options));
    http_client client(server.ready().port());
    for (const page_file& file : page_files()) {
        http_reply reply = client.request(get("/dashboard/" + std::string(file.name)));
        EXPECT_EQ(reply.status, 200) << file.name;
        EXPECT_EQ(reply.body, file.text) << file.name;
    }
    EXPECT_EQ(client.request(get("/dashboard/app.js")).fields["content-type"],
              "text/javascript; charset=utf-8");
    for (const char* none : {"/dashboard/none.js", "/dashboard/..%2Fmain.cpp", "/dashboard/"})
        EXPECT_EQ(client.request(get(none)).status, 404) << none;
}

TEST(dashboard, names_no_other_host) {
    for (const page_file& file : page_files())
        for (std::string_view line = file.text; !line.empty();) {
            const std::size_t end = std::min(line.find('\n'), line.size());
            const std::string_view one = line.substr(0, end);
            const bool is_name_of_svg = one.find("http://www.w3.org/2000/svg") != one.npos;
            EXPECT_TRUE(one.find("://") == one.npos || is_name_of_svg) << file.name << ": " << one;
            line.remove_prefix(std::min(end + 1, line.size()));
        }
}

// Text of models and clients would be markup there.
TEST(dashboard, never_parses_text_as_markup) {
    for (const page_file& file : page_files())
        for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                                 "eval(", "DOMParser", "createContextualFragment", "srcdoc"})
            EXPECT_EQ(file.text.find(word), std::string_view::npos) << file.name << ": " << word;
}

}  // namespace
}  // namespace semantic::server
