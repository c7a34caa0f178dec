# picchio_room(NAME DEPENDS room... LINKS library...)
#
# One library picchio_NAME of the folder's *.cc files, beside it:
#   *_test.cc   all together one GoogleTest program NAME_test
#   *_bench.cc  each a benchmark program, with -DPICCHIO_BENCH=ON
#   *_fuzz.cc   each a fuzz target NAME_fuzz, and a test that replays its seed inputs
# A room's DEPENDS are the rooms whose headers it may include; tests/include_order_test holds the
# sources to the table of docs/architecture.md.
function(picchio_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  set(fuzzers ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench|main)\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")

  add_library(picchio_${name} STATIC ${sources})
  list(TRANSFORM ROOM_DEPENDS PREPEND picchio_)
  target_link_libraries(picchio_${name} PUBLIC picchio_options ${ROOM_DEPENDS} ${ROOM_LINKS})
  if(PICCHIO_SANITIZE)
    # The libraries do the work; the tests, which have more code, are compiled as fast as can be.
    target_compile_options(picchio_${name} PRIVATE -O2)
  endif()
  if(PICCHIO_FUZZ AND NOT name STREQUAL kernels)
    # What the fuzzer steers by. No target comes to the kernels, whose loops would run at half speed.
    target_compile_options(picchio_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()

  if(PICCHIO_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE picchio_${name} picchio_test_support)
    # Many sources at a time: two thirds of a test's compilation are headers and templates that all
    # share. What two sources of a room name alike, the compiler refuses.
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD ON)
    picchio_register_tests(${name}_test ${name})
  endif()
  if(PICCHIO_BENCH)
    foreach(source ${benches})
      get_filename_component(target ${source} NAME_WE)
      add_executable(${target} ${source})
      target_link_libraries(${target} PRIVATE picchio_${name} benchmark::benchmark)
    endforeach()
  endif()
  if(PICCHIO_TESTS OR PICCHIO_FUZZ)
    foreach(source ${fuzzers})
      picchio_fuzz_target(${source} picchio_${name})
    endforeach()
  endif()
endfunction()

# Each test by itself; under a sanitizer, which takes a sixth of a second to start and slows what
# tests share, like a published tokenizer, in as many shares as there are processors.
function(picchio_register_tests program name)
  if(NOT PICCHIO_SANITIZE)
    gtest_discover_tests(${program} TEST_PREFIX "${name}/" DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
    return()
  endif()
  cmake_host_system_information(RESULT num_shares QUERY NUMBER_OF_LOGICAL_CORES)
  foreach(share RANGE 1 ${num_shares})
    math(EXPR idx "${share} - 1")
    add_test(NAME ${name}/share_${share}_of_${num_shares} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${name}/share_${share}_of_${num_shares} PROPERTIES TIMEOUT 1200
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${num_shares};GTEST_SHARD_INDEX=${idx}")
  endforeach()
endfunction()

function(picchio_fuzz_target source library)
  get_filename_component(target ${source} NAME_WE)
  set(seeds ${PROJECT_SOURCE_DIR}/tests/fuzz/${target})
  add_executable(${target} ${source})
  target_link_libraries(${target} PRIVATE ${library})
  if(PICCHIO_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(once -runs=0)
  else()
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
  endif()
  if(PICCHIO_TESTS)
    add_test(NAME fuzz_seeds/${target} COMMAND ${target} ${once} ${seeds})
  endif()
endfunction()
