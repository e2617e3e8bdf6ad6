// The memory of the emulated device, as tests want to know and to have it, and its health.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::emulator {

// Calls of cuda::Memory::Allocate since the program began.
int64_t NumAllocations();

// Copies that have run since the program began, and their bytes.
int64_t NumCopies();
int64_t BytesCopied();

// What the device has: 4 GiB, or what INCIPIT_EMULATED_DEVICE_BYTES says in the environment, until
// this is called.
void SetDeviceBytes(size_t bytes);
size_t DeviceBytes();

// From here on whatever the device is asked for fails, or no longer.
void BreakDevice(bool is_broken);

}  // namespace incipit::emulator
