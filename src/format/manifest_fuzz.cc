#include "format/manifest.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)picchio::ParseManifest(text, "input").has_value();

  // No fuzzer finds a SHA-256: seal what stands before the checksum, so that the rest is reached.
  std::string sealed(text.substr(0, text.rfind("\"checksum\"")));
  sealed += "\"checksum\": \"" + picchio::Sha256Of(sealed).Hex() + "\"\n}\n";
  auto manifest = picchio::ParseManifest(sealed, "input");
  if (!manifest.has_value()) return 0;
  auto again = picchio::SerializeManifest(*manifest);
  PICCHIO_CHECK(again.has_value() && *again == sealed);
  return 0;
}
