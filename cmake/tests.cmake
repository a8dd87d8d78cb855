# Every test of ./dev test, as CTest has it. A label is a part of `./dev test`.
#
#   ctest --test-dir build -L unit           one part
#   ctest --test-dir build -R golden.print   one test
#
# A test that is a suite of its own writes what its tests gave to junit/NAME.xml in the build folder;
# tests/summary.py adds them up. By day the long suites run a sample: TENON_ALL=1 runs them whole.
enable_testing()
set(TENON_TEST_PYTHON "${CMAKE_SOURCE_DIR}/build/venv/bin/python" CACHE FILEPATH "a Python with requirements.txt installed")
set(TENON_WHEEL_PYTHON "${CMAKE_SOURCE_DIR}/build/wheel/venv/bin/python" CACHE FILEPATH "a Python with the package's wheel installed")
set(JUNIT "${CMAKE_CURRENT_BINARY_DIR}/junit")
set(ONE_TEST 600)        # [s] a test that takes as long hangs
set(ONE_SUITE 7200)

# tenon_test(NAME PART SECONDS COST COMMAND…): the dearest start first, so that none is left at the end.
function(tenon_test name part seconds cost)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS ${part} TIMEOUT ${seconds} COST ${cost})
endfunction()

function(tenon_pytest name part cost python)
  tenon_test(${name} ${part} ${ONE_SUITE} ${cost} "${python}" -m pytest -q -p no:cacheprovider --timeout=${ONE_TEST} --tb=short -rfE
    --durations=30 --durations-min=3 "--junitxml=${JUNIT}/${name}.xml" ${ARGN})
endfunction()

# What threads share is tested under the thread sanitizer, all C under the others.
set(THREADED test_parallel test_pool test_session)
foreach(source ${UNIT_SOURCES})
  get_filename_component(name "${source}" NAME_WE)
  if(TARGET ${name} AND (NOT TENON_SANITIZE STREQUAL "thread" OR name IN_LIST THREADED))
    tenon_test(${name} unit ${ONE_TEST} 60 ${name})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=XML;CMOCKA_XML_FILE=${JUNIT}/${name}.xml")
  endif()
endforeach()
if(TENON_SANITIZE STREQUAL "thread")
  set_property(TEST ${THREADED} APPEND PROPERTY ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
  return()
endif()

file(GLOB GOLDEN CONFIGURE_DEPENDS tests/golden/*.tn)
foreach(file ${GOLDEN})
  get_filename_component(name "${file}" NAME_WE)
  tenon_test(golden.${name} golden ${ONE_TEST} 1 tool_golden "${file}")
endforeach()

if(TENON_SANITIZE)
  # What has returned may be asked for by a closer. Looked for where the whole command runs: it costs 5 % there, and 90 % in test_fuse.
  tenon_pytest(asan-errors errors 300 "${TENON_TEST_PYTHON}" --every 3 tests/errors)
  set_tests_properties(asan-errors PROPERTIES ENVIRONMENT
    "ASAN_OPTIONS=detect_stack_use_after_return=1;TENON=$<TARGET_FILE:tenon-cmd>;TENON_BUILD=${CMAKE_CURRENT_BINARY_DIR}")
  tenon_pytest(asan-kernels kernels 200 "${TENON_TEST_PYTHON}" tests/asan)
  set_tests_properties(asan-kernels PROPERTIES ENVIRONMENT "TENON=$<TARGET_FILE:tenon-cmd>")
  return()
endif()

set(MODELS tests/differential/test_models.py)
tenon_pytest(arrows arrows 10 "${TENON_TEST_PYTHON}" tests/test_arrows.py tests/test_numbers.py)
tenon_pytest(errors errors 120 "${TENON_TEST_PYTHON}" tests/errors)
tenon_pytest(reach reach 100 "${TENON_TEST_PYTHON}" tests/reach)
tenon_pytest(serve serve 70 "${TENON_TEST_PYTHON}" tests/serve)
tenon_pytest(install install 30 "${TENON_TEST_PYTHON}" tests/install)
tenon_pytest(page page 20 "${TENON_TEST_PYTHON}" tests/page)
tenon_pytest(models models 60 "${TENON_TEST_PYTHON}" ${MODELS})
tenon_pytest(differential differential 1100 "${TENON_TEST_PYTHON}" --every 2 tests/differential --ignore ${MODELS})
tenon_pytest(python python 100 "${TENON_WHEEL_PYTHON}" tests/python)
tenon_pytest(manual manual 15 "${TENON_TEST_PYTHON}" tests/manual)
tenon_test(conformance conformance ${ONE_SUITE} 60 "${TENON_TEST_PYTHON}" tests/conformance/conformance.py --junit ${JUNIT}/conformance.xml)
tenon_test(zoo zoo ${ONE_SUITE} 400 "${TENON_TEST_PYTHON}" tests/zoo/zoo.py --junit ${JUNIT}/zoo.xml)
# What most machines without AVX-512 run, on all of them that can.
file(STRINGS /proc/cpuinfo AVX2 REGEX "^flags.* avx2( |$)" LIMIT_COUNT 1)
if(AVX2)
  tenon_pytest(avx2 avx2 100 "${TENON_TEST_PYTHON}" --every 16 tests/differential --ignore ${MODELS})
  set_tests_properties(avx2 PROPERTIES ENVIRONMENT "TENON_TEST_TARGET=x86-64-v3")
endif()
set_tests_properties(python PROPERTIES RUN_SERIAL ON)    # it measures time
