// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/sse.hpp"

#include <gtest/gtest.h>

namespace semantic::protocol {
namespace {

TEST(sse, event_has_name_data_and_an_empty_line) {
    EXPECT_EQ(sse_event("ping", "{}"), "event: ping\ndata: {}\n\n");
    EXPECT_EQ(sse_event("", "[DONE]"), "data: [DONE]\n\n");
    EXPECT_EQ(sse_comment("keep-alive"), ": keep-alive\n\n");
}

}  // namespace
}  // namespace semantic::protocol
