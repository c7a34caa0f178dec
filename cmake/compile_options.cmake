# Flags that every room is compiled with.
add_library(picchio_options INTERFACE)
target_include_directories(picchio_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(picchio_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  # The arithmetic contract names every fused operation; the compiler may add none of its own.
  -ffp-contract=off)
target_compile_definitions(picchio_options INTERFACE _FILE_OFFSET_BITS=64)
if(PICCHIO_WERROR)
  target_compile_options(picchio_options INTERFACE -Werror)
endif()
if(PICCHIO_SANITIZE)
  target_compile_options(picchio_options INTERFACE
    -fsanitize=${PICCHIO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(picchio_options INTERFACE -fsanitize=${PICCHIO_SANITIZE})
endif()
target_link_libraries(picchio_options INTERFACE Threads::Threads)
