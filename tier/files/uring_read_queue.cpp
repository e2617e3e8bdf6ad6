#include <liburing.h>

#include <cerrno>

#include "base/check.h"
#include "tier/files/posix_file.h"

namespace incipit {
namespace {

class UringReadQueue final : public ReadQueue {
 public:
  static std::unique_ptr<ReadQueue> Make(int depth) {
    std::unique_ptr<UringReadQueue> queue(new UringReadQueue);
    if (::io_uring_queue_init(static_cast<unsigned>(depth), &queue->ring_, 0) != 0) return nullptr;
    queue->is_open_ = true;
    return queue;
  }
  ~UringReadQueue() override {
    if (is_open_) ::io_uring_queue_exit(&ring_);
  }

  void Submit(FileRead& read) override {
    io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
    INCIPIT_CHECK(sqe != nullptr);
    const auto& file = static_cast<const PosixFile&>(*read.file);
    ::io_uring_prep_read(sqe, file.fd(), read.out.data(), static_cast<unsigned>(read.out.size()),
                         read.offset);
    ::io_uring_sqe_set_data(sqe, &read);
    // After a failed submission the entry stays in the ring, and Wait submits the entry again.
    static_cast<void>(::io_uring_submit(&ring_));
  }

  FileRead& Wait() override {
    io_uring_cqe* cqe = nullptr;
    int error = 0;
    do {
      error = ::io_uring_submit_and_wait(&ring_, 1);
      if (error >= 0) error = ::io_uring_peek_cqe(&ring_, &cqe);
    } while (error == -EINTR || error == -EAGAIN || error == -EBUSY);
    INCIPIT_CHECK(error >= 0 && cqe != nullptr);
    FileRead& read = *static_cast<FileRead*>(::io_uring_cqe_get_data(cqe));
    const int count = cqe->res;
    ::io_uring_cqe_seen(&ring_, cqe);
    // A read of all bytes has ended. For an error or a short read, File::Read returns the status.
    read.status = count >= 0 && static_cast<size_t>(count) == read.out.size()
                      ? absl::OkStatus()
                      : read.file->Read(read.offset, read.out);
    return read;
  }

 private:
  UringReadQueue() = default;

  io_uring ring_{};
  bool is_open_ = false;
};

}  // namespace

std::unique_ptr<ReadQueue> MakeUringReadQueue(int depth) { return UringReadQueue::Make(depth); }

}  // namespace incipit
