// SPDX-License-Identifier: Apache-2.0
#include "protocol/agents/agents.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

namespace semantic::protocol::agents {
namespace {

namespace json = boost::json;

agent_card card(const std::string& id, bool hot, bool dirty = false, bool running = false) {
    agent_card one;
    one.id = id;
    one.hot = hot;
    one.dirty = dirty;
    one.running = running;
    one.tokens = 300;
    one.ram_bytes = hot ? 4096 : 0;
    one.shared_bytes = hot ? 1024 : 0;
    one.disk_bytes = 1 << 20;
    one.last_used += std::chrono::milliseconds(1'700'000'000'250);
    return one;
}

std::string name_in(const std::string& body) {
    auto name = parse_name(body);
    EXPECT_TRUE(name) << body << ": " << (name ? "" : name.error().message);
    return name && *name ? (*name)->str() : "";
}

TEST(parse_name, a_name_is_taken_and_none_leaves_the_choice_to_the_server) {
    EXPECT_EQ(name_in(R"({"agent_id":"a.b_C:9-"})"), "a.b_C:9-");
    for (const char* none : {"", "{}", "null", R"({"agent_id":null})", R"({"other":1})"})
        EXPECT_EQ(name_in(none), "") << none;
}

TEST(parse_name, what_is_no_name_is_refused_by_path) {
    struct row {
        std::string body;
        errc code;
    };
    for (const row& r :
         {row{R"({"agent_id":""})", errc::bad_value},
          row{R"({"agent_id":"../x"})", errc::bad_value},
          row{R"({"agent_id":"a b"})", errc::bad_value}, row{R"({"agent_id":5})", errc::bad_value},
          row{R"({"agent_id":")" + std::string(129, 'a') + R"("})", errc::bad_value},
          row{"[]", errc::bad_value}, row{"{", errc::malformed_json}}) {
        auto name = parse_name(r.body);
        ASSERT_FALSE(name) << r.body;
        EXPECT_EQ(name.error().code, r.code) << r.body;
        if (r.body.starts_with(R"({"agent)")) {
            EXPECT_TRUE(name.error().message.starts_with("agent_id: ")) << name.error().message;
        }
    }
    EXPECT_TRUE(parse_name(R"({"agent_id":")" + std::string(128, 'a') + R"("})"));
}

TEST(parse_path_id, takes_names_only) {
    EXPECT_EQ(parse_path_id("sess_a")->str(), "sess_a");
    for (const char* bad : {"", "a/b", "..%2f", "a b", "\xc3\xa9"})
        EXPECT_EQ(parse_path_id(bad).error().code, errc::bad_value) << bad;
}

TEST(agent_body, says_where_the_memory_is_and_what_it_takes) {
    EXPECT_EQ(agent_body(card("a", true), "tiny"),
              R"({"agent_id":"a","status":"active","cache_size_tokens":300,"tier":"hot",)"
              R"("tokens":300,"ram_bytes":4096,"shared_bytes":1024,"file_size_bytes":1048576,)"
              R"("last_accessed":1700000000.25,"dirty":false,"running":false,"model_id":"tiny",)"
              R"("memories":[],"bytes_written":{"last_turn":0,"total":0}})");
    auto warm = json::parse(agent_body(card("b", false, true, true), "tiny"));
    EXPECT_EQ(warm.at("tier").as_string(), "warm");
    EXPECT_TRUE(warm.at("dirty").as_bool());
    EXPECT_TRUE(warm.at("running").as_bool());
}

TEST(agent_body, shows_what_each_model_remembers_and_what_only_another_does) {
    agent_card both = card("a", true);
    both.memories = {{"tiny", std::string(32, 'a'), true, true, 300, 2048, 4096, both.last_used},
                     {"", std::string(32, 'b'), false, false, 20, 0, 512, both.last_used}};
    EXPECT_EQ(
        json::serialize(json::parse(agent_body(both, "tiny")).at("memories")),
        R"([{"model_id":"tiny","fingerprint":"aaaaaaaaaaaa","loaded":true,"tier":"hot",)"
        R"("tokens":300,"ram_bytes":2048,"file_size_bytes":4096,"last_accessed":1.70000000025E9},)"
        R"({"model_id":null,"fingerprint":"bbbbbbbbbbbb","loaded":false,"tier":"warm",)"
        R"("tokens":20,"ram_bytes":0,"file_size_bytes":512,"last_accessed":1.70000000025E9}])");
    agent_card others = card("b", false);
    others.remembered = false;
    EXPECT_EQ(json::parse(agent_body(others, "tiny")).at("tier").as_string(), "cold");
}

TEST(means_model, a_name_or_enough_of_a_fingerprint) {
    const std::string fingerprint = "0123456789abcdef0123456789abcdef";
    EXPECT_TRUE(means_model("tiny", "tiny", fingerprint));
    EXPECT_TRUE(means_model("01234567", "tiny", fingerprint));
    EXPECT_TRUE(means_model(fingerprint, "", fingerprint));
    EXPECT_FALSE(means_model("0123456", "tiny", fingerprint)) << "7 digits";
    EXPECT_FALSE(means_model("", "", fingerprint));
    EXPECT_FALSE(means_model("tin", "tiny", fingerprint));
    EXPECT_FALSE(means_model(fingerprint + "0", "tiny", fingerprint));
}

TEST(created_body, names_the_parent_of_a_fork_only) {
    auto made = json::parse(created_body(card("a", true), "tiny", "")).as_object();
    EXPECT_FALSE(made.contains("parent_agent_id"));
    auto fork = json::parse(created_body(card("a", true), "tiny", "p"));
    EXPECT_EQ(fork.at("parent_agent_id").as_string(), "p");
}

TEST(agent_body, says_what_its_policy_comes_to_and_why_not) {
    using std::chrono::seconds;
    agent_card agent = card("a", true);
    const auto policy = [&] {
        return json::serialize(json::parse(agent_body(agent, "tiny")).at("policy"));
    };
    agent.policy = {seconds(3600), {}};
    EXPECT_EQ(policy(), R"({"keep_seconds":3600,"pinned":false,"keeps_until":1.70000360025E9,)"
                        R"("holds":false,"why_not":"expired"})");
    agent.policy = {{}, true};
    EXPECT_EQ(policy(), R"({"keep_seconds":null,"pinned":true,"holds":false,"why_not":"share"})");
    agent.claim = storage::memory_claim::pinned;
    EXPECT_EQ(policy(), R"({"keep_seconds":null,"pinned":true,"holds":true})");
    agent.policy = {seconds(0), {}};
    agent.claim = storage::memory_claim::first_to_go;
    EXPECT_EQ(policy(),
              R"({"keep_seconds":0,"pinned":false,"keeps_until":1.70000000025E9,"holds":false})");
    agent.policy = {seconds(3600), {}};
    agent.claim = storage::memory_claim::none;
    agent.last_used = std::chrono::system_clock::now();
    EXPECT_EQ(json::parse(agent_body(agent, "tiny")).at("policy").at("why_not").as_string(),
              "share");
    agent.is_over_bound = true;
    EXPECT_EQ(json::parse(agent_body(agent, "tiny")).at("not_saved").as_string(), "over_bound");
}

TEST(parse_change, takes_a_time_a_pin_a_prefetch_or_a_drop) {
    using std::chrono::seconds;
    EXPECT_EQ(parse_change(R"({"keep":"1h"})")->keep, seconds(3600));
    EXPECT_EQ(parse_change(R"({"keep":90})")->keep, seconds(90));
    EXPECT_TRUE(parse_change(R"({"keep":null})")->ends_keeping);
    EXPECT_EQ(parse_change(R"({"pin":false})")->pin, false);
    EXPECT_TRUE(parse_change(R"({"prefetch":true,"pin":true})")->prefetches);
    EXPECT_TRUE(parse_change(R"({"drop":true})")->drops);
    for (const char* bad :
         {"{}", R"({"drop":false})", R"({"prefetch":false})", R"({"keep":"soon"})",
          R"({"keep":-1})", R"({"keep":315360001})", R"({"keep":"3651d"})", R"({"keep":1.5})",
          R"({"pin":1})", R"({"drop":true,"pin":true})", R"({"drop":true,"prefetch":true})",
          R"({"drop":true,"keep":null})", R"({"keeps":"1h"})", R"([])", R"("x")", ""})
        EXPECT_FALSE(parse_change(bad)) << bad;
    EXPECT_EQ(parse_change(R"({"keep":315360000})")->keep,
              storage::memory_policy::keep_seconds_max);
    EXPECT_EQ(parse_change(R"({"keeps":"1h"})").error().path, "keeps");
}

TEST(agent_change, changes_what_it_names_and_leaves_the_rest) {
    using std::chrono::seconds;
    const storage::memory_policy before{seconds(60), true};
    const auto after = [&](const char* body) { return parse_change(body)->apply(before); };
    EXPECT_EQ(after(R"({"keep":"5m"})"), (storage::memory_policy{seconds(300), true}));
    EXPECT_EQ(after(R"({"keep":null})"), (storage::memory_policy{{}, true}));
    EXPECT_EQ(after(R"({"pin":false})"), (storage::memory_policy{seconds(60), {}}));
    EXPECT_TRUE(after(R"({"pin":false,"keep":null})").is_empty());
    EXPECT_EQ(after(R"({"prefetch":true})"), before);
}

TEST(parse_fork, takes_a_name_and_a_place) {
    EXPECT_EQ(parse_fork("")->at.message, std::nullopt);
    EXPECT_EQ(parse_fork(R"({"agent_id":"b","at":"msg_1"})")->at.message, "msg_1");
    EXPECT_EQ(parse_fork(R"({"agent_id":"b","at":"msg_1"})")->name->str(), "b");
    EXPECT_EQ(parse_fork(R"({"at":300})")->at.tokens, 300);
    EXPECT_EQ(parse_fork(R"({"at":null})")->at.tokens, std::nullopt);
    for (const char* bad : {R"({"at":-1})", R"({"at":1.5})", R"({"at":""})", R"({"at":{}})",
                            R"({"at":true})", R"({"at":16777217})"})
        EXPECT_EQ(parse_fork(bad).error().path, "at") << bad;
    EXPECT_FALSE(parse_fork("{\"at\":\"" + std::string(129, 'a') + "\"}"));
    EXPECT_TRUE(parse_fork("{\"at\":\"" + std::string(128, 'a') + "\"}"));
}

TEST(created_body, says_up_to_where_a_fork_goes) {
    const auto at = [](const engine::fork_point& place) {
        return json::serialize(
            json::parse(created_body(card("a", true), "tiny", "p", place)).at("forked_at"));
    };
    EXPECT_EQ(at({"msg_1", {}}), R"("msg_1")");
    EXPECT_EQ(at({{}, 300}), "300");
}

/// "a b of 3" for a page, with a + where there is more.
std::string page(const list_query& query) {
    auto body = list_body({card("c", true), card("a", true), card("b", false)}, "tiny", query);
    if (!body) return body.error().message;
    auto value = json::parse(*body);
    std::string names;
    for (const auto& agent : value.at("agents").as_array())
        names.append(agent.at("agent_id").as_string()).append(" ");
    return names + "of " + std::to_string(value.at("total").to_number<int>()) +
           (value.at("has_more").as_bool() ? "+" : "");
}

TEST(list_body, has_every_agent_by_name_and_their_number) {
    EXPECT_EQ(*list_body({}, "tiny", {}), R"({"agents":[],"total":0,"has_more":false})");
    auto two = json::parse(*list_body({card("b", false), card("a", true)}, "tiny", {}));
    EXPECT_EQ(two.at("total").to_number<int>(), 2);
    EXPECT_EQ(two.at("agents").at(0).at("agent_id").as_string(), "a");
    EXPECT_EQ(two.at("agents").at(1).at("tier").as_string(), "warm");
}

TEST(list_body, pages_follow_each_other_though_an_agent_goes_in_between) {
    EXPECT_EQ(page({}), "a b c of 3");
    EXPECT_EQ(page({"2", {}}), "a b of 3+");
    EXPECT_EQ(page({"2", "b"}), "c of 3");
    EXPECT_EQ(page({"1", "aa"}), "b of 3+") << "there is no agent aa";
    EXPECT_EQ(page({{}, "c"}), "of 3");
    EXPECT_EQ(page({"3", {}}), "a b c of 3");
    EXPECT_EQ(page({"1000", {}}), "a b c of 3");
    for (const char* limit : {"0", "1001", "-1", "x", ""})
        EXPECT_EQ(page({limit, {}}), "limit: must be a whole number between 1 and 1000") << limit;
    EXPECT_TRUE(page({{}, "../x"}).starts_with("after: ")) << page({{}, "../x"});
}

TEST(stats_body, counts_add_up_and_capacity_stands_beside_them) {
    capacity_card memory;
    memory.model = "tiny";
    memory.pool_bytes = 3000;
    memory.pool_bytes_held = 1000;
    memory.disk_bytes = 5 << 19;
    memory.kv_bits = 4;
    memory.agents_4k = 12;
    auto stats = json::parse(stats_body(
        {card("a", true, true), card("b", false), card("c", true, false, true)}, memory));
    EXPECT_EQ(stats.at("hot_count").to_number<int>(), 2);
    EXPECT_EQ(stats.at("warm_count").to_number<int>(), 1);
    EXPECT_EQ(stats.at("total_count").to_number<int>(), 3);
    EXPECT_EQ(stats.at("dirty_count").to_number<int>(), 1);
    EXPECT_EQ(stats.at("running_count").to_number<int>(), 1);
    EXPECT_EQ(stats.at("total_tokens").to_number<int>(), 900);
    EXPECT_EQ(stats.at("pool_utilization_pct").to_number<double>(), 33.3);
    EXPECT_EQ(stats.at("total_cache_size_mb").to_number<double>(), 2.5) << "what they share, once";
    EXPECT_EQ(stats.at("capacity").at("agents_of_4096_tokens").to_number<int>(), 12);
    EXPECT_EQ(stats.at("cold_count").to_number<int>(), 0);
    EXPECT_TRUE(stats.at("models").as_array().empty());
    EXPECT_EQ(json::parse(stats_body({}, {})).at("pool_utilization_pct").to_number<double>(), 0.0);
}

TEST(stats_body, agents_of_other_models_are_cold_and_each_model_has_a_line) {
    agent_card cold = card("c", false);
    cold.remembered = false;
    cold.tokens = 0;
    capacity_card capacity;
    capacity.models = {{"tiny", std::string(32, 'a'), true, 2, 600, 1000},
                       {"other", std::string(32, 'b'), false, 1, 20, 100}};
    auto stats = json::parse(stats_body({card("a", true), card("b", false), cold}, capacity));
    EXPECT_EQ(stats.at("hot_count").to_number<int>(), 1);
    EXPECT_EQ(stats.at("warm_count").to_number<int>(), 1);
    EXPECT_EQ(stats.at("cold_count").to_number<int>(), 1);
    EXPECT_EQ(json::serialize(stats.at("models").at(1)),
              R"({"model_id":"other","fingerprint":"bbbbbbbbbbbb","loaded":false,"agents":1,)"
              R"("tokens":20,"file_size_bytes":100})");
}

TEST(import_fault, a_damaged_file_is_the_clients_fault_and_another_models_a_conflict) {
    EXPECT_EQ(import_fault({storage::errc::corrupt, "x"}).code, errc::bad_value);
    EXPECT_EQ(import_fault({storage::errc::incompatible, "x"}).code, errc::conflict);
    EXPECT_EQ(import_fault({storage::errc::io, "x"}).code, errc::internal);
}

}  // namespace
}  // namespace semantic::protocol::agents
