// A file system whose files fail on request of a test.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tier/files/file_system.h"

namespace incipit {

// The faults. The test and the tier share one object.
class DiskFaults {
 public:
  enum class Call { kLock, kList, kCreate, kOpen, kRemove, kRead, kWrite };

  // Makes the calls of `call` fail with `status`, also calls that wait now. OK ends the fault.
  void Fail(Call call, absl::Status status) {
    std::lock_guard lock(mutex_);
    const auto i = static_cast<size_t>(call);
    errors_[i] = std::move(status);
    num_good_calls_[i] = 0;
  }
  // Makes the calls of `call` after the next `num_calls` calls fail with `status`.
  void FailAfter(Call call, int num_calls, absl::Status status) {
    std::lock_guard lock(mutex_);
    const auto i = static_cast<size_t>(call);
    errors_[i] = std::move(status);
    num_good_calls_[i] = num_calls_[i] + num_calls;
  }
  // Makes reads and writes wait until the call of Hang(false).
  void Hang(bool hangs) {
    std::lock_guard lock(mutex_);
    hangs_ = hangs;
    num_calls_max_ = NoLimits();
    changed_.notify_all();
  }
  // Makes the calls of `call` after the next `num_calls` calls wait until the call of Hang(false).
  // REQUIRES: `call` is kRead or kWrite.
  void HangAfter(Call call, int num_calls) {
    std::lock_guard lock(mutex_);
    const auto i = static_cast<size_t>(call);
    num_calls_max_[i] = num_calls_[i] + num_calls;
  }
  // Returns the result of a call, after the wait of a hanging disk.
  absl::Status Result(Call call) {
    std::unique_lock lock(mutex_);
    const auto i = static_cast<size_t>(call);
    const int number = ++num_calls_[i];
    if (call == Call::kRead || call == Call::kWrite) {
      changed_.wait(lock, [&] { return !hangs_ && number <= num_calls_max_[i]; });
      if (const uint32_t delay_max = delay_max_us; delay_max > 0) {
        const auto delay = std::chrono::microseconds(random_() % delay_max);
        lock.unlock();
        std::this_thread::sleep_for(delay);
        lock.lock();
      }
    }
    const uint32_t one_in = fail_one_in;
    if (one_in > 0 && random_() % one_in == 0) return absl::UnavailableError("bad luck");
    return number > num_good_calls_[i] ? errors_[i] : absl::OkStatus();
  }
  // Returns true for one of `one_in` calls; 0: never.
  bool Chance(uint32_t one_in) {
    std::lock_guard lock(mutex_);
    return one_in > 0 && random_() % one_in == 0;
  }
  size_t Random(size_t end) {
    std::lock_guard lock(mutex_);
    return random_() % end;
  }
  int num_calls(Call call) {
    std::lock_guard lock(mutex_);
    return num_calls_[static_cast<size_t>(call)];
  }

  std::atomic<uint32_t> fail_one_in = 0;           // any call
  std::atomic<uint32_t> corrupt_read_one_in = 0;   // flips one bit of the result
  std::atomic<uint32_t> corrupt_write_one_in = 0;  // flips one bit in the file
  std::atomic<uint32_t> short_write_one_in = 0;  // writes only the first page, and reports success
  std::atomic<uint32_t> delay_max_us = 0;
  std::atomic<bool> reorders_reads = false;

 private:
  static constexpr std::array<int, 7> NoLimits() {
    std::array<int, 7> limits{};
    limits.fill(std::numeric_limits<int>::max());
    return limits;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  absl::Status errors_[7];
  int num_good_calls_[7] = {};  // calls with a higher number fail with the status in `errors_`
  int num_calls_[7] = {};
  // Calls with a higher number wait until the call of Hang(false).
  std::array<int, 7> num_calls_max_ = NoLimits();
  std::mt19937 random_{1};
};

class FaultyFile final : public File {
 public:
  FaultyFile(std::shared_ptr<File> file, std::shared_ptr<DiskFaults> faults)
      : file_(std::move(file)), faults_(std::move(faults)) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    if (absl::Status status = faults_->Result(DiskFaults::Call::kRead); !status.ok()) return status;
    absl::Status status = file_->Read(offset, out);
    if (faults_->Chance(faults_->corrupt_read_one_in)) {
      out[faults_->Random(out.size())] ^= std::byte{32};
    }
    return status;
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> bytes) override {
    if (absl::Status status = faults_->Result(DiskFaults::Call::kWrite); !status.ok()) {
      return status;
    }
    if (faults_->Chance(faults_->short_write_one_in)) bytes = bytes.first(4096);
    if (!faults_->Chance(faults_->corrupt_write_one_in)) return file_->Write(offset, bytes);
    const std::unique_ptr<std::byte, void (*)(void*)> copy(
        static_cast<std::byte*>(std::aligned_alloc(4096, bytes.size())), std::free);
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    copy.get()[faults_->Random(bytes.size())] ^= std::byte{32};
    return file_->Write(offset, {copy.get(), bytes.size()});
  }

 private:
  const std::shared_ptr<File> file_;
  const std::shared_ptr<DiskFaults> faults_;
};

// Has several reads pending, and ends the reads in a random order on request.
class FaultyReadQueue final : public ReadQueue {
 public:
  explicit FaultyReadQueue(std::shared_ptr<DiskFaults> faults) : faults_(std::move(faults)) {}
  void Submit(FileRead& read) override { pending_.push_back(&read); }
  FileRead& Wait() override {
    const size_t i = faults_->reorders_reads ? faults_->Random(pending_.size()) : 0;
    FileRead& read = *pending_[i];
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
    read.status = read.file->Read(read.offset, read.out);
    return read;
  }

 private:
  const std::shared_ptr<DiskFaults> faults_;
  std::vector<FileRead*> pending_;
};

class FaultyFileSystem final : public FileSystem {
 public:
  FaultyFileSystem(std::unique_ptr<FileSystem> files, std::shared_ptr<DiskFaults> faults)
      : files_(std::move(files)), faults_(std::move(faults)) {}

  absl::Status Prepare() override { return files_->Prepare(); }
  absl::StatusOr<bool> Lock() override {
    const absl::Status status = faults_->Result(DiskFaults::Call::kLock);
    return status.ok() ? files_->Lock() : status;
  }
  void Unlock() override { files_->Unlock(); }
  absl::StatusOr<std::vector<FileInfo>> List() override {
    const absl::Status status = faults_->Result(DiskFaults::Call::kList);
    if (!status.ok()) return status;
    return files_->List();
  }
  absl::StatusOr<std::shared_ptr<File>> Create(const std::string& name,
                                               uint64_t num_bytes) override {
    const absl::Status status = faults_->Result(DiskFaults::Call::kCreate);
    return status.ok() ? Wrap(files_->Create(name, num_bytes)) : status;
  }
  absl::StatusOr<std::shared_ptr<File>> Open(const std::string& name) override {
    const absl::Status status = faults_->Result(DiskFaults::Call::kOpen);
    return status.ok() ? Wrap(files_->Open(name)) : status;
  }
  absl::StatusOr<std::string> ReadAll(const std::string& name, uint64_t num_bytes_max) override {
    const absl::Status status = faults_->Result(DiskFaults::Call::kRead);
    if (!status.ok()) return status;
    return files_->ReadAll(name, num_bytes_max);
  }
  absl::Status WriteAll(const std::string& name, std::string_view contents) override {
    const absl::Status status = faults_->Result(DiskFaults::Call::kWrite);
    return status.ok() ? files_->WriteAll(name, contents) : status;
  }
  absl::Status Remove(const std::string& name) override {
    const absl::Status status = faults_->Result(DiskFaults::Call::kRemove);
    return status.ok() ? files_->Remove(name) : status;
  }
  int read_depth() const override { return 4; }
  std::unique_ptr<ReadQueue> MakeReadQueue() override {
    return std::make_unique<FaultyReadQueue>(faults_);
  }

 private:
  absl::StatusOr<std::shared_ptr<File>> Wrap(absl::StatusOr<std::shared_ptr<File>> file) {
    if (!file.ok()) return file.status();
    return std::make_shared<FaultyFile>(*std::move(file), faults_);
  }

  const std::unique_ptr<FileSystem> files_;
  const std::shared_ptr<DiskFaults> faults_;
};

}  // namespace incipit
