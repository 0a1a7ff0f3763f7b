#include "engine/model/weights/weights.hpp"

#include <tbb/parallel_invoke.h>

#include <new>
#include <optional>
#include <sys/mman.h>

#include "engine/model/weights/tensor_reader.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "engine/model/weights/weight_packing.hpp"
#include "engine/model/weights/weight_plan.hpp"

namespace semantic::engine {

using storage::result;

namespace {

void plan(tensor_reader& reader, const model_config& config, model_weights& out) {
    plan_weights(reader, config, out);
    reader.refuse_unused();
}

}  // namespace

weight_arena::weight_arena(std::size_t bytes) {
    if (bytes == 0) return;
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(mapped);
    bytes_ = bytes;
    ::madvise(mapped, bytes, MADV_HUGEPAGE);  // a wish: without it reading is a few per cent slower
}

weight_arena::~weight_arena() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
}

result<model_weights> model_weights::load(const std::string& model, const model_config& config,
                                          const kernel_table& kernels, weight_form form,
                                          const weights_progress& progress) {
    auto files = open_weight_files(model);
    if (!files) return files.error();
    model_weights out;
    tensor_reader reader(*files, config, form);
    plan(reader, config, out);
    if (reader.failed()) return reader.complaint();
    out.arena_ = weight_arena(reader.bytes());
    const std::string changed = reader.quantises() ? to_string(form) : "";
    std::optional<storage::failure> bad;
    tbb::parallel_invoke(
        [&] { out.hash_ = hash_weight_files(*files, changed); },
        [&] { bad = pack_all(kernels, reader.plans(), *files, out.arena_.data(), progress); });
    if (bad) return *bad;
    if (config.tied_head) out.head = out.embedding;
    return out;
}

result<weight_check> model_weights::check(const std::string& model, const model_config& config,
                                          weight_form form) {
    const auto files = open_weight_files(model);
    if (!files) return files.error();
    model_weights planned;
    tensor_reader reader(*files, config, form);
    plan(reader, config, planned);
    if (reader.failed()) return reader.complaint();
    return weight_check{reader.bytes(), reader.list_unused()};
}

}  // namespace semantic::engine
