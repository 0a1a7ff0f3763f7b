// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/model_pass.hpp"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <chrono>
#include <utility>

namespace semantic::engine {

namespace {

using clock = std::chrono::steady_clock;

}  // namespace

model_pass::model_pass(transformer& model, int rows_max, int vocabulary, engine_probe& probe)
    : model_(model),
      vocabulary_(static_cast<std::size_t>(vocabulary)),
      probe_(probe),
      logits_(static_cast<std::size_t>(rows_max) * vocabulary_) {}

std::vector<sampled_row> model_pass::run(std::span<const step_row> rows,
                                         std::span<const sampled_row> waiting,
                                         layer_gate* arriving) {
    std::vector<sequence_step> steps;
    // Of each row: the indices of its tokens whose logits are wanted.
    std::vector<std::vector<int>> wanted(rows.size());
    std::vector<sampled_row> sampled;
    step_sample pass;
    float* logits = logits_.data();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto [run, count, drafts] = rows[i];
        if (run->reaches_end(count))
            for (int k = 0; k <= drafts; ++k) wanted[i].push_back(count - 1 + k);
        steps.push_back({run->next_tokens(count + drafts), &run->cache(), wanted[i],
                         wanted[i].empty() ? nullptr : logits, arriving, run->states().current(),
                         run->states().next(), drafts});
        if (!wanted[i].empty()) {
            sampled.push_back({run,
                               {logits, vocabulary_},
                               {logits + vocabulary_, vocabulary_ * (wanted[i].size() - 1)}});
            logits += vocabulary_ * wanted[i].size();
        }
        if (run->prompt_done()) {
            // A draft token is a row of its own, and costs as much as one more sequence.
            pass.decoding += 1 + drafts;
            continue;
        }
        pass.chunk_position = run->view().position;
        pass.chunk_tokens = count;
    }
    auto begin = clock::now();
    model_.forward(steps);
    pass.seconds = std::chrono::duration<double>(clock::now() - begin).count();
    pass_seconds_ = pass.seconds;
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i].run->step_has_run(
            rows[i].drafts, [this, i](int kept) { model_.rewind(static_cast<int>(i), kept); });
    measure(pass, arriving != nullptr);
    sampled.insert(sampled.end(), waiting.begin(), waiting.end());
    form_load load{.pass_seconds = pass.seconds};
    load.is_alone = rows.size() + waiting.size() == 1;
    return draw(std::move(sampled), load);
}

std::vector<sampled_row> model_pass::run_forms(std::span<const sampled_row> waiting) {
    // No pass ran, so the forms delay no answer.
    return draw({waiting.begin(), waiting.end()}, {.is_alone = true});
}

bool model_pass::draw_after_draft(sequence& run, std::span<const float> logits) const {
    form_load load{.pass_seconds = pass_seconds_};
    load.held = run.has_form() ? 1 : 0;
    return run.draw_ahead(logits, form_share(load));
}

// Counts a pass. One that waited for the disk says nothing about the cost of computing.
void model_pass::measure(step_sample pass, bool waited_for_disk) {
    if (!waited_for_disk) cost_.learn(pass);
    probe_.tokens_prefilled.fetch_add(static_cast<std::uint64_t>(pass.chunk_tokens),
                                      std::memory_order_relaxed);
    probe_.steps.fetch_add(1, std::memory_order_relaxed);
    probe_.step_duration.observe(pass.seconds);
}

// A draw reads the logits of the whole vocabulary, some hundred microseconds of work. An exception
// of a draw is kept by the sequence and thrown by sequence::accept(), so it ends one request only.
std::vector<sampled_row> model_pass::draw(std::vector<sampled_row> rows, const form_load& load) {
    form_load all = load;
    all.threads = oneapi::tbb::this_task_arena::max_concurrency();
    for (const sampled_row& row : rows) all.held += row.run->has_form() ? 1 : 0;
    const std::int64_t form_work = form_share(all);
    // Not of bool, whose elements share bytes: several threads write.
    std::vector<char> is_drawn(rows.size());
    oneapi::tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t i) {
        is_drawn[i] = rows[i].run->draw_ahead(rows[i].logits, form_work) ? 1 : 0;
    });
    std::vector<sampled_row> drawn;
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (is_drawn[i] != 0) drawn.push_back(rows[i]);
    return drawn;
}

}  // namespace semantic::engine
