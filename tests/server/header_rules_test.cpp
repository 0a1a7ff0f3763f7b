// SPDX-License-Identifier: Apache-2.0
// Headers that two readers may understand differently.

#include "server/http/connection/header_rules.hpp"

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::http_client;
using tests::http_reply;

TEST(header_rules, a_header_that_can_be_read_in_two_ways_is_400_and_ends_the_connection) {
    test_server server;
    server.ready();
    const std::string post = "POST /v1/messages HTTP/1.1\r\n";
    struct row {
        std::string header;
        const char* why;
    };
    for (const row& one :
         {row{"GET /health/live HTTP/1.1\r\n", "host is missing"},
          row{"GET /health/live HTTP/1.1\r\nhost: localhost\r\nHost: localhost\r\n",
              "host is given more than once"},
          row{"GET /health/live HTTP/1.0\r\nhost: localhost\r\nhost: a.example\r\n",
              "host is given more than once"},
          row{"GET /health/live HTTP/1.1\r\nhost: localhost\r\nx-a: b\r\n c: d\r\n", "next line"},
          row{"GET /health/live HTTP/1.1\r\nhost: localhost\r\nx-a: b\r\n\tc\r\n", "next line"},
          row{post + "host: localhost\r\ncontent-length: 2, 2\r\n", "content-length"},
          row{post + "host: localhost\r\ncontent-length: 2\r\ncontent-length: 2\r\n",
              "content-length"},
          row{"POST /v1/messages HTTP/1.0\r\ntransfer-encoding: chunked\r\n",
              "HTTP/1.0 has no transfer-encoding"}}) {
        http_client client(server.port());
        http_reply refused = client.request(one.header + "\r\n");
        EXPECT_EQ(refused.status, 400) << one.header;
        EXPECT_NE(refused.body.find(one.why), std::string::npos) << refused.body;
        EXPECT_TRUE(client.is_closed_by_server()) << one.header;
    }
}

TEST(header_rules, http_1_0_needs_no_host) {
    test_server server;
    http_client client(server.port());
    EXPECT_EQ(client.request("GET /health/live HTTP/1.0\r\n\r\n").status, 200);
}

TEST(header_rules, a_header_that_arrives_byte_by_byte_is_read_like_any_other) {
    test_server server;
    http_client client(server.port());
    for (char one : tests::get("/health/live")) client.send(std::string(1, one));
    EXPECT_EQ(client.read_reply().status, 200);
}

}  // namespace
}  // namespace semantic::server
