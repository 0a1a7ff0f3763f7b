// SPDX-License-Identifier: Apache-2.0
// Feeds every parser and compiler that a request reaches texts that are made to cost much, measures
// processor time and memory of each, and says which input costs more than one may.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/cost/cost_meter.hpp"
#include "tests/cost/parsers.hpp"

using namespace semantic::cost;

namespace {

constexpr double seconds_max = 1.0;
constexpr std::size_t bytes_max = std::size_t{64} << 20;
// Inputs from which others are made by mutation: the dearest so far.
constexpr std::size_t kept_max = 12;

struct options {
    double seconds = 20;        // for all parsers together
    std::size_t inputs = 2000;  // of each parser, at most
    unsigned seed = 1;
    std::string only;   // parsers whose name has this
    std::string found;  // a folder for inputs that cost too much
};

struct kept_input {
    std::string text;
    measured cost;
    std::uint64_t seed = 0;  // that it was made of
};

struct result {
    std::size_t inputs = 0;
    std::size_t taken = 0;  // that the parser had no fault to find with
    kept_input slowest, largest;
};

bool is_too_much(const measured& cost) {
    return cost.seconds > seconds_max || cost.bytes > bytes_max;
}

/// Dearer ones first: by the share of what one may cost.
double price(const measured& cost) {
    return std::max(cost.seconds / seconds_max,
                    static_cast<double>(cost.bytes) / static_cast<double>(bytes_max));
}

class tried_parser {
  public:
    tried_parser(const parser& tried, unsigned seed)
        : tried_(tried), texts_(*tried.inputs), random_(seed) {}

    /// Most inputs are short; one in eight may be as long as is measured. Half are new, the others
    /// are expensive earlier ones in another size, or with some bytes changed.
    void feed_one() {
        const std::size_t bytes = random_() % 8 == 0 ? input_bytes_max : 64u << random_() % 6;
        const std::size_t way = kept_.empty() ? 0 : random_() % 4;
        kept_input input;
        input.seed = random_();
        if (way == 2) input.seed = any_kept().seed;
        if (way == 3) {
            const kept_input& dear = any_kept();
            input.text = texts_.mutated(dear.text, input.seed);
            input.seed = dear.seed;
        } else {
            input.text = texts_.make(input.seed, bytes);
        }
        set_subject(tried_.name.c_str(), done_.inputs);
        bool is_taken = false;
        const std::string packed = tried_.pack ? tried_.pack(input.text) : std::string();
        const std::string_view fed = tried_.pack ? std::string_view(packed) : input.text;
        input.cost = measure([&] { is_taken = tried_.parse(fed); });
        ++done_.inputs;
        done_.taken += is_taken ? 1 : 0;
        keep(std::move(input));
    }

    const result& done() const { return done_; }

  private:
    const kept_input& any_kept() { return kept_[random_() % kept_.size()]; }
    void keep(kept_input input) {
        if (input.cost.seconds > done_.slowest.cost.seconds) done_.slowest = input;
        if (input.cost.bytes > done_.largest.cost.bytes) done_.largest = input;
        if (kept_.size() == kept_max && price(input.cost) <= price(kept_.back().cost)) return;
        kept_.push_back(std::move(input));
        std::sort(kept_.begin(), kept_.end(), [](const kept_input& a, const kept_input& b) {
            return price(a.cost) > price(b.cost);
        });
        if (kept_.size() > kept_max) kept_.pop_back();
    }

    const parser& tried_;
    hostile_text texts_;
    std::mt19937_64 random_;
    result done_;
    std::vector<kept_input> kept_;
};

void write_found(const options& wanted, const std::string& parser, const kept_input& input,
                 const char* finding) {
    if (wanted.found.empty()) return;
    std::string name = parser;
    std::replace(name.begin(), name.end(), ' ', '-');
    std::ofstream(wanted.found + "/" + name + "-" + finding) << input.text;
}

int run(const options& wanted) {
    guard(60);
    const std::vector<parser> all = parsers();
    std::vector<parser> chosen;
    for (const parser& each : all)
        if (each.name.find(wanted.only) != std::string::npos) chosen.push_back(each);
    std::printf("| parser | inputs | taken | worst time | of bytes | worst memory | of bytes |\n");
    std::printf("|---|---|---|---|---|---|---|\n");
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    std::size_t inputs = 0;
    int faults = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        // What earlier parsers left of their time is the later ones'.
        const double spent = std::chrono::duration<double>(clock::now() - begin).count();
        const double share = (wanted.seconds - spent) / static_cast<double>(chosen.size() - i);
        const auto end = clock::now() + std::chrono::duration<double>(std::max(0.05, share));
        tried_parser tried(chosen[i], wanted.seed);
        while (tried.done().inputs < wanted.inputs && clock::now() < end) tried.feed_one();
        const result& done = tried.done();
        inputs += done.inputs;
        std::printf("| %s | %zu | %zu %% | %.0f ms | %zu | %.1f MB | %zu |\n",
                    chosen[i].name.c_str(), done.inputs,
                    done.taken * 100 / std::max<std::size_t>(1, done.inputs),
                    done.slowest.cost.seconds * 1e3, done.slowest.text.size(),
                    static_cast<double>(done.largest.cost.bytes) / 1e6, done.largest.text.size());
        std::fflush(stdout);
        write_found(wanted, chosen[i].name, done.slowest, "slowest");
        write_found(wanted, chosen[i].name, done.largest, "largest");
        for (const kept_input* each : {&done.slowest, &done.largest})
            if (is_too_much(each->cost)) {
                ++faults;
                std::printf("%s: an input of %zu bytes takes %.2f s and %.1f MB: \"%.300s\"\n",
                            chosen[i].name.c_str(), each->text.size(), each->cost.seconds,
                            static_cast<double>(each->cost.bytes) / 1e6, each->text.c_str());
            }
    }
    std::printf("%zu inputs of at most %zu bytes; each may take %.0f s and %zu MB: %s\n", inputs,
                input_bytes_max, seconds_max, bytes_max >> 20,
                faults == 0 ? "none takes more" : "some take more");
    return faults == 0 ? 0 : 1;
}

constexpr const char* usage =
    "usage: parser_cost [--seconds N] [--inputs N] [--seed N] [--only TEXT] [--found FOLDER]\n"
    "                   [--of PARSER FILE]\n"
    "\n"
    "Feeds every parser and compiler that a request reaches texts of at most 64 KB that are made "
    "to\n"
    "cost much, and prints for each how many there were, and the most time and memory that one "
    "took.\n"
    "  --seconds N     for all parsers together (20)\n"
    "  --inputs N      of each parser, at most (2000)\n"
    "  --seed N        the same seed makes the same first texts (1)\n"
    "  --only TEXT     parsers whose name has it\n"
    "  --found FOLDER  takes the dearest inputs of each\n"
    "  --of P FILE     measures parser P on a file, and nothing else\n"
    "The exit status is 1 when an input takes more than a second or 64 MiB.\n";

int measure_file(const std::string& name, const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const parser& each : parsers())
        if (each.name == name) {
            const measured cost = measure([&] { each.parse(text); });
            std::printf("%zu bytes: %.0f ms, %.1f MB\n", text.size(), cost.seconds * 1e3,
                        static_cast<double>(cost.bytes) / 1e6);
            return is_too_much(cost) ? 1 : 0;
        }
    std::fprintf(stderr, "no parser has the name '%s'\n", name.c_str());
    return 2;
}

template <class Number>
bool read(const char* text, Number& number) {
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
    return error == std::errc() && *end == '\0';
}

}  // namespace

int main(int count, char** values) {
    options wanted;
    for (int i = 1; i < count; ++i) {
        const std::string option = values[i];
        if (option == "--help") {
            std::fputs(usage, stdout);
            return 0;
        }
        if (option == "--of" && i + 2 < count) return measure_file(values[i + 1], values[i + 2]);
        const char* value = i + 1 < count ? values[++i] : "";
        const bool is_read = (option == "--seconds" && read(value, wanted.seconds)) ||
                             (option == "--inputs" && read(value, wanted.inputs)) ||
                             (option == "--seed" && read(value, wanted.seed)) ||
                             (option == "--only" && !(wanted.only = value).empty()) ||
                             (option == "--found" && !(wanted.found = value).empty());
        if (!is_read) {
            std::fputs(usage, stderr);
            return 2;
        }
    }
    return run(wanted);
}
