// SPDX-License-Identifier: Apache-2.0
// The agents API over real sockets, on a scripted engine.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <sys/resource.h>
#include <thread>

#include "storage/files/checksum.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

std::string request_line(const std::string& method, const std::string& target,
                         const std::string& fields = "", const std::string& body = "") {
    std::string bytes = method + " " + target + " HTTP/1.1\r\nhost: localhost\r\n" + fields;
    if (method == "PUT") bytes += "content-length: " + std::to_string(body.size()) + "\r\n";
    return bytes + "\r\n" + body;
}

engine::agent_info agent(const std::string& name) {
    engine::agent_info info{*storage::agent_id::parse(name)};
    info.hot = true;
    info.tokens = 40;
    info.pool_bytes = 8192;
    info.disk_bytes = 4096;
    return info;
}

class agents_api : public ::testing::Test {
  protected:
    agents_api() { server_.ready(); }

    http_reply ask(const std::string& bytes) {
        http_client client(server_.port());
        return client.request(bytes);
    }
    boost::json::value body_of(const http_reply& reply) { return boost::json::parse(reply.body); }

    test_server server_;
};

TEST_F(agents_api, a_created_agent_is_there_and_listed_before_it_was_ever_asked) {
    http_reply made = ask(post("/v1/agents", R"({"agent_id":"ada"})"));
    EXPECT_EQ(made.status, 201);
    EXPECT_EQ(body_of(made).at("agent_id").as_string(), "ada");
    EXPECT_EQ(body_of(made).at("cache_size_tokens").to_number<int>(), 0);
    EXPECT_EQ(ask(get("/v1/agents/ada")).status, 200);
    EXPECT_EQ(body_of(ask(get("/v1/agents"))).at("total").to_number<int>(), 1);
    http_reply again = ask(post("/v1/agents", R"({"agent_id":"ada"})"));
    EXPECT_EQ(again.status, 409);
    EXPECT_NE(again.body.find("Agent ada already exists"), std::string::npos) << again.body;
}

TEST_F(agents_api, an_agent_without_a_name_gets_one) {
    http_reply made = ask(post("/v1/agents", "{}"));
    ASSERT_EQ(made.status, 201);
    std::string name(body_of(made).at("agent_id").as_string());
    EXPECT_TRUE(name.starts_with("agent_")) << name;
    EXPECT_EQ(ask(get("/v1/agents/" + name)).status, 200);
}

TEST_F(agents_api, both_spellings_of_the_list_say_the_same_and_stats_count_it) {
    server_.engine().remember(agent("a"));
    engine::agent_info warm = agent("b");
    warm.hot = false;
    server_.engine().remember(warm);
    http_reply list = ask(get("/v1/agents"));
    EXPECT_EQ(list.body, ask(get("/v1/agents/list")).body);
    EXPECT_EQ(body_of(list).at("agents").at(0).at("tier").as_string(), "hot");
    EXPECT_EQ(body_of(list).at("agents").at(1).at("tier").as_string(), "warm");
    auto stats = body_of(ask(get("/v1/agents/stats")));
    EXPECT_EQ(stats.at("hot_count").to_number<int>(), 1);
    EXPECT_EQ(stats.at("warm_count").to_number<int>(), 1);
    EXPECT_EQ(stats.at("capacity").at("pool_bytes").to_number<int>(), 100 * 4096);
}

TEST_F(agents_api, unknown_agents_are_404_and_bad_names_400_on_every_route) {
    for (const char* method_and_path :
         {"GET /v1/agents/%", "DELETE /v1/agents/%", "POST /v1/agents/%/fork",
          "POST /v1/agents/%/evict", "GET /v1/agents/%/cache",
          "DELETE /v1/agents/%?evict_only=true"}) {
        std::string line(method_and_path);
        const std::size_t space = line.find(' ');
        const std::string method = line.substr(0, space);
        auto asked = [&](const std::string& name) {
            std::string path = line.substr(space + 1);
            path.replace(path.find('%'), 1, name);
            return ask(method == "POST" ? post(path, "") : request_line(method, path));
        };
        EXPECT_EQ(asked("nobody").status, 404) << line;
        EXPECT_EQ(asked("a%20b").status, 400) << line;
        EXPECT_EQ(asked(std::string(129, 'a')).status, 400) << line;
    }
    const std::string prompt = R"({"prompt":"x"})";
    EXPECT_EQ(ask(post("/v1/agents/a%20b/generate", prompt)).status, 400);
    EXPECT_EQ(ask(request_line("PUT", "/v1/agents/a%20b/cache", "", "x")).status, 400);
    EXPECT_EQ(ask(post("/v1/agents/nobody/generate", R"({"prompt":"x","append":true})")).status,
              404)
        << "there is nothing to append to";
    EXPECT_EQ(server_.engine().request_count(), 0u) << "no work was done";
}

TEST_F(agents_api, a_running_agent_is_neither_deleted_nor_evicted_nor_replaced) {
    engine::agent_info busy = agent("busy");
    busy.in_use = true;
    server_.engine().remember(busy);
    for (const std::string& bytes :
         {request_line("DELETE", "/v1/agents/busy"), post("/v1/agents/busy/evict", ""),
          request_line("DELETE", "/v1/agents/busy?evict_only=true"),
          request_line("PUT", "/v1/agents/busy/cache", "", "x")}) {
        http_reply reply = ask(bytes);
        EXPECT_EQ(reply.status, 409) << bytes;
        EXPECT_NE(reply.body.find("agent busy is answering a request"), std::string::npos)
            << reply.body;
    }
    EXPECT_EQ(ask(get("/v1/agents/busy")).status, 200);
}

/// Remembered by the model "old" alone, or, where it `is_remembered`, by the loaded one as well.
engine::agent_info of_two_models(const std::string& name, bool is_remembered) {
    engine::agent_info info = agent(name);
    info.hot = info.is_remembered = is_remembered;
    if (is_remembered)
        info.memories.push_back({"scripted", storage::checksum128("one"), true, true, 40, 512});
    info.memories.push_back({"old", storage::checksum128("two"), false, false, 30, 0, 2048});
    return info;
}

TEST_F(agents_api, an_agent_is_listed_once_with_what_each_model_remembers) {
    server_.engine().remember(of_two_models("a", true));
    server_.engine().remember(of_two_models("b", false));
    const auto listed = body_of(ask(get("/v1/agents")));
    EXPECT_EQ(listed.at("total").to_number<int>(), 2);
    const auto& a = listed.at("agents").at(0);
    EXPECT_EQ(a.at("tier").as_string(), "hot");
    EXPECT_EQ(a.at("memories").as_array().size(), 2u);
    EXPECT_TRUE(a.at("memories").at(0).at("loaded").as_bool());
    EXPECT_EQ(a.at("memories").at(0).at("tier").as_string(), "hot");
    EXPECT_EQ(a.at("memories").at(0).at("ram_bytes").to_number<int>(), 512);
    const auto& other = a.at("memories").at(1);
    EXPECT_EQ(other.at("model_id").as_string(), "old");
    EXPECT_EQ(other.at("fingerprint").as_string(), storage::checksum128("two").hex().substr(0, 12));
    EXPECT_FALSE(other.at("loaded").as_bool());
    EXPECT_EQ(other.at("tier").as_string(), "warm");
    EXPECT_EQ(other.at("tokens").to_number<int>(), 30);
    EXPECT_EQ(body_of(ask(get("/v1/agents/b"))).at("tier").as_string(), "cold");
    EXPECT_EQ(body_of(ask(get("/v1/agents/stats"))).at("cold_count").to_number<int>(), 1);
}

TEST_F(agents_api, what_needs_a_memory_says_that_only_another_model_has_one) {
    server_.engine().remember(of_two_models("b", false));
    for (const std::string& bytes :
         {post("/v1/agents/b/fork", "{}"), get("/v1/agents/b/cache"),
          post("/v1/agents/b/generate", R"({"prompt":"x","append":true})")}) {
        const http_reply reply = ask(bytes);
        EXPECT_EQ(reply.status, 404) << bytes;
        EXPECT_NE(reply.body.find("agent b is another model's: the loaded one, scripted"),
                  std::string::npos)
            << reply.body;
    }
    EXPECT_EQ(server_.engine().request_count(), 0u);
    EXPECT_EQ(ask(post("/v1/agents", R"({"agent_id":"b"})")).status, 409) << "the name is taken";
    EXPECT_EQ(ask(post("/v1/agents/b/evict", "")).status, 200) << "it is on disk already";
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/b")).status, 204);
    EXPECT_EQ(ask(get("/v1/agents/b")).status, 404);
}

TEST_F(agents_api, deleting_takes_all_memories_or_those_of_the_model_that_is_named) {
    server_.engine().remember(of_two_models("a", true));
    http_reply none = ask(request_line("DELETE", "/v1/agents/a?model=nope"));
    EXPECT_EQ(none.status, 404);
    EXPECT_NE(none.body.find("no model nope remembers agent a"), std::string::npos) << none.body;
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/a?model=old")).status, 204);
    EXPECT_EQ(body_of(ask(get("/v1/agents/a"))).at("memories").as_array().size(), 1u);
    const std::string digits = storage::checksum128("one").hex().substr(0, 12);
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/a?model=" + digits)).status, 204);
    EXPECT_EQ(ask(get("/v1/agents/a")).status, 404);
}

TEST_F(agents_api, evicting_keeps_the_agent_and_deleting_does_not) {
    server_.engine().remember(agent("a"));
    http_reply evicted = ask(post("/v1/agents/a/evict", ""));
    EXPECT_EQ(evicted.status, 200);
    EXPECT_EQ(body_of(evicted).at("tier").as_string(), "warm");
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/a?evict_only=true")).status, 204);
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/a?evict_only=maybe")).status, 400);
    EXPECT_EQ(ask(get("/v1/agents/a")).status, 200);
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/a")).status, 204);
    EXPECT_EQ(ask(get("/v1/agents/a")).status, 404);
}

TEST_F(agents_api, a_fork_has_its_parents_memory_and_a_name_of_its_own) {
    server_.engine().remember(agent("a"));
    http_reply made = ask(post("/v1/agents/a/fork", R"({"agent_id":"b"})"));
    ASSERT_EQ(made.status, 201);
    EXPECT_EQ(body_of(made).at("parent_agent_id").as_string(), "a");
    EXPECT_EQ(body_of(made).at("cache_size_tokens").to_number<int>(), 40);
    EXPECT_EQ(ask(post("/v1/agents/a/fork", R"({"agent_id":"b"})")).status, 409);
    EXPECT_EQ(ask(post("/v1/agents/a/fork", R"({"agent_id":"/"})")).status, 400);
    EXPECT_EQ(ask(post("/v1/agents/a/fork", "")).status, 201) << "the server names it";
}

TEST_F(agents_api, generate_hands_the_prompt_over_as_it_is_and_answers_in_both_ways) {
    server_.engine().on_submit = answer_with({"Hel", "<tool_call>", "lo"});
    http_reply plain =
        ask(post("/v1/agents/a/generate", R"({"prompt":"Once","max_tokens":5,"temperature":0})"));
    ASSERT_EQ(plain.status, 200);
    EXPECT_EQ(body_of(plain).at("text").as_string(), "Hel<tool_call>lo") << "raw, as it was said";
    EXPECT_EQ(body_of(plain).at("tokens_generated").to_number<int>(), 3);
    EXPECT_EQ(body_of(plain).at("finish_reason").as_string(), "stop");
    auto wanted = server_.engine().request_of(1);
    EXPECT_EQ(wanted.agent->str(), "a");
    EXPECT_EQ(wanted.text, "Once");
    EXPECT_FALSE(wanted.append);
    EXPECT_EQ(wanted.max_tokens, 5);
    EXPECT_EQ(wanted.sampling.temperature, 0.0f);
    http_reply streamed = ask(post("/v1/agents/a/generate", R"({"prompt":"Once","stream":true})"));
    EXPECT_EQ(streamed.fields["content-type"], "text/event-stream; charset=utf-8");
    std::size_t at = 0;
    for (const char* name : {"start", "token", "token", "token", "done"}) {
        at = streamed.body.find("event: " + std::string(name), at);
        ASSERT_NE(at, std::string::npos) << name << " in " << streamed.body;
        ++at;
    }
}

TEST_F(agents_api, append_goes_to_an_agent_that_is_there) {
    server_.engine().remember(agent("a"));
    server_.engine().on_submit = answer_with({"x"});
    EXPECT_EQ(ask(post("/v1/agents/a/generate",
                       R"({"messages":[{"role":"user","content":"hi"}],"append":true})"))
                  .status,
              200);
    EXPECT_TRUE(server_.engine().request_of(1).append);
    EXPECT_TRUE(server_.engine().request_of(1).message_id) << "its end must be known";
}

TEST_F(agents_api, without_tokens_to_answer_with_it_is_only_read) {
    server_.engine().remember(agent("a"));
    server_.engine().on_submit = answer_with({});
    ask(post("/v1/agents/a/generate", R"({"prompt":"x","max_tokens":0})"));
    ask(post("/v1/agents/a/generate", R"({"prompt":"x","max_tokens":1})"));
    EXPECT_TRUE(server_.engine().request_of(1).only_reads);
    EXPECT_FALSE(server_.engine().request_of(2).only_reads);
}

TEST_F(agents_api, a_memory_leaves_piece_by_piece) {
    server_.engine().remember(agent("a"));
    const std::string part(200'000, 'm');
    server_.engine().on_export = [&](const engine::memory_sink& sink) {
        for (int i = 0; i < 5; ++i)
            if (auto ok = sink(std::as_bytes(std::span(part))); !ok)
                return storage::result<std::uint64_t>(ok.error());
        return storage::result<std::uint64_t>(5 * part.size());
    };
    http_reply file = ask(get("/v1/agents/a/cache"));
    EXPECT_EQ(file.status, 200);
    EXPECT_EQ(file.fields["content-type"], "application/octet-stream");
    EXPECT_EQ(file.fields["content-disposition"], "attachment; filename=\"a.safetensors\"");
    EXPECT_EQ(file.body.size(), 5 * part.size());
}

TEST_F(agents_api, head_of_a_memory_sends_none_of_it) {
    server_.engine().remember(agent("a"));
    http_client client(server_.port());
    client.send(request_line("HEAD", "/v1/agents/a/cache"));
    EXPECT_EQ(client.read_reply(false).status, 200);
    EXPECT_EQ(client.request(get("/health/live")).status, 200) << "and the connection goes on";
}

TEST_F(agents_api, an_export_that_cannot_begin_is_an_error_and_one_that_breaks_has_no_end) {
    static const storage::result<std::uint64_t> bad_block =
        storage::failure{storage::errc::corrupt, "bad block"};
    server_.engine().remember(agent("a"));
    server_.engine().on_export = [](const engine::memory_sink&) { return bad_block; };
    EXPECT_EQ(ask(get("/v1/agents/a/cache")).status, 404) << "it stays lost, however often asked";
    server_.engine().on_export = [](const engine::memory_sink& sink) {
        const std::string part(300'000, 'm');
        if (auto ok = sink(std::as_bytes(std::span(part))); !ok)
            return storage::result<std::uint64_t>(ok.error());
        return bad_block;
    };
    http_client client(server_.port());
    client.send(get("/v1/agents/a/cache"));
    EXPECT_EQ(client.read_head().status, 200);
    EXPECT_EQ(client.read_chunk().size(), 300'000u);
    EXPECT_TRUE(client.is_closed_by_server()) << "without the last chunk";
}

TEST_F(agents_api, a_client_that_leaves_ends_its_export) {
    server_.engine().remember(agent("a"));
    std::promise<bool> ended;
    server_.engine().on_export = [&](const engine::memory_sink& sink) {
        const std::string part(1 << 20, 'm');
        for (;;)
            if (auto ok = sink(std::as_bytes(std::span(part))); !ok) {
                ended.set_value(true);
                return storage::result<std::uint64_t>(ok.error());
            }
    };
    {
        http_client client(server_.port(), 4096);
        client.send(get("/v1/agents/a/cache"));
        EXPECT_EQ(client.read_head().status, 200);
    }
    EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(agents_api, an_uploaded_memory_is_read_from_disk_in_any_order) {
    const std::string file(700'000, 'a');
    server_.engine().on_import = [&](const engine::memory_source& source) {
        EXPECT_EQ(source.file_bytes, file.size() + 1);
        std::string end(2, ' '), start(3, ' ');
        EXPECT_TRUE(source.read_at(source.file_bytes - 2, std::as_writable_bytes(std::span(end))));
        EXPECT_TRUE(source.read_at(0, std::as_writable_bytes(std::span(start))));
        EXPECT_EQ(end, "az");
        EXPECT_EQ(start, "aaa");
        EXPECT_FALSE(source.read_at(source.file_bytes, std::as_writable_bytes(std::span(end))));
        return storage::result<int>(77);
    };
    http_reply taken = ask(request_line("PUT", "/v1/agents/a/cache", "", file + "z"));
    EXPECT_EQ(taken.status, 200);
    EXPECT_EQ(body_of(taken).at("cache_size_tokens").to_number<int>(), 77);
}

/// While it lives no file of this process grows beyond `bytes`, as on a disk that is full.
class full_disk {
  public:
    explicit full_disk(rlim_t bytes) : on_signal_(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit small{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
    }
    ~full_disk() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, on_signal_);
    }
    full_disk(const full_disk&) = delete;
    full_disk& operator=(const full_disk&) = delete;

  private:
    void (*on_signal_)(int);
    rlimit before_{};
};

TEST_F(agents_api, an_upload_that_the_disk_does_not_take_is_507_and_the_server_goes_on) {
    server_.engine().on_import = [](const engine::memory_source& source) {
        return storage::result<int>(static_cast<int>(source.file_bytes));
    };
    const std::string file(100'000, 'm');
    {
        full_disk disk(file.size() - 1);
        for (int i = 0; i < 3; ++i) {
            http_reply refused = ask(request_line("PUT", "/v1/agents/a/cache", "", file));
            EXPECT_EQ(refused.status, 507) << refused.body;
            EXPECT_EQ(body_of(refused).at("error").at("type").as_string(), "api_error");
            EXPECT_EQ(refused.fields["connection"], "close");
        }
    }
    EXPECT_EQ(ask(request_line("PUT", "/v1/agents/a/cache", "", file)).status, 200);
}

TEST_F(agents_api, deleting_a_session_deletes_what_was_said_under_its_name) {
    auto& engine = server_.engine();
    const auto id = [](const char* name) { return *storage::agent_id::parse(name); };
    const auto begin_anew = [&] {
        for (const char* name : {"sess_a", "msg_1", "msg_2", "sess_b"})
            if (!engine.inspect(id(name))) engine.remember(agent(name));
        engine.branch_names[id("sess_a")] = {id("msg_1"), id("msg_2")};
    };
    begin_anew();
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/sess_a")).status, 204);
    for (const char* name : {"sess_a", "msg_1", "msg_2"}) EXPECT_FALSE(engine.inspect(id(name)));
    EXPECT_TRUE(engine.inspect(id("sess_b")));
    begin_anew();
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/sess_a?branches=false")).status, 204);
    EXPECT_FALSE(engine.inspect(id("sess_a")));
    EXPECT_TRUE(engine.inspect(id("msg_1")));
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/sess_a")).status, 204)
        << "its branches are there to be deleted";
    EXPECT_FALSE(engine.inspect(id("msg_1")));
    engine.branch_names.clear();
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/sess_a")).status, 404);
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/sess_b?branches=maybe")).status, 400);
    engine::agent_info busy = agent("msg_3");
    busy.in_use = true;
    engine.remember(busy);
    engine.branch_names[id("sess_b")] = {id("msg_3")};
    http_reply refused = ask(request_line("DELETE", "/v1/agents/sess_b"));
    EXPECT_EQ(refused.status, 409);
    EXPECT_NE(refused.body.find("msg_3"), std::string::npos) << refused.body;
    EXPECT_TRUE(engine.inspect(id("sess_b"))) << "all of it, or nothing";
}

TEST_F(agents_api, a_damaged_memory_is_no_export_and_no_fault_shows_a_path) {
    auto& engine = server_.engine();
    engine.remember(agent("a"));
    const std::string path = "/var/lib/semantic/blocks/ab/abcd.safetensors: its checksum is wrong";
    const auto ask_with = [&](storage::errc code) {
        engine.on_export = [code, path](const auto&) {
            return storage::result<std::uint64_t>(storage::failure{code, path});
        };
        http_reply reply = ask(get("/v1/agents/a/cache"));
        EXPECT_EQ(reply.body.find("/var"), std::string::npos) << reply.body;
        EXPECT_EQ(reply.body.find("safetensors"), std::string::npos) << reply.body;
        return reply;
    };
    http_reply lost = ask_with(storage::errc::corrupt);
    EXPECT_EQ(lost.status, 404);
    EXPECT_NE(lost.body.find("corrupt"), std::string::npos) << lost.body;
    EXPECT_EQ(ask_with(storage::errc::incompatible).status, 404);
    EXPECT_EQ(ask_with(storage::errc::not_found).status, 404);
    EXPECT_EQ(ask_with(storage::errc::io).status, 500);
    EXPECT_EQ(ask_with(storage::errc::out_of_space).status, 507);
    engine.on_import = [path](const auto&) {
        return storage::result<int>(storage::failure{storage::errc::out_of_space, path});
    };
    http_reply refused = ask(request_line("PUT", "/v1/agents/a/cache", "", "mmm"));
    EXPECT_EQ(refused.status, 507);
    EXPECT_EQ(refused.body.find("/var"), std::string::npos) << refused.body;
}

TEST_F(agents_api, an_upload_counts_in_the_disk_budget_as_long_as_it_lies_there) {
    auto& engine = server_.engine();
    const std::string file(300'000, 'm');
    engine.on_import = [&](const engine::memory_source& source) {
        EXPECT_EQ(engine.disk_reserved.load(), file.size());
        return storage::result<int>(static_cast<int>(source.file_bytes));
    };
    // The reply goes out before the request and its file are gone.
    const auto is_given_back = [&] {
        for (int i = 0; i < 500 && engine.disk_reserved.load() > 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return engine.disk_reserved.load() == 0;
    };
    engine.disk_free = file.size();
    EXPECT_EQ(ask(request_line("PUT", "/v1/agents/a/cache", "", file)).status, 200);
    EXPECT_TRUE(is_given_back());
    http_reply refused = ask(request_line("PUT", "/v1/agents/a/cache", "", file + "m"));
    EXPECT_EQ(refused.status, 507) << refused.body;
    EXPECT_NE(refused.body.find("the budget is full"), std::string::npos);
    EXPECT_TRUE(is_given_back());
    EXPECT_EQ(ask(request_line("PUT", "/v1/agents/a/cache", "", file)).status, 200);
    EXPECT_TRUE(is_given_back());
}

TEST(agents_api_limits, an_upload_beyond_the_places_is_refused_before_it_is_sent) {
    app_options options = test_server::default_options();
    options.limits.uploads_max = 2;
    test_server server(std::move(options));
    server.ready();
    server.engine().on_import = [](const engine::memory_source& source) {
        return storage::result<int>(static_cast<int>(source.file_bytes));
    };
    const std::string head =
        "PUT /v1/agents/a/cache HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n";
    http_client first(server.port()), second(server.port());
    for (http_client* one : {&first, &second}) {
        one->send(head + "expect: 100-continue\r\n\r\n");
        EXPECT_EQ(one->read_head().status, 100);
    }
    http_client third(server.port());
    third.send(head + "\r\n");
    http_reply refused = third.read_reply();
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.body.find("as many files are being uploaded"), std::string::npos);
    EXPECT_FALSE(refused.fields["retry-after"].empty());
    first.send("xx");
    EXPECT_EQ(first.read_reply().status, 200);
    // The reply goes out before the request and its place are gone.
    int status = 503;
    for (int i = 0; i < 500 && status == 503; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        http_client fourth(server.port());
        fourth.send(head + "\r\nxx");
        status = fourth.read_reply().status;
    }
    EXPECT_EQ(status, 200);
    second.close();
}

TEST_F(agents_api, a_bad_file_is_400_another_models_409_and_none_400) {
    EXPECT_EQ(ask(request_line("PUT", "/v1/agents/a/cache", "", "x")).status, 400);
    EXPECT_EQ(ask(request_line("PUT", "/v1/agents/a/cache", "", "")).status, 400);
    server_.engine().on_import = [](const engine::memory_source&) {
        return storage::result<int>(storage::failure{storage::errc::incompatible, "other model"});
    };
    EXPECT_EQ(ask(request_line("PUT", "/v1/agents/a/cache", "", "x")).status, 409);
}

TEST_F(agents_api, a_file_for_a_name_that_none_can_have_is_refused_before_it_is_sent) {
    http_client client(server_.port());
    client.send(
        "PUT /v1/agents/a%20b/cache HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n"
        "expect: 100-continue\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 400);
}

TEST(agents_api_limits, an_upload_one_byte_over_the_pool_and_a_body_is_413) {
    app_options options = test_server::default_options();
    options.settings.body_limit_mb = 1;
    test_server server(std::move(options));
    server.ready();
    server.engine().on_import = [](const engine::memory_source& source) {
        return storage::result<int>(static_cast<int>(source.file_bytes));
    };
    const std::size_t most = 100 * 4096 + (1 << 20);
    http_client client(server.port());
    http_reply taken =
        client.request(request_line("PUT", "/v1/agents/a/cache", "", std::string(most, 'x')));
    EXPECT_EQ(taken.status, 200) << taken.body;
    http_client other(server.port());
    other.send("PUT /v1/agents/a/cache HTTP/1.1\r\nhost: localhost\r\ncontent-length: " +
               std::to_string(most + 1) + "\r\n\r\n");
    EXPECT_EQ(other.read_reply().status, 413) << "before the body is read";
    http_client chunked(server.port());
    chunked.send(
        "PUT /v1/agents/a/cache HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", most + 1);
    chunked.send(size + std::string(most + 1, 'x') + "\r\n0\r\n\r\n");
    EXPECT_EQ(chunked.read_reply().status, 413);
}

TEST(agents_api_tenants, a_keys_stats_are_the_same_whatever_others_store) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"one", "two"};
    test_server server(std::move(options));
    server.ready();
    auto stats = [&](const std::string& key) {
        http_client client(server.port());
        return client.request(get("/v1/agents/stats", "x-api-key: " + key + "\r\n")).body;
    };
    auto& memory = server.engine().memory;
    memory[server.engine().tenant("key one")] = {10 * 4096, 3 << 20};
    const std::string alone = stats("one");
    server.engine().usage = {100, 95, 4096, 7, 8, 9};
    engine::agent_info theirs = agent("b");
    theirs.id = theirs.id.owned_by(server.engine().tenant("key two"));
    server.engine().remember(theirs);
    memory[theirs.id.tenant()] = {60 * 4096, 5 << 20};
    EXPECT_EQ(stats("one"), alone);
    auto seen = boost::json::parse(alone);
    EXPECT_EQ(seen.at("pool_utilization_pct").to_number<double>(), 10.0);
    EXPECT_EQ(seen.at("total_cache_size_mb").to_number<double>(), 3.0);
    EXPECT_EQ(seen.at("capacity").at("disk_bytes").to_number<int>(), 3 << 20);
    EXPECT_EQ(seen.at("capacity").at("pool_bytes").to_number<int>(), 100 * 4096);
    EXPECT_EQ(boost::json::parse(stats("two")).at("pool_utilization_pct").to_number<double>(),
              60.0);
}

TEST(agents_api_tenants, another_keys_agents_are_none) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"one", "two"};
    test_server server(std::move(options));
    server.ready();
    auto ask = [&](const std::string& bytes) {
        http_client client(server.port());
        return client.request(bytes);
    };
    const std::string one = "x-api-key: one\r\n", two = "x-api-key: two\r\n";
    ASSERT_EQ(ask(post("/v1/agents", R"({"agent_id":"a"})", one)).status, 201);
    EXPECT_EQ(ask(get("/v1/agents/a", one)).status, 200);
    EXPECT_EQ(ask(get("/v1/agents/a", two)).status, 404);
    EXPECT_EQ(ask(request_line("DELETE", "/v1/agents/a", two)).status, 404);
    EXPECT_EQ(ask(post("/v1/agents/a/fork", "", two)).status, 404);
    EXPECT_EQ(ask(post("/v1/agents/a/evict", "", two)).status, 404);
    EXPECT_EQ(ask(get("/v1/agents/a/cache", two)).status, 404);
    EXPECT_NE(ask(get("/v1/agents", two)).body.find("\"total\":0"), std::string::npos);
    EXPECT_EQ(ask(post("/v1/agents", R"({"agent_id":"a"})", two)).status, 201) << "its own";
    EXPECT_EQ(ask(get("/v1/agents")).status, 401);
}

}  // namespace
}  // namespace semantic::server
