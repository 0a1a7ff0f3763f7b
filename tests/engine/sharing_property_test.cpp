// Agents that talk, branch off, fork, are cut short, lose their place in RAM and meet restarts, in
// random order, in a pool that holds a tenth of them: whatever happened before, an answer is the
// one that the model gives which has read the same tokens and nothing else.

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "engine/text/chat_template.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/text/utf8.hpp"
#include "tests/engine/solo_model.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::memory_of;
using semantic::tests::options_in;
using semantic::tests::solo_model;
using semantic::tests::temp_dir;
using semantic::tests::transcript;

constexpr int block_tokens = 16;
constexpr int agents_max = 24;
constexpr int turns_max = 7;  // of user and assistant together; about 120 tokens
constexpr int answer_tokens = 12;
constexpr int pool_blocks = 20;  // agents_max times about 8 blocks are wanted
constexpr int tokens_max = 320;  // of a prompt and its answer; the pool holds as many

engine_options small_options(const std::string& directory) {
    engine_options options = options_in(directory);
    options.block_tokens = block_tokens;
    options.max_batch = 4;
    return options;
}

storage::agent_id id_of(const std::string& name) { return *storage::agent_id::parse(name); }

struct spoken {
    std::string agent;  // empty: anonymous
    std::vector<std::string> turns;
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
    explicit many_agents(unsigned seed) : random_(seed), alone_(small_options(""), tokens_max) {
        start();
    }
    ~many_agents() {
        if (engine_) engine_->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    }

    void step() {
        switch (random_() % 12) {
            case 0: cancel_one(); break;
            case 1: fork_one(); break;
            case 2: evict_one(); break;
            case 3: random_() % 4 == 0 ? restart() : erase_one(); break;
            default: talk(1 + random_() % 4); break;
        }
    }

    /// Forgets everybody. Returns: whether nothing of them is left, in RAM or on disk.
    bool leaves_nothing() {
        restart();
        for (const agent_info& agent : engine_->agents({})) EXPECT_TRUE(engine_->erase(agent.id));
        std::size_t files = 0;
        for (const auto& each : std::filesystem::recursive_directory_iterator(dir_.path()))
            files += each.is_regular_file() ? 1 : 0;
        return engine_->pool().frames_held == 0 && files == 2;  // lock and secret
    }
    int answers() const { return answers_; }
    int compared() const { return compared_; }
    int restarts() const { return restarts_; }
    std::uint64_t evictions() const { return evictions_ + engine_->store_probe().evictions.load(); }

  private:
    void start() {
        engine_options options = small_options(dir_.path());
        options.cache_budget_bytes = alone_.block_bytes() * pool_blocks;
        engine_ = load(options);
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
    std::size_t some_conversation() {
        if (chats_.empty() || (chats_.size() < agents_max && random_() % 3 == 0))
            chats_.push_back({random_() % 3 == 0 ? "" : "agent" + std::to_string(made_++), {}});
        return random_() % chats_.size();
    }
    /// What is asked next: the chat goes on, or parts from its past at some turn.
    std::vector<std::string> next_turns(const spoken& chat) {
        std::vector<std::string> turns = chat.turns;
        if (turns.size() >= turns_max || random_() % 5 == 0)
            turns.resize(turns.empty() ? 0 : random_() % ((turns.size() + 1) / 2) * 2);
        turns.push_back(some_question());
        return turns;
    }
    /// Greedy or drawn, ended by the model, the limit or a stop string.
    generation_request some_request(const spoken& chat, const std::vector<std::string>& turns) {
        generation_request request =
            ask(chat.agent, chat_of(turns, "You are a calm helper who answers in few words."),
                1 + static_cast<int>(random_() % answer_tokens));
        if (random_() % 3 == 0) {
            request.sampling.temperature = 1.2f;
            request.sampling.seed = random_();
        }
        if (random_() % 4 == 0) request.stop_sequences = {"e ", "."};
        return request;
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
        for (asked& one : all) {
            // Of two answers of one agent, its memory has the second one's prompt.
            if (times[one.sink->agent] == 1) {
                ASSERT_NO_FATAL_FAILURE(compare(one));
            }
            one.turns.push_back(one.sink->text);
            chats_[one.chat].turns = one.turns;
        }
    }

    /// The prompt is the conversation's text, and the answer what the model says behind its tokens.
    void compare(const asked& one) {
        const transcript& said = *one.sink;
        std::vector<storage::token_id> prompt = memory_of(*engine_, id_of(said.agent));
        ASSERT_GE(prompt.size(), static_cast<std::size_t>(said.usage.prompt_tokens)) << said.agent;
        prompt.resize(static_cast<std::size_t>(said.usage.prompt_tokens));
        std::string bytes;
        for (storage::token_id token : prompt) bytes += words_.bytes(token);
        ASSERT_EQ(shown(bytes), shown(*template_.render(one.request.chat, {}))) << said.agent;
        ASSERT_EQ(said.tokens, alone_.drawn(prompt, said.tokens, one.request.sampling))
            << said.agent << " reused " << said.usage.reused_tokens << " of "
            << said.usage.prompt_tokens << ", restored " << said.usage.restored_tokens;
        ++compared_;
    }
    /// Text as clients see it, without what they and templates may take away: white space.
    static std::string shown(const std::string& bytes) {
        std::string text, visible;
        utf8::append_lossy(text, bytes);
        for (char c : text)
            if (std::isspace(static_cast<unsigned char>(c)) == 0) visible += c;
        return visible;
    }

    void cancel_one() {
        const spoken chat = chats_.empty() ? spoken{} : chats_[random_() % chats_.size()];
        auto sink = std::make_shared<transcript>();
        auto id = engine_->submit(some_request(chat, next_turns(chat)), sink);
        if (random_() % 2 == 0) sink->wait_for_tokens(1 + random_() % 3);
        engine_->cancel(id);
        ASSERT_TRUE(sink->wait());
        ASSERT_EQ(sink->ends, 1);
        ASSERT_TRUE(sink->finished);
    }

    void fork_one() {
        if (chats_.empty() || chats_.size() >= agents_max) return;
        const spoken from = chats_[random_() % chats_.size()];
        if (from.agent.empty() || from.turns.empty()) return;
        std::string to = "fork" + std::to_string(made_++);
        // The source may have been erased; then there is nothing to fork.
        if (engine_->fork(id_of(from.agent), id_of(to))) chats_.push_back({to, from.turns});
    }
    const spoken* named_one() {
        const spoken* chat = chats_.empty() ? nullptr : &chats_[random_() % chats_.size()];
        return chat != nullptr && !chat->agent.empty() ? chat : nullptr;
    }
    void evict_one() {
        if (auto* chat = named_one()) (void)engine_->evict(id_of(chat->agent));
    }
    void erase_one() {
        if (auto* chat = named_one()) (void)engine_->erase(id_of(chat->agent));
    }

    void check_usage(const prompt_usage& usage) const {
        EXPECT_EQ(usage.reused_tokens + usage.created_tokens + usage.recomputed_tokens,
                  usage.prompt_tokens);
        EXPECT_GE(usage.created_tokens, 0);
        EXPECT_LE(usage.restored_tokens, usage.reused_tokens);
    }

    std::mt19937 random_;
    solo_model alone_;
    tokenizer words_ = *tokenizer::load(small_options("").model_directory);
    chat_template template_ = *chat_template::load(small_options("").model_directory);
    temp_dir dir_;
    std::unique_ptr<engine> engine_;
    std::vector<spoken> chats_;
    int made_ = 0, answers_ = 0, compared_ = 0, restarts_ = 0;
    std::uint64_t evictions_ = 0;
};

// SEMANTIC_PROPERTY_STEPS=5000 and SEMANTIC_PROPERTY_SEED=n make it longer and other.
TEST(sharing_property, whatever_came_before_an_answer_is_that_of_a_model_that_read_its_tokens) {
    const char* wanted = std::getenv("SEMANTIC_PROPERTY_STEPS");
    const char* seed = std::getenv("SEMANTIC_PROPERTY_SEED");
    many_agents world(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 1);
    const int steps = wanted != nullptr ? std::atoi(wanted) : 60;
    for (int step = 0; step < steps; ++step) {
        SCOPED_TRACE("step " + std::to_string(step));
        ASSERT_NO_FATAL_FAILURE(world.step());
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(world.evictions(), 0u) << "the pool was never full";
    EXPECT_GT(world.compared(), world.answers() * 3 / 4);
    const std::uint64_t evictions = world.evictions();
    EXPECT_TRUE(world.leaves_nothing());
    std::printf("%d steps, %d answers, %d compared, %d restarts, %llu evictions\n", steps,
                world.answers(), world.compared(), world.restarts(),
                static_cast<unsigned long long>(evictions));
}

}  // namespace
}  // namespace semantic::engine
