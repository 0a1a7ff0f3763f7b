// SPDX-License-Identifier: Apache-2.0
#pragma once
// An array of fixed size on a 64-byte boundary, as the kernels need it. Not initialised: users
// write before they read.

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace semantic::engine {

template <class Element>
class aligned_buffer {
    static_assert(std::is_trivial_v<Element>);

  public:
    aligned_buffer() = default;
    explicit aligned_buffer(std::size_t count)
        : data_(count == 0
                    ? nullptr
                    : static_cast<Element*>(::operator new(count * sizeof(Element), alignment))),
          count_(count) {}
    aligned_buffer(aligned_buffer&& from) noexcept
        : data_(std::exchange(from.data_, nullptr)), count_(std::exchange(from.count_, 0)) {}
    aligned_buffer& operator=(aligned_buffer&& from) noexcept {
        std::swap(data_, from.data_);
        std::swap(count_, from.count_);
        return *this;
    }
    ~aligned_buffer() { ::operator delete(data_, alignment); }

    Element* data() noexcept { return data_; }
    const Element* data() const noexcept { return data_; }
    std::size_t count() const noexcept { return count_; }

  private:
    static constexpr std::align_val_t alignment{64};
    Element* data_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace semantic::engine
