# cmake -Dcase=<name> ... -P run.cmake: one packaging test; see CMakeLists.txt.
cmake_minimum_required(VERSION 3.25)

set(here "${CMAKE_CURRENT_LIST_DIR}")
set(prefix "${dir}/prefix")
set(work "${dir}/${case}")
file(REMOVE_RECURSE "${work}")

# run(<command>...): ends the test if the command fails. What it wrote is in `output`.
macro(run)
  execute_process(
    COMMAND ${ARGN}
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output
    RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\n${output}\nended with: ${result}")
  endif()
endmacro()

# configure(<project> <into> <argument>...): what it takes is in `configure_command`.
macro(configure project into)
  set(configure_command
      "${CMAKE_COMMAND}" -S "${here}/${project}" -B "${into}" -G "${generator}"
      "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
      -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 ${ARGN})
endmacro()

# build_and_test(<project> <into> <argument>...): configures, builds, runs the project's own tests.
macro(build_and_test project into)
  configure("${project}" "${into}" ${ARGN})
  run(${configure_command})
  run("${CMAKE_COMMAND}" --build "${into}" --parallel 2)
  run("${CMAKE_CTEST_COMMAND}" --test-dir "${into}" --output-on-failure --no-tests=error)
endmacro()

function(expect text pattern)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "expected: ${pattern}\nfound:\n${text}")
  endif()
endfunction()

# The tree is installed, is complete, does not know where it lies, and is moved.
function(case_install)
  file(REMOVE_RECURSE "${prefix}" "${work}")
  run("${CMAKE_COMMAND}" --install "${build}" --prefix "${work}")
  foreach(file IN ITEMS bin/lessor include/lessor/lessor.h include/lessor/core/rules.h
                        include/lessor/testing/simulated_clock.h
                        ${libdir}/cmake/lessor/lessorConfig.cmake
                        ${libdir}/cmake/lessor/lessor-testing.cmake
                        ${libdir}/pkgconfig/lessor.pc ${libdir}/pkgconfig/lessor-testing.pc)
    if(NOT EXISTS "${work}/${file}")
      message(FATAL_ERROR "not installed: ${file}")
    endif()
  endforeach()
  file(GLOB_RECURSE texts "${work}/${libdir}/cmake/*" "${work}/${libdir}/pkgconfig/*")
  foreach(file IN LISTS texts)
    file(READ "${file}" text)
    foreach(path IN ITEMS "${work}" "${build}" "${source}")
      string(FIND "${text}" "${path}" at)
      if(NOT at EQUAL -1)
        message(FATAL_ERROR "${file} names ${path}")
      endif()
    endforeach()
  endforeach()
  file(RENAME "${work}" "${prefix}")
  run("${prefix}/bin/lessor" scenario
      "${source}/tests/scenarios/streams/a-produce-without-records-is-refused.json")
endfunction()

# The core alone, two translation units, no exceptions, no RTTI, a static lessor in a shared library,
# the test kit beside a namespace `testing`.
function(case_installed)
  build_and_test(installed "${work}" "-Dlessor_ROOT=${prefix}")
endfunction()

# A library that uses lessor in its interface, installed elsewhere; its users know lessor through it.
function(case_reexport)
  configure(dependent "${work}/dependent" "-Dlessor_ROOT=${prefix}")
  run(${configure_command})
  run("${CMAKE_COMMAND}" --build "${work}/dependent")
  run("${CMAKE_COMMAND}" --install "${work}/dependent" --prefix "${work}/dependent_prefix")
  build_and_test(reexport "${work}/build" "-Dlessor_ROOT=${prefix}"
                 "-Dorders_ROOT=${work}/dependent_prefix")
endfunction()

# What find_package says, without building anything.
function(case_finds)
  set(path "-Dlessor_ROOT=${prefix}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${version}")
  configure(finds "${work}/a" "${path}" "-Darguments=${minor},REQUIRED,COMPONENTS,testing")
  run(${configure_command})
  configure(finds "${work}/a" "${path}"
            "-Darguments=${minor},REQUIRED,OPTIONAL_COMPONENTS,nonsense")
  run(${configure_command})

  configure(finds "${work}/a" "${path}" "-Darguments=REQUIRED,COMPONENTS,nonsense")
  execute_process(COMMAND ${configure_command} ERROR_VARIABLE output OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  expect("${output}" "installed without a component 'nonsense'; installed are: [a-z, ]*testing")

  foreach(other IN ITEMS 0.0 9.9)
    configure(finds "${work}/a" "${path}" "-Darguments=${other},REQUIRED")
    execute_process(COMMAND ${configure_command} ERROR_VARIABLE output OUTPUT_QUIET)
    string(REGEX REPLACE "[ \n]+" " " output "${output}")
    expect("${output}" "compatible with requested version \"${other}\"")
  endforeach()

  # Found through lessor_ROOT alone, lessor does not find Abseil and says so.
  configure(finds "${work}/c" "${path}" -Darguments=REQUIRED -Donly_roots=ON)
  execute_process(COMMAND ${configure_command} ERROR_VARIABLE output OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  expect("${output}" "provided by \"absl\"")

  # A component's own dependency is looked for, and named if it is not there.
  file(COPY "${prefix}/" DESTINATION "${work}/lacking")
  set(component nonsense)
  set(packages NoSuchPackage)
  configure_file("${source}/cmake/lessor-component.cmake.in"
                 "${work}/lacking/${libdir}/cmake/lessor/lessor-nonsense.cmake" @ONLY)
  configure(finds "${work}/b" "-Dlessor_ROOT=${work}/lacking"
            "-Darguments=REQUIRED,COMPONENTS,nonsense")
  execute_process(COMMAND ${configure_command} ERROR_VARIABLE output OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  expect("${output}" "component 'nonsense' needs packages that were not found: NoSuchPackage")
endfunction()

# No CMake: the compiler and pkg-config.
function(case_pkg_config)
  if(NOT pkg_config)
    message(FATAL_ERROR "there is no pkg-config")
  endif()
  file(MAKE_DIRECTORY "${work}")
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${libdir}/pkgconfig")
  run("${pkg_config}" --modversion lessor)
  expect("${output}" "^${version}\n")
  run("${pkg_config}" --cflags --libs lessor-testing)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${launcher} "${compiler}" -std=c++20 "${here}/installed/testing.cc" -o "${work}/testing"
      ${flags} "-Wl,-rpath,${prefix}/${libdir}")
  run("${work}/testing")
endfunction()

# lessor as a part of another project: by add_subdirectory, as a shared library, with rules of the
# user's own beside the exported ones; and by FetchContent, as far as its targets.
function(case_embedded)
  build_and_test(embedded "${work}/shared" "-Dlessor=${source}" -DBUILD_SHARED_LIBS=ON
                 -DLESSOR_INSTALL=ON)
  configure(embedded "${work}/fetched" "-Dlessor=${source}" -Dfetch=ON)
  run(${configure_command})

  # The shared library, installed: the same program again, from the package.
  run("${CMAKE_COMMAND}" --install "${work}/shared" --prefix "${work}/prefix_first")
  file(RENAME "${work}/prefix_first" "${work}/prefix")
  build_and_test(embedded "${work}/found" "-Dlessor_ROOT=${work}/prefix")
endfunction()

cmake_language(CALL "case_${case}")
