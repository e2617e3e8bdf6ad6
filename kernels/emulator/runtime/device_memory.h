// Declares functions with which tests limit the memory of the emulated device, count its
// allocations and copies, and make the device fail.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::emulator {

// Returns how many times cuda::Memory::Allocate() has been called since the program started.
int64_t NumAllocations();

// Returns the number of memory copies that the emulated device has made since the program started.
int64_t NumCopies();
// Returns the number of bytes that the emulated device has copied since the program started.
int64_t BytesCopied();

// Sets the memory size of the emulated device. The default is the value of the environment variable
// INCIPIT_EMULATED_DEVICE_BYTES, in bytes, or 4 GiB if the variable is not set.
void SetDeviceBytes(size_t bytes);
size_t DeviceBytes();

// Sets whether all later kernels of the emulated device fail.
void BreakDevice(bool is_broken);

}  // namespace incipit::emulator
