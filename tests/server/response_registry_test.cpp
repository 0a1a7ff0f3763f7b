#include "server/responses/response_registry.hpp"

#include <gtest/gtest.h>

#include "server/responses/response_keeper.hpp"
#include "tests/support/scripted_engine.hpp"

namespace semantic::server {
namespace {

using protocol::responses::kept_response;

const storage::tenant_id nobody{};
storage::tenant_id tenant(const std::string& key) { return tests::scripted_engine().tenant(key); }

kept_response one(const std::string& id, const std::string& previous = "",
                  const std::string& input = "[]") {
    return {id, previous, 1, input, R"({"output":[]})"};
}
std::shared_ptr<const kept_response> shared(kept_response what) {
    return std::make_shared<const kept_response>(std::move(what));
}
/// What each of those above takes.
std::size_t bytes_of_one() {
    kept_responses alone;
    alone.add(nobody, shared(one("resp_1", "resp_0")));
    return alone.bytes();
}

TEST(response_registry, a_conversation_is_found_from_its_last_response_and_from_any_other) {
    kept_responses all;
    all.add(nobody, shared(one("resp_1")));
    all.add(nobody, shared(one("resp_2", "resp_1")));
    all.add(nobody, shared(one("resp_3", "resp_2")));
    all.add(nobody, shared(one("resp_4", "resp_2")));
    const auto ids = [&](const std::string& from) {
        std::string said;
        for (const auto& each : *all.chain(nobody, from)) said += each->id.back();
        return said;
    };
    EXPECT_EQ(ids("resp_3"), "123");
    EXPECT_EQ(ids("resp_4"), "124") << "a fork";
    EXPECT_EQ(ids("resp_1"), "1");
    EXPECT_EQ(all.chain(nobody, "resp_5").error().error_code, "previous_response_not_found");
}

TEST(response_registry, what_one_tenant_keeps_is_nobody_elses) {
    kept_responses all;
    all.add(tenant("a"), shared(one("resp_1")));
    EXPECT_EQ(all.find(tenant("b"), "resp_1"), nullptr);
    EXPECT_FALSE(all.chain(tenant("b"), "resp_1"));
    EXPECT_FALSE(all.remove(tenant("b"), "resp_1"));
    EXPECT_NE(all.find(tenant("a"), "resp_1"), nullptr);
}

TEST(response_registry, a_conversation_that_lost_a_response_is_lost_behind_it) {
    kept_responses all;
    all.add(nobody, shared(one("resp_1")));
    all.add(nobody, shared(one("resp_2", "resp_1")));
    EXPECT_TRUE(all.remove(nobody, "resp_1"));
    EXPECT_FALSE(all.remove(nobody, "resp_1"));
    EXPECT_EQ(all.chain(nobody, "resp_2").error().error_code, "previous_response_not_found");
    EXPECT_NE(all.find(nobody, "resp_2"), nullptr) << "it can be read";
}

TEST(response_registry, as_many_are_kept_as_the_bound_holds_and_not_one_more) {
    kept_responses all(8 * bytes_of_one());
    for (int i = 1; i <= 8; ++i)
        EXPECT_TRUE(all.add(nobody, shared(one("resp_" + std::to_string(i), "resp_0"))).empty());
    EXPECT_EQ(all.bytes(), 8 * bytes_of_one());
    const auto gone = all.add(nobody, shared(one("resp_9", "resp_0")));
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_EQ(gone[0].second, "resp_1") << "the oldest";
    EXPECT_EQ(all.bytes(), 8 * bytes_of_one());
}

TEST(response_registry, a_conversation_that_goes_on_keeps_its_beginning) {
    kept_responses all(8 * bytes_of_one());
    all.add(nobody, shared(one("resp_1")));
    for (int i = 2; i <= 30; ++i) {
        all.add(nobody, shared(one("resp_" + std::to_string(i), "resp_0")));
        ASSERT_TRUE(all.chain(nobody, "resp_1")) << i;
    }
}

TEST(response_registry, who_floods_it_lets_go_of_what_is_his) {
    kept_responses all(8 * bytes_of_one());
    all.add(tenant("quiet"), shared(one("resp_q")));
    for (int i = 0; i < 100; ++i)
        all.add(tenant("loud"), shared(one("resp_" + std::to_string(i), "resp_0")));
    EXPECT_NE(all.find(tenant("quiet"), "resp_q"), nullptr);
}

TEST(response_registry, an_item_is_found_in_the_latest_response_that_has_it) {
    kept_responses all;
    const std::string item = R"([{"id":"msg_1","type":"message"}])";
    const std::string reference = R"([{"id":"msg_1","type":"item_reference"}])";
    all.add(nobody, shared(one("resp_1", "", item)));
    all.add(nobody, shared(one("resp_2", "", item)));
    all.add(nobody, shared(one("resp_3", "", reference)));
    EXPECT_EQ(all.find_item(nobody, "msg_1")->id, "resp_2") << "a reference is no item";
    EXPECT_EQ(all.find_item(tenant("a"), "msg_1"), nullptr);
    EXPECT_EQ(all.find_item(nobody, "msg_2"), nullptr);
    all.remove(nobody, "resp_1");
    EXPECT_NE(all.find_item(nobody, "msg_1"), nullptr);
    all.remove(nobody, "resp_2");
    EXPECT_EQ(all.find_item(nobody, "msg_1"), nullptr);
}

TEST(response_registry, one_takes_a_quarter_at_most) {
    const std::size_t quarter = 2 * bytes_of_one();
    kept_responses all(4 * quarter);
    kept_response large = one("resp_1", "resp_0");
    large.input.resize(large.input.size() + quarter - bytes_of_one(), ' ');
    EXPECT_TRUE(all.has_room_for(large));
    large.input += ' ';
    EXPECT_FALSE(all.has_room_for(large));
    tests::scripted_engine engine;
    EXPECT_EQ(keep_response(all, engine, nobody, large).error().code, storage::errc::bad_value);
    EXPECT_TRUE(engine.kept.empty());
}

TEST(response_registry, responses_come_back_with_a_restart_and_those_let_go_of_do_not) {
    tests::scripted_engine engine;
    kept_responses before(8 * bytes_of_one());
    for (int i = 1; i <= 9; ++i) {
        kept_response made = one("resp_" + std::to_string(i), "resp_0");
        made.created_unix = i;
        ASSERT_TRUE(keep_response(before, engine, nobody, std::move(made)));
    }
    EXPECT_EQ(engine.kept.size(), 8u);
    ASSERT_TRUE(*drop_response(before, engine, nobody, "resp_2"));
    EXPECT_FALSE(*drop_response(before, engine, nobody, "resp_2"));
    engine.kept[{nobody, "response:resp_x"}] = {nobody, "response:resp_x", "no record"};
    engine.kept[{nobody, "session:s"}] = {nobody, "session:s", "another's"};

    response_registry after;
    EXPECT_EQ(load_responses(after, engine).size(), 1u) << "what is broken is told";
    EXPECT_EQ(after.stored.find(nobody, "resp_1"), nullptr);
    EXPECT_EQ(after.stored.find(nobody, "resp_2"), nullptr);
    ASSERT_NE(after.stored.find(nobody, "resp_9"), nullptr);
    EXPECT_EQ(after.stored.find(nobody, "resp_9")->previous, "resp_0");

    response_registry smaller(6 * bytes_of_one());
    load_responses(smaller, engine);
    EXPECT_EQ(smaller.stored.find(nobody, "resp_3"), nullptr) << "the oldest gives way";
    EXPECT_FALSE(engine.kept.contains({nobody, "response:resp_3"}));
}

TEST(response_registry, one_that_the_disk_does_not_take_is_kept_as_long_as_the_server_runs) {
    tests::scripted_engine engine;
    engine.on_keep_record = [](const storage::kept_record&) -> storage::result<void> {
        return storage::failure{storage::errc::out_of_space, "full"};
    };
    kept_responses all;
    EXPECT_FALSE(keep_response(all, engine, nobody, one("resp_1")));
    EXPECT_TRUE(all.chain(nobody, "resp_1"));
}

}  // namespace
}  // namespace semantic::server
