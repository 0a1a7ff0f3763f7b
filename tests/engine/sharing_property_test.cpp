// SPDX-License-Identifier: Apache-2.0
// Agents of two tenants that talk, whole conversations at a time or only what is new, branch off,
// fork, come from files, are cut short, lose their place in RAM and meet restarts, in random order,
// in a pool that holds a tenth of them: whatever happened before, an answer is the one that the
// model gives which has read the same tokens and nothing else, and what one tenant reuses, that
// tenant has.

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/text/tokenizer/utf8.hpp"
#include "storage/agents/prefix_index.hpp"
#include "tests/engine/solo_model.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/latent_model.hpp"
#include "tests/support/sliding_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::latent_model;
using semantic::tests::load;
using semantic::tests::memory_of;
using semantic::tests::options_in;
using semantic::tests::sliding_model;
using semantic::tests::solo_model;
using semantic::tests::temp_dir;
using semantic::tests::transcript;

constexpr int block_tokens = 16;
constexpr int agents_max = 24;
constexpr int turns_max = 7;  // of user and assistant together
constexpr int answer_tokens = 12;

/// A model, how long its conversations get and how many of their tokens the pool holds.
struct world_of {
    const char* name;
    std::string folder;
    int tokens_max;  // of a prompt and its answer; the pool holds as many
    /// What a random model may say, so that its text is text: no other token is drawn.
    std::vector<token_bias> biases{};
};

engine_options small_options(const world_of& world, const std::string& directory) {
    engine_options options = options_in(directory);
    options.model_directory = world.folder;
    options.block_tokens = block_tokens;
    options.max_batch = 4;
    options.prefill_min_chunk_tokens = 32;
    options.prefill_max_chunk_tokens = 64;
    options.chunked_prefill_threshold_tokens = 64;
    return options;
}

/// A conversation as its client has it.
struct spoken {
    std::optional<storage::agent_id> agent;  // none: anonymous
    storage::tenant_id tenant;
    std::vector<std::string> turns;
    std::string last_answer{};  // its name, where the agent's memory ends with it
};

/// One request and what came of it.
struct asked {
    std::size_t chat;
    std::vector<std::string> turns;
    generation_request request;
    std::shared_ptr<transcript> sink = std::make_shared<transcript>();
};

class many_agents {
  public:
    many_agents(world_of world, unsigned seed)
        : world_(std::move(world)),
          random_(seed),
          alone_(small_options(world_, ""), world_.tokens_max) {
        start();
    }
    ~many_agents() {
        if (engine_) engine_->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    }

    void step() {
        switch (random_() % 13) {
            case 0:
                cancel_one();
                break;
            case 1:
                fork_one();
                break;
            case 2:
                evict_one();
                break;
            case 3:
                random_() % 3 == 0 ? restart() : erase_one();
                break;
            case 4:
                move_one();
                break;
            default:
                talk(1 + random_() % 4);
                break;
        }
        const pool_usage pool = engine_->pool();
        EXPECT_LE(pool.frames_held, pool.frames_total);
        EXPECT_EQ(engine_->store_probe().blocks_corrupt.load(), 0u);
        EXPECT_EQ(engine_->store_probe().blocks_missing.load(), 0u);
        EXPECT_EQ(engine_->store_probe().save_failures.load(), 0u);
    }

    /// Forgets everybody. Returns: whether nothing of them is left, in RAM or on disk.
    bool leaves_nothing() {
        restart();
        for (const agent_info& agent : engine_->agents_of_all())
            EXPECT_TRUE(engine_->erase(agent.id));
        std::size_t files = 0;
        for (const auto& each : std::filesystem::recursive_directory_iterator(dir_.path()))
            files += each.is_regular_file() ? 1 : 0;
        return engine_->pool().frames_held == 0 && files == 3;  // format, lock and secret
    }
    int answers() const { return answers_; }
    int compared() const { return compared_; }
    int restarts() const { return restarts_; }
    /// Requests that said only what was new.
    int continued() const { return continued_; }
    int moved() const { return moved_; }
    std::uint64_t evictions() const { return evictions_ + engine_->store_probe().evictions.load(); }

  private:
    void start() {
        engine_options options = small_options(world_, dir_.path());
        options.cache_budget_bytes = alone_.pool_bytes();
        engine_ = load(options);
        other_ = engine_->tenant("another key");
    }
    void restart() {
        engine_->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
        evictions_ += engine_->store_probe().evictions.load();
        engine_.reset();
        start();
        ++restarts_;
    }

    std::string some_question() {
        static const char* const words[] = {"red", "blue", "tea", "cat", "Oslo", "seven", "rain"};
        std::string text = "Tell me of";
        for (int i = 2 + static_cast<int>(random_() % 9); i > 0; --i)
            text += std::string(" ") + words[random_() % std::size(words)];
        return text + ".";
    }
    void add_chat(std::optional<storage::agent_id> agent, const spoken& like) {
        chats_.push_back({std::move(agent), like.tenant, like.turns, {}});
    }
    std::size_t some_conversation() {
        if (chats_.empty() || (chats_.size() < agents_max && random_() % 3 == 0)) {
            const spoken nothing{{}, random_() % 3 == 0 ? other_ : storage::tenant_id{}, {}};
            if (random_() % 3 == 0)
                add_chat({}, nothing);
            else
                add_chat(new_id(nothing.tenant), nothing);
        }
        return random_() % chats_.size();
    }
    /// Where no more agents may be, one is forgotten: by its client, by the server or by both.
    void make_place() {
        if (chats_.size() < agents_max) return;
        const std::size_t chat = random_() % chats_.size();
        if (chats_[chat].agent && random_() % 2 == 0) (void)engine_->erase(*chats_[chat].agent);
        chats_.erase(chats_.begin() + static_cast<std::ptrdiff_t>(chat));
    }
    storage::agent_id new_id(const storage::tenant_id& tenant) {
        return storage::agent_id::parse("agent" + std::to_string(made_++))->owned_by(tenant);
    }
    /// What is asked next: the chat goes on, or parts from its past at some turn.
    std::vector<std::string> next_turns(const spoken& chat) {
        std::vector<std::string> turns = chat.turns;
        if (turns.size() >= turns_max || random_() % 5 == 0)
            turns.resize(turns.empty() ? 0 : random_() % ((turns.size() + 1) / 2) * 2);
        turns.push_back(some_question());
        return turns;
    }
    conversation whole(const std::vector<std::string>& turns) const {
        return chat_of(turns, "You are a calm helper.");
    }
    /// Greedy or drawn, one answer or several, ended by the model, the limit or a stop string.
    generation_request some_request(const spoken& chat, const std::vector<std::string>& turns) {
        generation_request request =
            ask("", whole(turns), 1 + static_cast<int>(random_() % answer_tokens));
        request.tenant = chat.tenant;
        request.agent = chat.agent;
        request.sampling.biases = world_.biases;
        if (random_() % 3 == 0) {
            request.sampling.temperature = 1.2f;
            request.sampling.seed = random_();
            request.choices = random_() % 4 == 0 ? 3 : 1;
        }
        if (random_() % 4 == 0) request.stop_sequences = {"e ", "."};
        if (chat.agent) {
            request.message_id = "msg" + std::to_string(messages_++);
            request.keeps_thread = true;
        }
        return request;
    }
    /// Some of the continuing requests send only the new text: after an answer's name, or after all
    /// of the agent's memory.
    void say_only_what_is_new(const spoken& chat, asked& one) {
        if (chat.last_answer.empty() || one.turns.size() != chat.turns.size() + 1) return;
        if (!engine_->find_thread(chat.tenant, chat.last_answer)) return;
        const auto way = random_() % 3;
        if (way == 0) return;
        one.request.chat = chat_of({one.turns.back()});
        ++continued_;
        if (way == 1) {
            one.request.append = true;
            return;
        }
        one.request.agent.reset();
        one.request.continues = chat.last_answer;
    }

    /// Several agents at once, each with one request.
    void talk(std::size_t count) {
        std::vector<asked> all;
        std::set<std::size_t> taken;
        while (all.size() < count) {
            std::size_t chat = some_conversation();
            if (!taken.insert(chat).second && random_() % 2 == 0) break;
            if (std::ranges::find(all, chat, &asked::chat) != all.end()) continue;
            std::vector<std::string> turns = next_turns(chats_[chat]);
            all.push_back({chat, turns, some_request(chats_[chat], turns)});
            say_only_what_is_new(chats_[chat], all.back());
        }
        for (asked& one : all) engine_->submit(one.request, one.sink);
        std::map<std::string, int> times;
        for (asked& one : all) {
            ASSERT_TRUE(one.sink->wait()) << "a request never ended";
            ASSERT_TRUE(one.sink->finished)
                << (one.sink->failed ? one.sink->failed->what : "no end");
            check_usage(one.sink->usage);
            ++times[one.sink->agent];
            ++answers_;
        }
        for (const asked& one : all) remember_said(one);
        for (asked& one : all) {
            // Of two answers of one agent, its memory has the second one's prompt.
            if (times[one.sink->agent] == 1) {
                ASSERT_NO_FATAL_FAILURE(compare(one));
            }
            one.turns.push_back(one.sink->text);
            chats_[one.chat].turns = one.turns;
            chats_[one.chat].last_answer = one.request.message_id.value_or("");
        }
    }

    /// The prompt is the conversation's text, the answer what the model says after its tokens, and
    /// only text that the tenant has sent or received was reused.
    void compare(const asked& one) {
        const transcript& said = *one.sink;
        const storage::tenant_id& tenant = one.request.tenant;
        std::vector<storage::token_id> prompt =
            memory_of(*engine_, storage::agent_id::parse(said.agent)->owned_by(tenant));
        ASSERT_GE(prompt.size(), static_cast<std::size_t>(said.usage.prompt_tokens)) << said.agent;
        prompt.resize(static_cast<std::size_t>(said.usage.prompt_tokens));
        ASSERT_EQ(shown(prompt), shown(*template_.render(whole(one.turns), {}))) << said.agent;
        ASSERT_EQ(said.tokens, alone_.drawn(prompt, said.tokens, one.request.sampling))
            << said.agent << " reused " << said.usage.reused_tokens << " of "
            << said.usage.prompt_tokens << ", restored " << said.usage.restored_tokens;
        prompt.resize(static_cast<std::size_t>(said.usage.reused_tokens));
        const std::string reused = shown(prompt);
        std::size_t known = stop_string_bytes;
        for (const auto& each : said_)
            if (each.tenant == tenant && each.answer != one.sink)
                known = std::max(
                    known, stop_string_bytes + storage::common_prefix_bytes(each.text, reused));
        ASSERT_LE(reused.size(), known) << said.agent;
        ++compared_;
    }
    void remember_said(const asked& one) {
        said_.push_back({one.request.tenant, one.sink,
                         shown(*template_.render(whole(one.turns), {})) + visible(one.sink->text)});
    }
    /// Text as clients see it, without what they and templates may take away: white space.
    std::string shown(const std::vector<storage::token_id>& tokens) const {
        std::string bytes;
        for (storage::token_id token : tokens) bytes += words_.bytes(token);
        return shown(bytes);
    }
    static std::string shown(const std::string& bytes) {
        std::string text;
        utf8::append_lossy(text, bytes);
        return visible(text);
    }
    static std::string visible(const std::string& text) {
        std::string kept;
        for (char c : text)
            if (std::isspace(static_cast<unsigned char>(c)) == 0) kept += c;
        return kept;
    }

    void cancel_one() {
        const std::size_t chat = some_conversation();
        asked one{chat, next_turns(chats_[chat]), {}};
        one.request = some_request(chats_[chat], one.turns);
        chats_[chat].last_answer.clear();
        auto id = engine_->submit(one.request, one.sink);
        if (random_() % 2 == 0) one.sink->wait_for_tokens(1 + random_() % 3);
        engine_->cancel(id);
        ASSERT_TRUE(one.sink->wait());
        ASSERT_EQ(one.sink->ends, 1);
        ASSERT_TRUE(one.sink->finished);
        remember_said(one);
    }

    const spoken* named_one() {
        const spoken* chat = chats_.empty() ? nullptr : &chats_[random_() % chats_.size()];
        return chat != nullptr && chat->agent ? chat : nullptr;
    }
    void fork_one() {
        make_place();
        const spoken* chat = named_one();
        if (chat == nullptr) return;
        const spoken from = *chat;
        const storage::agent_id to = new_id(from.tenant);
        // The source may have been erased; then there is nothing to fork.
        if (engine_->fork(*from.agent, to)) add_chat(to, from);
    }
    /// An agent leaves as a file and comes back as another one, perhaps somebody else's.
    void move_one() {
        make_place();
        const spoken* chat = named_one();
        if (chat == nullptr) return;
        spoken from = *chat;
        std::string file;
        const auto written = engine_->export_agent(*from.agent, tests::appending_to(file));
        if (!written) return;  // it was erased
        from.tenant = random_() % 2 == 0 ? other_ : storage::tenant_id{};
        const storage::agent_id to = new_id(from.tenant);
        const auto came = engine_->import_agent(
            to, {file.size(), [&](std::uint64_t offset, std::span<std::byte> target) {
                     std::memcpy(target.data(), file.data() + offset, target.size());
                     return storage::result<void>();
                 }});
        ASSERT_TRUE(came) << came.error().what;
        said_.push_back({from.tenant, nullptr, shown(memory_of(*engine_, to))});
        add_chat(to, from);
        ++moved_;
    }
    void evict_one() {
        if (auto* chat = named_one()) (void)engine_->evict(*chat->agent);
    }
    /// The agent goes; its client knows that, or not.
    void erase_one() {
        if (chats_.empty()) return;
        const std::size_t chat = random_() % chats_.size();
        if (chats_[chat].agent) (void)engine_->erase(*chats_[chat].agent);
        if (random_() % 2 == 0) chats_.erase(chats_.begin() + static_cast<std::ptrdiff_t>(chat));
    }

    void check_usage(const prompt_usage& usage) const {
        EXPECT_EQ(usage.reused_tokens + usage.created_tokens + usage.recomputed_tokens,
                  usage.prompt_tokens);
        EXPECT_GE(usage.created_tokens, 0);
        EXPECT_LE(usage.restored_tokens, usage.reused_tokens);
    }

    /// A text that a tenant's agents may remember.
    struct told {
        storage::tenant_id tenant;
        std::shared_ptr<transcript> answer;
        std::string text;
    };
    /// What is sampled up to a stop string is remembered, and not shown.
    static constexpr std::size_t stop_string_bytes = 8;

    const world_of world_;
    std::mt19937 random_;
    solo_model alone_;
    tokenizer words_ = *tokenizer::load(world_.folder);
    chat_template template_ = *chat_template::load(world_.folder);
    temp_dir dir_;
    std::unique_ptr<engine> engine_;
    storage::tenant_id other_;
    std::vector<spoken> chats_;
    std::vector<told> said_;
    int made_ = 0, messages_ = 0, answers_ = 0, compared_ = 0, restarts_ = 0, continued_ = 0,
        moved_ = 0;
    std::uint64_t evictions_ = 0;
};

void live_in(const world_of& world, unsigned seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const char* wanted = std::getenv("SEMANTIC_PROPERTY_STEPS");
    many_agents agents(world, seed);
    const int steps = wanted != nullptr ? std::atoi(wanted) : 80;
    for (int step = 0; step < steps; ++step) {
        SCOPED_TRACE("step " + std::to_string(step));
        ASSERT_NO_FATAL_FAILURE(agents.step());
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(agents.evictions(), 0u) << "the pool was never full";
    EXPECT_GT(agents.compared(), agents.answers() * 3 / 4);
    EXPECT_GT(agents.continued(), 0);
    EXPECT_GT(agents.moved(), 0);
    const std::uint64_t evictions = agents.evictions();
    EXPECT_TRUE(agents.leaves_nothing());
    std::printf(
        "%s, seed %u: %d steps, %d answers, %d compared, %d of new text only, %d from files, %d "
        "restarts, "
        "%llu evictions\n",
        world.name, seed, steps, agents.answers(), agents.compared(), agents.continued(),
        agents.moved(), agents.restarts(), static_cast<unsigned long long>(evictions));
}

/// In one life, or in some that once found something.
void live_in(const world_of& world) {
    if (const char* wanted = std::getenv("SEMANTIC_PROPERTY_SEED"))
        return live_in(world, static_cast<unsigned>(std::atoi(wanted)));
    for (const unsigned seed : {1u, 23u, 201u}) ASSERT_NO_FATAL_FAILURE(live_in(world, seed));
}

// The model that comes with the tree, one whose layers mostly slide, and one of latents.
// SEMANTIC_PROPERTY_STEPS=5000 and SEMANTIC_PROPERTY_SEED=n make them longer and other.
TEST(sharing_property, whatever_came_before_an_answer_is_that_of_a_model_that_read_its_tokens) {
    live_in({"dense", options_in("").model_directory, 320});
}

TEST(sharing_property, the_same_where_layers_see_a_window_only) {
    const sliding_model model(40);
    live_in({"sliding", model.path(), 320});
}

TEST(sharing_property, the_same_where_a_latent_is_what_is_kept) {
    const latent_model model;
    world_of world{"latent", model.path(), 800};
    for (storage::token_id token = 0; token < 448; ++token)
        if (token < 32 || token > 126) world.biases.push_back({token, -100.0f});
    live_in(world);
}

}  // namespace
}  // namespace semantic::engine
