// SPDX-License-Identifier: Apache-2.0
// recall: does the model still know what its prompt said, at every context length, with K and V
// kept in fewer bits?

#include <boost/json.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <map>
#include <sstream>
#include <string_view>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "server/eval/command_line.hpp"
#include "server/eval/conversation_json.hpp"
#include "server/eval/offline_model.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

using storage::token_id;

constexpr int answer_tokens_max = 48;

struct recall_case {
    int context_tokens = 0;  // the nominal length it is counted under
    std::vector<token_id> prompt;
    std::string expect;
    bool has_listed_length = true;  // the prompt is as long as the file's prompt_tokens says
};

struct recall_options {
    std::string directory, cases, kernels, weights;
    int threads = 0, chunk = 512, limit = 0, per_length = 0;
    std::size_t memory_limit_mb = 0;
};

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

/// Parses one line of the cases file. `where` names it in errors. Throws bad_input.
recall_case parse_case(const std::string& line, const std::string& where,
                       const engine::chat_template& rules, const engine::tokenizer& tokenizer) {
    boost::system::error_code ec;
    const boost::json::value root = boost::json::parse(line, ec);
    if (ec || !root.is_object()) throw bad_input(where + ": not a JSON object");
    const boost::json::object& object = root.get_object();
    const auto number = [&](const char* name) {
        const boost::json::value* value = object.if_contains(name);
        return value != nullptr && value->is_int64() ? static_cast<int>(value->get_int64()) : -1;
    };
    const boost::json::value* expect = object.if_contains("expect");
    if (expect == nullptr || !expect->is_string())
        throw bad_input(where + ": expect must be a string");
    recall_case out;
    out.context_tokens = number("context_tokens");
    if (out.context_tokens < 0) throw bad_input(where + ": context_tokens must be a number");
    out.prompt = tokenizer.encode(take(rules.render(parse_conversation(root, where))));
    out.expect = lower(std::string_view(expect->get_string()));
    out.has_listed_length = number("prompt_tokens") < 0 ||
                            number("prompt_tokens") == static_cast<int>(out.prompt.size());
    return out;
}

/// Reads the cases file, as far as --limit and --per-length allow. Throws bad_input.
std::vector<recall_case> load_cases(const recall_options& options,
                                    const engine::chat_template& rules,
                                    const engine::tokenizer& tokenizer) {
    std::vector<recall_case> cases;
    std::map<int, int> of_length;
    std::istringstream file(read_text_file(options.cases));
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        if (line.empty()) continue;
        if (options.limit > 0 && static_cast<int>(cases.size()) == options.limit) break;
        recall_case one =
            parse_case(line, options.cases + ":" + std::to_string(number), rules, tokenizer);
        if (options.per_length > 0 && of_length[one.context_tokens] == options.per_length) continue;
        ++of_length[one.context_tokens];
        cases.push_back(std::move(one));
    }
    if (cases.empty()) throw bad_input(options.cases + ": there are no cases in it");
    return cases;
}

/// How many facts were asked for, and how many the model knew.
struct score {
    int asked = 0;
    int known = 0;
};

/// The results with one KV recipe.
struct column {
    std::string kv;
    std::map<int, score> by_length;
    double seconds = 0.0;
    std::string machine;
};

/// Asks all cases with one KV recipe. A fact is known where the answer contains it.
column run_column(const recall_options& options, const std::string& kv,
                  const std::vector<recall_case>& cases, const engine::tokenizer& tokenizer,
                  const std::vector<token_id>& template_stops) {
    std::size_t longest = 0;
    for (const recall_case& one : cases) longest = std::max(longest, one.prompt.size());
    offline_options own{options.directory, options.kernels,
                        options.threads,   kv,
                        options.chunk,     static_cast<int>(longest) + answer_tokens_max,
                        options.weights};
    own.memory_limit_mb = options.memory_limit_mb;
    offline_model model(own);
    std::vector<token_id> stops = model.config().eos_tokens;
    stops.insert(stops.end(), template_stops.begin(), template_stops.end());

    column out;
    out.kv = kv;
    out.machine =
        std::string(model.kernels()) + ", " + std::to_string(model.threads()) + " threads";
    progress_line progress("KV " + kv);
    const auto begin = std::chrono::steady_clock::now();
    int known = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        progress.show(i, cases.size(), std::to_string(known) + " known");
        const auto answer = model.greedy(cases[i].prompt, answer_tokens_max, stops);
        const bool hit =
            lower(tokenizer.decode(answer, true)).find(cases[i].expect) != std::string::npos;
        score& at = out.by_length[cases[i].context_tokens];
        ++at.asked;
        at.known += hit;
        known += hit;
    }
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
}

/// Prints one row. `context_tokens`: of the cases that count; -1: all.
void print_row(const std::string& name, const std::vector<column>& columns, int context_tokens) {
    std::printf("%9s", name.c_str());
    bool first = true;
    for (const column& each : columns) {
        score sum;
        for (const auto& [length, s] : each.by_length) {
            if (context_tokens >= 0 && length != context_tokens) continue;
            sum.asked += s.asked;
            sum.known += s.known;
        }
        if (first) std::printf("%7d", sum.asked);
        std::printf("%11.1f", 100.0 * sum.known / std::max(sum.asked, 1));
        first = false;
    }
    std::printf("\n");
}

void print_table(const std::vector<column>& columns, const std::vector<recall_case>& cases) {
    std::printf("recall in per cent, greedy, at most %d tokens; %s\n", answer_tokens_max,
                columns[0].machine.c_str());
    std::printf("%9s%7s", "context", "cases");
    for (const column& each : columns) std::printf("%11s", each.kv.c_str());
    std::printf("\n");
    for (const auto& [length, s] : columns[0].by_length)
        print_row(std::to_string(length), columns, length);
    print_row("all", columns, -1);
    std::printf("%9s%7s", "seconds", "");
    for (const column& each : columns) std::printf("%11.1f", each.seconds);
    std::printf("\n");
    const auto odd = std::count_if(cases.begin(), cases.end(),
                                   [](const recall_case& c) { return !c.has_listed_length; });
    if (odd > 0)
        std::printf("%td prompts are not as long as the file says: template or tokenizer differ\n",
                    odd);
}

}  // namespace

int run_recall(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add_compute();
    given.add_chat_template();
    given.add_tokenizer();
    given.add()("cases", po::value<std::string>()->required()->value_name("FILE"),
                "JSON lines with messages, expect and context_tokens");
    given.add()("kv-bits", po::value<std::string>()->default_value("16,8,4")->value_name("LIST"),
                "KV recipes, one column for each");
    given.add()("chunk", po::value<int>()->default_value(512)->value_name("N"),
                "tokens prefilled at once");
    given.add()("limit", po::value<int>()->default_value(0)->value_name("N"),
                "at most N cases in all; 0: no limit");
    given.add()("per-length", po::value<int>()->default_value(0)->value_name("N"),
                "at most N cases of each context length; 0: no limit");
    if (!given.parse(words)) return 0;
    recall_options options;
    options.directory = given.model_directory();
    options.cases = given.get<std::string>("cases");
    options.kernels = given.get<std::string>("kernels");
    options.weights = given.get<std::string>("weights");
    options.memory_limit_mb = given.memory_limit_mb();
    options.threads = given.number("threads", 0, 1024);
    options.chunk = given.number("chunk", 1, 1 << 16);
    options.limit = given.number("limit", 0, 1 << 30);
    options.per_length = given.number("per-length", 0, 1 << 30);
    const auto recipes = parse_kv_list("kv-bits", given.get<std::string>("kv-bits"));

    const auto rules = given.chat_rules();
    const auto tokenizer = given.tokenizer();
    const std::vector<recall_case> cases = load_cases(options, rules, tokenizer);
    std::vector<token_id> stops;
    for (const std::string& spelling : rules.stop_tokens()) {
        if (const token_id id = tokenizer.find(spelling); id >= 0) stops.push_back(id);
    }
    std::vector<column> columns;
    for (const std::string& kv : recipes)
        columns.push_back(run_column(options, kv, cases, tokenizer, stops));
    print_table(columns, cases);
    return 0;
}

}  // namespace semantic::eval
