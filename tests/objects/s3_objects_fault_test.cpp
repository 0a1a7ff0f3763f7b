// SPDX-License-Identifier: Apache-2.0
// An S3 store that is reached through a faulty connection. Where the store itself has to answer,
// the one that SEMANTIC_TEST_S3 names does.

#include <gtest/gtest.h>

#include <thread>

#include "tests/objects/stores.hpp"
#include "tests/support/fault_proxy.hpp"

namespace semantic::storage {
namespace {

using std::chrono::milliseconds;
using steady = std::chrono::steady_clock;
using tests::fault_proxy;
using tests::http_answer;
using tests::trouble;

constexpr const char* slow_down =
    "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>later</Message></Error>";

s3_options quick(s3_options options, const fault_proxy& proxy) {
    options.endpoint = "http://127.0.0.1:" + std::to_string(proxy.port());
    options.retries.first_max = milliseconds(5);
    options.retries.wait_max = milliseconds(20);
    options.http.connect_max = milliseconds(2000);
    return options;
}

/// Of a store that is nothing but trouble.
s3_options alone(const fault_proxy& proxy) {
    s3_options options;
    options.bucket = "bucket";
    options.credentials = {"access", "very-secret", "session-secret"};
    return quick(options, proxy);
}

class s3_objects_fault : public testing::Test {
  protected:
    void SetUp() override {
        if (!tests::s3_url()) GTEST_SKIP() << "SEMANTIC_TEST_S3 names no S3 store";
        s3_options options = tests::s3_options_for_test();
        proxy_ = std::make_unique<fault_proxy>(tests::port_of(options.endpoint));
        straight_ = make_s3_objects(options);
        store_ = make_s3_objects(quick(options, *proxy_));
    }
    std::string read(object_store& store, const std::string& name) {
        std::string bytes;
        const auto got = store.get(name, bytes);
        return got ? bytes : std::string("error: ") + to_string(got.error().code);
    }

    std::unique_ptr<fault_proxy> proxy_;
    std::unique_ptr<object_store> straight_, store_;
};

TEST(s3_objects_alone, a_busy_store_is_asked_as_often_as_the_bound_says) {
    fault_proxy proxy;
    proxy.order_always(trouble::answer, http_answer(503, "", slow_down));
    const auto store = make_s3_objects(alone(proxy));
    std::string bytes;
    const auto got = store->get("a", bytes);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, object_errc::unavailable);
    EXPECT_NE(got.error().what.find("503 SlowDown: later (6 tries)"), std::string::npos)
        << got.error().what;
    EXPECT_EQ(proxy.requests().size(), 6U);
}

TEST(s3_objects_alone, each_refusal_has_its_kind_and_only_the_passing_ones_are_tried_again) {
    struct answer {
        int status;
        const char* code;
        object_errc kind;
        std::size_t tries;
    };
    for (const answer& each :
         {answer{400, "InvalidRequest", object_errc::io, 1},
          answer{400, "RequestTimeout", object_errc::unavailable, 6},
          answer{400, "XAmzContentSHA256Mismatch", object_errc::unavailable, 6},
          answer{400, "ExpiredToken", object_errc::denied, 1},
          answer{401, "", object_errc::denied, 1},
          answer{403, "AccessDenied", object_errc::denied, 1},
          answer{403, "SignatureDoesNotMatch", object_errc::denied, 1},
          answer{404, "NoSuchKey", object_errc::not_found, 1},
          answer{404, "NoSuchBucket", object_errc::io, 1},
          answer{301, "PermanentRedirect", object_errc::io, 1},
          answer{409, "ConditionalRequestConflict", object_errc::unavailable, 6},
          // The second asks whose write it is that is there.
          answer{412, "PreconditionFailed", object_errc::precondition_failed, 2},
          answer{429, "", object_errc::unavailable, 6},
          answer{500, "InternalError", object_errc::unavailable, 6},
          answer{501, "NotImplemented", object_errc::io, 1},
          answer{502, "", object_errc::unavailable, 6},
          answer{504, "", object_errc::unavailable, 6}}) {
        fault_proxy proxy;
        proxy.order_always(trouble::answer, http_answer(each.status, "",
                                                        "<Error><Code>" + std::string(each.code) +
                                                            "</Code><Message>m</Message></Error>"));
        const auto put = make_s3_objects(alone(proxy))->put("a", "x", if_absent());
        ASSERT_FALSE(put) << each.status;
        EXPECT_EQ(put.error().code, each.kind) << each.status << " " << put.error().what;
        EXPECT_EQ(proxy.requests().size(), each.tries) << each.status << " " << each.code;
    }
}

TEST(s3_objects_alone, a_store_that_is_gone_is_unavailable_in_bounded_time) {
    s3_options options;
    {
        fault_proxy gone;
        options = alone(gone);
    }
    const auto begin = steady::now();
    const auto put = make_s3_objects(options)->put("a", "x", always());
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, object_errc::unavailable) << put.error().what;
    EXPECT_LT(steady::now() - begin, std::chrono::seconds(20));
}

TEST(s3_objects_alone, a_store_that_says_nothing_is_given_up) {
    fault_proxy proxy;
    proxy.order_always(trouble::delay);
    s3_options options = alone(proxy);
    options.http.total_max = milliseconds(100);
    options.retries.attempts_max = 2;
    // The proxy leads to no server; what it does after its delay comes too late.
    fault_proxy in_front(proxy.port());
    options.endpoint = "http://127.0.0.1:" + std::to_string(in_front.port());
    in_front.order_always(trouble::delay);
    const auto begin = steady::now();
    const auto put = make_s3_objects(options)->put("a", "x", always());
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, object_errc::unavailable) << put.error().what;
    EXPECT_LT(steady::now() - begin, std::chrono::seconds(10));
}

TEST(s3_objects_alone, retry_after_is_waited_for_and_given_up_when_it_is_too_long) {
    {
        fault_proxy proxy;
        proxy.order(trouble::answer, http_answer(503, "Retry-After: 1\r\n", slow_down));
        proxy.order_always(trouble::answer, http_answer(404));
        std::string bytes;
        const auto begin = steady::now();
        EXPECT_EQ(make_s3_objects(alone(proxy))->get("a", bytes).error().code,
                  object_errc::not_found);
        EXPECT_GE(steady::now() - begin, milliseconds(1000));
        EXPECT_EQ(proxy.requests().size(), 2U);
    }
    fault_proxy proxy;
    proxy.order_always(trouble::answer, http_answer(503, "Retry-After: 3600\r\n", slow_down));
    std::string bytes;
    EXPECT_EQ(make_s3_objects(alone(proxy))->get("a", bytes).error().code,
              object_errc::unavailable);
    EXPECT_EQ(proxy.requests().size(), 1U);
}

TEST(s3_objects_alone, waiting_ends_when_the_program_is_stopped) {
    fault_proxy proxy;
    proxy.order_always(trouble::answer, http_answer(503, "Retry-After: 30\r\n", slow_down));
    std::stop_source stop;
    s3_options options = alone(proxy);
    options.http.stop = stop.get_token();
    const auto store = make_s3_objects(options);
    std::jthread stopper([&] {
        std::this_thread::sleep_for(milliseconds(100));
        stop.request_stop();
    });
    const auto begin = steady::now();
    const auto put = store->put("a", "x", always());
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, object_errc::unavailable);
    EXPECT_LT(steady::now() - begin, std::chrono::seconds(20));
}

TEST(s3_objects_alone, an_answer_longer_than_its_bound_is_not_taken) {
    fault_proxy proxy;
    proxy.order_always(trouble::answer, http_answer(206, "Content-Range: bytes 0-0/1\r\n",
                                                    std::string((1 << 20) + 1, 'x')));
    std::byte one{};
    const auto got = make_s3_objects(alone(proxy))->get_range("a", 0, {&one, 1});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, object_errc::io) << got.error().what;
    EXPECT_EQ(proxy.requests().size(), 1U);
}

TEST(s3_objects_alone, no_failure_tells_a_secret) {
    for (const int status : {301, 400, 403, 404, 500}) {
        fault_proxy proxy;
        proxy.order_always(trouble::answer, http_answer(status, "", slow_down));
        const auto put = make_s3_objects(alone(proxy))->put("a", "x", always());
        ASSERT_FALSE(put);
        EXPECT_EQ(put.error().what.find("secret"), std::string::npos) << put.error().what;
        EXPECT_EQ(proxy.requests().at(0).find("very-secret"), std::string::npos);
        EXPECT_NE(proxy.requests().at(0).find("x-amz-security-token: session-secret"),
                  std::string::npos);
    }
}

TEST(s3_objects_alone, a_list_that_does_not_get_on_ends_in_an_error) {
    fault_proxy proxy;
    proxy.order_always(
        trouble::answer,
        http_answer(200, "",
                    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
                    "</NextContinuationToken></ListBucketResult>"));
    const auto store = make_s3_objects(alone(proxy));
    EXPECT_EQ(store->list("", "", 10)->next, "t");
    EXPECT_EQ(store->list("", "t", 10).error().code, object_errc::corrupt);
}

TEST_F(s3_objects_fault, passing_trouble_is_not_seen) {
    const std::string bytes(100'000, 'b');
    for (const auto& [kind, text] :
         {std::pair{trouble::answer, http_answer(503, "", slow_down)},
          std::pair{trouble::answer, http_answer(500)},
          std::pair{trouble::cut_before, std::string()},
          std::pair{trouble::cut_after, std::string()}, std::pair{trouble::delay, std::string()}}) {
        proxy_->order(kind, text, 2);
        const auto put = store_->put("a", bytes, always());
        ASSERT_TRUE(put) << put.error().what;
        proxy_->order(kind, text, 2);
        EXPECT_EQ(read(*store_, "a"), bytes);
        proxy_->order(kind, text, 2);
        EXPECT_TRUE(store_->stat(std::vector<std::string>{"a"})->at(0));
        proxy_->order(kind, text, 2);
        EXPECT_EQ(store_->list("", "", 10)->objects.size(), 1U);
        proxy_->order(kind, text, 2);
        EXPECT_TRUE(store_->remove("a"));
    }
}

TEST_F(s3_objects_fault, an_answer_cut_short_or_changed_on_the_way_is_fetched_again) {
    const std::string bytes(100'000, 'b');
    ASSERT_TRUE(straight_->put("a", bytes, always()));
    for (const trouble kind : {trouble::truncate_answer, trouble::flip_answer}) {
        proxy_->order(kind, "", 2);
        EXPECT_EQ(read(*store_, "a"), bytes);
    }
    proxy_->order_always(trouble::flip_answer);
    EXPECT_EQ(read(*store_, "a"), "error: corrupt");
    proxy_->order_always(trouble::truncate_answer);
    EXPECT_EQ(read(*store_, "a"), "error: unavailable");
    std::string part(10, '\0');
    const auto ranged = store_->get_range("a", 5, std::as_writable_bytes(std::span(part)));
    ASSERT_FALSE(ranged);
    EXPECT_EQ(ranged.error().code, object_errc::unavailable);
}

TEST_F(s3_objects_fault, bytes_changed_on_the_way_up_are_never_read_as_right) {
    proxy_->order(trouble::flip_upload);
    const auto put = store_->put("a", "right", always());
    // A store that compares the checksum refuses the upload, which is then tried again; one that
    // does not stores the sum of the right bytes with the wrong bytes.
    const std::string is = read(*straight_, "a");
    EXPECT_EQ(is, proxy_->requests().size() > 1 ? "right" : "error: corrupt");
    EXPECT_TRUE(put) << put.error().what;
}

TEST_F(s3_objects_fault, a_write_whose_answer_was_lost_is_known_again) {
    proxy_->order(trouble::cut_after);
    const auto made = store_->put("a", "1", if_absent());
    ASSERT_TRUE(made) << made.error().what;
    proxy_->order(trouble::cut_after);
    const auto replaced = store_->put("a", "2", if_version(*made));
    ASSERT_TRUE(replaced) << replaced.error().what;
    EXPECT_EQ(read(*straight_, "a"), "2");
    EXPECT_EQ(straight_->stat(std::vector<std::string>{"a"})->at(0)->version, *replaced);
}

TEST_F(s3_objects_fault, a_write_that_arrived_twice_is_known_again) {
    // As libcurl sends it by itself when a connection that was open already dies.
    proxy_->order(trouble::twice);
    const auto made = store_->put("a", "1", if_absent());
    ASSERT_TRUE(made) << made.error().what;
    proxy_->order(trouble::twice);
    const auto replaced = store_->put("a", "2", if_version(*made));
    ASSERT_TRUE(replaced) << replaced.error().what;
    EXPECT_EQ(read(*straight_, "a"), "2");
}

TEST_F(s3_objects_fault, no_version_is_no_condition_that_holds) {
    ASSERT_TRUE(store_->put("a", "1", always()));
    const auto put = store_->put("a", "2", if_version(""));
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, object_errc::bad_value);
    EXPECT_EQ(read(*straight_, "a"), "1");
}

TEST_F(s3_objects_fault, another_ones_write_is_not_taken_for_the_lost_one) {
    const auto first = straight_->put("a", "1", always());
    ASSERT_TRUE(first);
    // The first try never arrives, and another one writes the same bytes before the second.
    proxy_->order(trouble::cut_before);
    proxy_->order(trouble::delay);
    std::jthread other([&] {
        while (proxy_->requests().size() < 2) std::this_thread::sleep_for(milliseconds(1));
        EXPECT_TRUE(straight_->put("a", "2", always()));
    });
    const auto put = store_->put("a", "2", if_version(*first));
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, object_errc::precondition_failed) << put.error().what;
}

TEST_F(s3_objects_fault, a_store_that_ignores_conditions_is_found_out) {
    for (const char* header : {"if-none-match", "if-match"}) {
        proxy_->order_always(trouble::drop_header, header);
        const auto checked = check_conditions(*store_);
        ASSERT_FALSE(checked) << header;
        EXPECT_EQ(checked.error().code, object_errc::io) << checked.error().what;
        EXPECT_TRUE(straight_->list("", "", 10)->objects.empty());
    }
}

TEST_F(s3_objects_fault, wrong_keys_are_denied) {
    s3_options options = tests::s3_options_for_test();
    options.credentials.secret_key += "x";
    const auto put = make_s3_objects(options)->put("a", "x", always());
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, object_errc::denied) << put.error().what;
}

TEST_F(s3_objects_fault, a_bucket_that_is_not_there_is_no_missing_object) {
    s3_options options = tests::s3_options_for_test();
    options.bucket = "nobodys-bucket-" + random_id().substr(0, 8);
    std::string bytes;
    const auto got = make_s3_objects(options)->get("a", bytes);
    ASSERT_FALSE(got);
    EXPECT_NE(got.error().code, object_errc::not_found) << got.error().what;
    EXPECT_NE(make_s3_objects(options)->list("", "", 1).error().code, object_errc::not_found);
}

}  // namespace
}  // namespace semantic::storage
