// SPDX-License-Identifier: Apache-2.0
#include "server/eval/fetch.hpp"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <unistd.h>

#include "server/config/hub_model.hpp"
#include "server/models/memory_limits.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

constexpr std::chrono::seconds report_every{10};  // where stderr is no terminal

/// Shows the progress of a fetch: one line that is rewritten on a terminal, elsewhere a line every
/// report_every.
class fetch_progress {
  public:
    ~fetch_progress() { end(); }
    void show(const storage::hub_progress& now) {
        const std::string text = rate_.text(now);
        const auto at = std::chrono::steady_clock::now();
        if (terminal_) {
            std::fprintf(stderr, "\r%s\033[K", text.c_str());
            shown_ = true;
        } else if (at - reported_ >= report_every || now.done_bytes == now.all_bytes) {
            std::fprintf(stderr, "%s\n", text.c_str());
            reported_ = at;
        }
        std::fflush(stderr);
    }
    void end() {
        if (shown_) std::fputs("\n", stderr);
        shown_ = false;
    }

  private:
    const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
    bool shown_ = false;
    std::chrono::steady_clock::time_point reported_{};
    server::hub_rate rate_;
};

}  // namespace

int run_fetch(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add()("name", po::value<std::string>()->value_name("NAME"),
                "[hf:]ORG/NAME[:FILE or QUANT]; the first word");
    given.add()("anyway", po::bool_switch(), "also if it does not fit into this machine's memory");
    given.add()("dry-run", po::bool_switch(), "say what would come, and fetch nothing");
    std::vector<std::string> named = words;
    if (!named.empty() && !named.front().starts_with('-')) named.insert(named.begin(), "--name");
    if (!given.parse(named)) return 0;
    if (!given.has("name")) throw bad_input("which model? ORG/NAME[:FILE or QUANT]");
    const auto places = server::model_places::of_environment();
    server::hub_limits limits;
    limits.memory_bytes = server::find_memory_limit(0).bytes;
    limits.must_fit = !given.get<bool>("anyway");
    limits.only_says = given.get<bool>("dry-run");
    fetch_progress progress;
    server::hub_report report;
    report.say = [](const std::string& text) { std::cerr << text << std::endl; };
    report.on_progress = [&](const storage::hub_progress& now) { progress.show(now); };
    const auto found =
        server::fetch_hub_model(given.get<std::string>("name"), places,
                                server::hub_settings::of_environment(), limits, report);
    progress.end();
    if (!found) throw bad_input(found.error().what);
    if (limits.only_says) return 0;
    std::cout << found->path << "\n";
    std::cerr << "semantic-server --model hf:" << found->id << " serves it\n";
    return 0;
}

}  // namespace semantic::eval
