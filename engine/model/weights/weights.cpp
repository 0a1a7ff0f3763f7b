// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weights.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <sys/mman.h>
#include <thread>

#include "engine/model/packed/packed_folder.hpp"
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
    reader.order_by_source();
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

/// One load, step by step.
class weight_loader {
  public:
    weight_loader(const std::vector<weight_file>& files, const tensor_reader& reader,
                  const kernel_table& kernels, const weight_loading& how,
                  const weights_progress& progress, model_weights& out)
        : files_(files),
          reader_(reader),
          kernels_(kernels),
          how_(how),
          changed_form_(reader.quantises() ? to_string(how.form) : ""),
          progress_(progress),
          out_(out) {}

    /// Fills the weights. Errors: as model_weights::load().
    result<void> run() {
        if (how_.packed != nullptr) {
            if (how_.packed->writes_files()) how_.packed->keep_to_budget();
            for (const weight_file& file : files_) {
                sources_.push_back({file.path(), file.bytes()});
                before_.push_back(storage::identity_of(file.path()));
            }
            hashes_ = how_.packed->find_hashes(sources_);
            if (!hashes_ && how_.packed->verifies_all()) hash_now();
            if (hashes_ && how_.packed->writes_files() && use_packed()) return {};
        }
        if (auto ok = how_.packed != nullptr && how_.packed->writes_files() ? pack_to_disk()
                                                                            : pack_to_memory();
            !ok)
            return ok;
        if (how_.packed != nullptr && is_newly_hashed_)
            how_.packed->keep_hashes(sources_, before_, *hashes_);
        return {};
    }

  private:
    /// Hashes the files at once. Nothing is packed meanwhile, so the hashing waits for nobody.
    void hash_now() {
        read_pace nobody_packs;
        nobody_packs.finish();
        hashes_ = hash_each(files_, nobody_packs);
        is_newly_hashed_ = true;
    }

    /// What the packed file has to contain; also sets the weights' hash. Requires: hashes_.
    packed_contents contents() {
        out_.hash_ = hash_together(*hashes_, changed_form_);
        return {out_.hash_, reader_.digest(), reader_.bytes()};
    }

    /// Returns: whether the weights were packed before and are there now.
    bool use_packed() {
        const packed_contents wanted = contents();
        auto file = how_.packed->open(wanted);
        if (!file) {
            if (file.error().code != storage::errc::not_found) {
                out_.origin_.trouble = "packed weights are made again: " + file.error().what;
                if (file.error().code == storage::errc::corrupt)
                    how_.packed->remove(wanted.weights);
            }
            return false;
        }
        out_.origin_.is_first = false;
        if (!take(std::move(*file))) {
            how_.packed->remove(wanted.weights);
            return false;
        }
        if (progress_) progress_(1.0, {});
        return true;
    }

    /// Maps or reads a packed file. Returns: false when it cannot be read.
    bool take(packed_file file) {
        const bool reads = how_.access == weights_access::read ||
                           (how_.access == weights_access::automatic &&
                            how_.copy_bytes_max >= reader_.bytes() && !file.is_on_huge_pages());
        out_.origin_.is_mapped = !reads;
        if (!reads) {
            point_to(file.bytes().data());
            out_.file_ = std::move(file);
            return true;
        }
        weight_arena arena(reader_.bytes());
        if (auto ok = file.read_all(arena.data()); !ok) {
            out_.origin_.trouble = ok.error().what;
            return false;
        }
        point_to(arena.data());
        out_.arena_ = std::move(arena);
        return true;
    }

    void point_to(const std::byte* arena) {
        for (const packing& plan : reader_.plans()) plan.to->data = arena + plan.offset;
    }

    /// Packs while another thread hashes what is not hashed yet, so that the files are read once.
    std::optional<storage::failure> pack(
        const std::function<std::optional<storage::failure>(read_counter&)>& work) {
        read_pace pace;
        std::exception_ptr fault;
        std::vector<storage::block_hash> hashes;
        std::optional<storage::failure> bad;
        {
            std::jthread hasher([&] {
                try {
                    if (!hashes_) hashes = hash_each(files_, pace);
                } catch (...) {
                    fault = std::current_exception();
                }
            });
            read_counter counter(reader_.plans(), files_, progress_, pace);
            try {
                bad = work(counter);
            } catch (...) {
                pace.stop();
                throw;
            }
            bad ? pace.stop() : pace.finish();
        }
        if (bad) return bad;
        if (fault) std::rethrow_exception(fault);
        is_newly_hashed_ = is_newly_hashed_ || !hashes_;
        if (!hashes_) hashes_ = std::move(hashes);
        return std::nullopt;
    }

    /// Packs the weights into memory of this process.
    result<void> pack_to_memory() {
        weight_arena arena(reader_.bytes());
        const auto bad = pack([&](read_counter& counter) {
            return pack_all(kernels_, reader_.plans(), arena.data(), counter);
        });
        if (bad) return *bad;
        out_.hash_ = hash_together(*hashes_, changed_form_);
        point_to(arena.data());
        out_.arena_ = std::move(arena);
        out_.origin_.is_mapped = false;
        return {};
    }

    /// Packs the weights into a file on disk and maps it. When that cannot be written, packs them
    /// into memory instead, or fails when they are too large for that (copy_bytes_max).
    result<void> pack_to_disk() {
        auto draft = how_.packed->begin(reader_.bytes());
        std::optional<storage::failure> unwritten;
        if (!draft) unwritten = draft.error();
        if (draft) {
            const auto write = [&](std::span<const std::byte> bytes) -> result<void> {
                auto ok = (*draft)->writer().write(bytes);
                if (!ok) unwritten = ok.error();
                return ok;
            };
            const auto bad = pack([&](read_counter& counter) {
                return pack_in_order(kernels_, reader_.plans(), reader_.bytes(), write, counter);
            });
            if (bad && !unwritten) return *bad;
            if (!bad) {
                auto file = (*draft)->finish(contents());
                if (file && take(std::move(*file))) return {};
                if (!file) unwritten = file.error();
            }
            (*draft).reset();  // removes an unfinished file, and releases the lock
        }
        // What was planned for a mapping has no room for a copy.
        if (unwritten && how_.copy_bytes_max < reader_.bytes()) return *unwritten;
        if (unwritten) out_.origin_.trouble = "packed weights are not kept: " + unwritten->what;
        return pack_to_memory();
    }

    const std::vector<weight_file>& files_;
    const tensor_reader& reader_;
    const kernel_table& kernels_;
    const weight_loading& how_;
    const std::string changed_form_;  // the form's name if it changes a matrix; else empty
    const weights_progress& progress_;
    model_weights& out_;
    std::optional<std::vector<storage::block_hash>> hashes_;  // of the files, once they are known
    std::vector<packed_source> sources_;                      // where packed weights are kept
    std::vector<std::optional<storage::file_identity>> before_;  // of the files, unhashed
    bool is_newly_hashed_ = false;  // hashes_ was computed in this load
};

result<model_weights> model_weights::load(const std::string& model, const model_config& config,
                                          const kernel_table& kernels, const weight_loading& how,
                                          const weights_progress& progress) {
    const auto begin = std::chrono::steady_clock::now();
    auto files = open_weight_files(model);
    if (!files) return files.error();
    model_weights out;
    tensor_reader reader(*files, config, how.form);
    plan(reader, config, out);
    if (reader.failed()) return reader.complaint();
    if (auto ok = weight_loader(*files, reader, kernels, how, progress, out).run(); !ok)
        return ok.error();
    if (config.tied_head) out.head = out.embedding;
    if (reader.reads_on()) out.sources_ = std::move(*files);
    out.origin_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
