// SPDX-License-Identifier: Apache-2.0
// tokenize, detokenize, render: no weights are read.

#include <boost/json.hpp>

#include <iostream>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "server/eval/command_line.hpp"
#include "server/eval/conversation_json.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

int run_tokenize(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add_tokenizer();
    given.add()("special", po::bool_switch(), "add what the tokenizer's post-processor adds");
    if (!given.parse(words)) return 0;
    const auto tokenizer = given.tokenizer();
    print_ids(tokenizer.encode(read_standard_input(), given.get<bool>("special")));
    return 0;
}

int run_detokenize(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add_tokenizer();
    if (!given.parse(words)) return 0;
    const auto tokenizer = given.tokenizer();
    const auto ids = parse_ids(read_standard_input(), "standard input");
    for (const storage::token_id id : ids) {
        if (id >= tokenizer.vocabulary()) {
            throw bad_input("token " + std::to_string(id) + " is outside the vocabulary of " +
                            std::to_string(tokenizer.vocabulary()));
        }
    }
    std::cout << tokenizer.decode(ids);
    return 0;
}

int run_render(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add_chat_template();
    if (!given.parse(words)) return 0;
    const auto rules = given.chat_rules();
    boost::system::error_code ec;
    const boost::json::value root = boost::json::parse(read_standard_input(), ec);
    if (ec) throw bad_input("standard input is not valid JSON: " + ec.message());
    std::cout << take(rules.render(parse_conversation(root, "standard input"),
                                   parse_render_options(root, "standard input")));
    return 0;
}

}  // namespace semantic::eval
