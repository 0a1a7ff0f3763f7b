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

/// Settings from the variables of the environment that Hugging Face's tools read.
struct hub_settings {
    std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT
    std::string token;                                // HF_TOKEN; empty: none
    bool is_offline = false;                          // HF_HUB_OFFLINE: nothing is asked

    static hub_settings of_environment();
};

/// The files of one model of a repository: a GGUF file with all its parts, or all safetensors with
/// their config and tokenizer.
struct hub_choice {
    std::string name;  // of the GGUF model; empty: the safetensors
    /// In the order in which they are fetched; the last one is the one to open.
    std::vector<storage::hub_file> files;
    std::uint64_t bytes = 0;
    std::vector<std::string> others;  // other models of the repository
};

/// Chooses a model among the files of a repository. `asked`: a GGUF file's name or its
/// quantisation, "Q4_K_M"; empty: the GGUF file that preferred_quantisation() chooses, or the
/// safetensors where there is no GGUF. Errors: not_found, naming what there is.
storage::result<hub_choice> choose_hub_files(std::string_view asked,
                                             const std::vector<storage::hub_file>& files);

/// "hf:": the prefix of a model's name on a hub.
inline constexpr std::string_view hub_mark = "hf:";

/// Finds "hf:ORG/NAME[:FILE or QUANT]" in the Hugging Face cache; asks no hub. Of several GGUF
/// files, where none is named, it takes what preferred_quantisation() chooses. Errors: not_found,
/// bad_value.
storage::result<found_model> find_hub_model(std::string_view name, const model_places& places);

/// Whether all files of the model at `path` are there. A name such as NAME-00001-of-00003.gguf says
/// how many parts there are; for a folder all its files are checked.
bool is_whole_model(const std::string& path);

/// Receives the progress of a fetch. Called on the fetching thread.
struct hub_report {
    std::function<void(const std::string&)> say;  // one sentence about what will be fetched
    std::function<void(const storage::hub_progress&)> on_progress;
};

/// Whether a model may be fetched.
struct hub_limits {
    std::uint64_t memory_bytes = 0;  // that a model may take; 0: not known
    bool must_fit = true;            // whether one that needs more memory is refused
    bool only_says = false;          // whether to report what would be fetched without fetching it
};

/// Fetches the model `name`, "hf:ORG/NAME[:FILE or QUANT]", into `places.hub`, after reporting its
/// files, their source, and whether disk and memory have room. Files that are there and match the
/// hub's commit are not fetched again. Errors: those of hub_client and hub_cache; not_found and
/// bad_value for names; out_of_space where it does not fit.
storage::result<found_model> fetch_hub_model(std::string_view name, const model_places& places,
                                             const hub_settings& settings, const hub_limits& limits,
                                             const hub_report& report,
                                             const std::stop_token& stop = {});

/// Finds the model in the cache if all its files are there, without asking the hub: a restart
/// depends on no hub and never finds other weights under the same stored memories. Else fetches it
/// as fetch_hub_model() does.
storage::result<found_model> find_or_fetch_hub_model(
    std::string_view name, const model_places& places, const hub_settings& settings,
    const hub_limits& limits, const hub_report& report, const std::stop_token& stop = {});

/// Formats the progress of a fetch: "1.2 of 5.0 GB, 40.2 MB/s, 1 min 35 s left". The rate is the
/// average since the first call of text().
class hub_rate {
  public:
    std::string text(const storage::hub_progress& now);

  private:
    std::chrono::steady_clock::time_point begin_{};
    // What was there at the first call: it does not count in the rate.
    std::uint64_t first_bytes_ = 0;
    bool has_begun_ = false;
};

}  // namespace semantic::server
