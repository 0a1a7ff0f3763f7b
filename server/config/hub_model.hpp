// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model by its name on a hub, "hf:ORG/NAME:QUANT": which of a repository's files it is, and how
// they come into the Hugging Face cache. Everything but choose_hub_files() blocks.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/model_path.hpp"
#include "storage/objects/hub/hub_cache.hpp"
#include "storage/types/errc.hpp"

namespace semantic::server {

/// What the variables of Hugging Face's tools say.
struct hub_settings {
    std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT
    std::string token;                                // HF_TOKEN; empty: none
    bool is_offline = false;                          // HF_HUB_OFFLINE: nothing is asked

    static hub_settings of_environment();
};

/// A model of a repository: one of its GGUF files with all its parts, or its safetensors with what
/// belongs to them.
struct hub_choice {
    std::string name;                      // of the file without its ending; empty: the folder
    std::vector<storage::hub_file> files;  // that by which the model is found is the last
    std::uint64_t bytes = 0;
    std::vector<std::string> others;  // names that could have been asked for
};

/// `asked`: a GGUF file of the repository or its form, "Q4_K_M"; empty: the GGUF file that
/// preferred_quantisation() has, else the safetensors. Errors: not_found, with what there is.
storage::result<hub_choice> choose_hub_files(std::string_view asked,
                                             const std::vector<storage::hub_file>& files);

/// "hf:": the prefix of a model's name on a hub.
inline constexpr std::string_view hub_mark = "hf:";

/// Finds "hf:ORG/NAME[:FILE or QUANT]" in the Hugging Face cache alone; of several GGUF files that
/// nobody named it is the one that preferred_quantisation() has. Errors: not_found, bad_value.
storage::result<found_model> find_hub_model(std::string_view name, const model_places& places);

/// Whether all parts of a model in several files are there: those that the numbers in the names of
/// the file, or of a folder's files, speak of.
bool is_whole_model(const std::string& path);

/// Receives the progress of a fetch. Called on the fetching thread.
struct hub_report {
    std::function<void(const std::string&)> say;  // a sentence
    std::function<void(const storage::hub_progress&)> on_progress;
};

struct hub_limits {
    std::uint64_t memory_bytes = 0;  // that a model may take; 0: not known
    bool must_fit = true;            // a model that does not is not fetched
    bool only_says = false;          // what would come, and nothing comes
};

/// Fetches what `name`, "hf:ORG/NAME[:FILE or QUANT]", means into `places.hub`, after saying what
/// comes, from where, and whether disk and memory have room for it. What is there is compared with
/// the hub's commit and not fetched again. Errors: those of hub_client and hub_cache; not_found and
/// bad_value for names; out_of_space where it does not fit.
storage::result<found_model> fetch_hub_model(std::string_view name, const model_places& places,
                                             const hub_settings& settings, const hub_limits& limits,
                                             const hub_report& report,
                                             const std::stop_token& stop = {});

/// The model of that name if all of it is in the cache: then nothing is asked, so that a restart
/// depends on no hub and never finds another model under its memories. Else as fetch_hub_model().
storage::result<found_model> find_or_fetch_hub_model(
    std::string_view name, const model_places& places, const hub_settings& settings,
    const hub_limits& limits, const hub_report& report, const std::stop_token& stop = {});

/// "1.2 of 5.0 GB, 40.2 MB/s, 1 min 35 s left", from what came since it was made.
class hub_rate {
  public:
    std::string text(const storage::hub_progress& now);

  private:
    std::chrono::steady_clock::time_point begin_{};
    std::uint64_t first_bytes_ = 0;
    bool has_begun_ = false;
};

}  // namespace semantic::server
