// Functions for tests that limit the memory of the emulated device, count its use, and make the
// device fail.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::emulator {

// Returns the number of calls of cuda::Memory::Allocate since the start of the program.
int64_t NumAllocations();

// NumCopies returns the number of copies since the start of the program, BytesCopied the number of
// copied bytes.
int64_t NumCopies();
int64_t BytesCopied();

// SetDeviceBytes sets the memory size of the emulated device. Without a call, the size is the
// number of bytes in the environment variable INCIPIT_EMULATED_DEVICE_BYTES, or 4 GiB.
void SetDeviceBytes(size_t bytes);
size_t DeviceBytes();

// If `is_broken`, all later operations of the device fail. Otherwise operations succeed again.
void BreakDevice(bool is_broken);

}  // namespace incipit::emulator
