// Control of the emulated device's memory and health, and counts of its use, for tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::emulator {

// Returns the number of calls of cuda::Memory::Allocate since the start of the program.
int64_t NumAllocations();

// Numbers of copies and of copied bytes since the start of the program.
int64_t NumCopies();
int64_t BytesCopied();

// Sets the memory size of the emulated device. Without this call, the size is 4 GiB, or the number
// of bytes in the environment variable INCIPIT_EMULATED_DEVICE_BYTES.
void SetDeviceBytes(size_t bytes);
size_t DeviceBytes();

// If `is_broken`, all later operations of the device fail. Otherwise operations succeed again.
void BreakDevice(bool is_broken);

}  // namespace incipit::emulator
