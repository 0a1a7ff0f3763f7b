// SPDX-License-Identifier: Apache-2.0
// semantic-eval: the engine without the server, for measuring a model and for taking it apart.

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "server/config/model_path.hpp"
#include "server/eval/command_line.hpp"
#include "server/eval/fetch.hpp"
#include "storage/files/unreadable_page.hpp"

namespace {

using semantic::eval::command;

constexpr command commands[] = {
    {"tokenize", "[--model MODEL] [--tokenizer-pre NAME] [--special] < TEXT > IDS",
     "Turns text into a JSON array of token ids.", semantic::eval::run_tokenize},
    {"detokenize", "[--model MODEL] < IDS > TEXT", "Turns a JSON array of token ids into text.",
     semantic::eval::run_detokenize},
    {"render", "[--model MODEL] [--chat-template NAME] < CONVERSATION > TEXT",
     "Renders {\"messages\": [...], \"system\": ..., \"tools\": [...]} as the model's prompt; "
     "\"date\", "
     "\"enable_thinking\", \"reasoning_effort\" give the template more.",
     semantic::eval::run_render},
    {"logits",
     "[--model MODEL] --tokens FILE --out FILE [--positions all|p,q,...] [--kv-bits 16|8|4] "
     "[--chunk N] [--compensated]",
     "Writes the logits of a token sequence as safetensors: positions I64 [n], logits F32 [n, "
     "vocabulary].",
     semantic::eval::run_logits},
    {"greedy",
     "[--model MODEL] --tokens FILE [--max-new N] [--kv-bits 16|8|4] [--compensated] > IDS",
     "Prints the greedy continuation as a JSON array of token ids.", semantic::eval::run_greedy},
    {"perplexity",
     "[--model MODEL] --text FILE [--kv LIST] [--context N] [--tokens N] [--second-half] [--csv "
     "FILE]",
     "Prints how well a text is predicted with K and V in several forms, and how far each is from "
     "the first: perplexity, KL divergence, same top token, by depth.",
     semantic::eval::run_perplexity},
    {"exactness", "[--model MODEL] [--kv LIST|all] [--text FILE] [--tokens N]",
     "Shows that a text's logits are the same bits whatever the chunks, the threads and the batch, "
     "and after a prefix that is forked, cut, restored from disk or imported; exit status 1 if "
     "not.",
     semantic::eval::run_exactness},
    {"recall", "[--model MODEL] --cases FILE [--kv-bits LIST] [--limit N] [--per-length N]",
     "Asks a model for facts from its prompt and prints how many it knows, by context length and "
     "KV "
     "bits.",
     semantic::eval::run_recall},
    {"inspect", "[--model MODEL] [--memory-mb MB] [--json]",
     "Prints what a model is, what it costs and whether it will load; exit status 1 if not.",
     semantic::eval::run_inspect},
    {"fetch", "[hf:]ORG/NAME[:FILE or QUANT] [--anyway] [--dry-run]",
     "Brings a model from the Hugging Face hub, or the mirror that HF_ENDPOINT names, into the "
     "Hugging Face cache: whole or not at all, each file compared with the hub's digest; what came "
     "before a break is not fetched again. --dry-run only says what it would be.",
     semantic::eval::run_fetch},
    {"capacity", "[--model MODEL] [--kv-bits LIST] [--memory-mb MB]",
     "Prints what a token of K and V costs and how many agents a pool holds, from the model's "
     "geometry alone.",
     semantic::eval::run_capacity},
    {"sweep",
     "--object-store URL [--object-store-key-file FILE] [--grace-hours N] [--tombstone-days N] "
     "[--dry-run]",
     "Removes from an object store what no machine's agents need any more; machines may go on "
     "meanwhile.",
     semantic::eval::run_sweep},
};

void print_usage(std::ostream& out) {
    out << "usage: semantic-eval COMMAND [OPTIONS]; semantic-eval COMMAND --help shows more\n\n";
    for (const command& each : commands)
        out << "  " << each.name << "\n      " << each.summary << "\n";
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty()) {
        print_usage(std::cerr);
        return 1;
    }
    if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
        print_usage(std::cout);
        return 0;
    }
    const auto* found = std::find_if(std::begin(commands), std::end(commands),
                                     [&](const command& c) { return words[0] == c.name; });
    if (found == std::end(commands)) {
        std::cerr << "semantic-eval: unknown command \"" << words[0] << "\"\n";
        print_usage(std::cerr);
        return 1;
    }
    semantic::storage::report_unreadable_pages("semantic-eval");
    try {
        using namespace semantic;
        eval::set_embedded_model(server::find_embedded_model(server::executable_path(argv[0])));
        const int status = found->run(*found, {words.begin() + 1, words.end()});
        std::cout.flush();
        if (!std::cout) throw eval::bad_input("writing to standard output failed");
        return status;
    } catch (const std::exception& e) {
        std::cerr << "semantic-eval " << found->name << ": " << e.what() << "\n";
        return 1;
    }
}
