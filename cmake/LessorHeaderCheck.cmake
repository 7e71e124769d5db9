# lessor_add_header_check(<target>): compiles every public header by itself, included twice: a header
# that needs another one before it, or has no include guard, fails the build.
function(lessor_add_header_check target)
  set(root "${PROJECT_SOURCE_DIR}/include")
  # A glob on purpose: no header may be forgotten.
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${root}" "${root}/lessor/*.h")
  set(sources "")
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "[/.]" "_" name "${header}")
    set(source "${CMAKE_CURRENT_BINARY_DIR}/header_check/${name}.cc")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  add_library(${target} OBJECT ${sources})
  lessor_target_defaults(${target})
  # Nothing here is run: no optimisation, no debug information.
  target_compile_options(${target} PRIVATE $<$<NOT:$<CXX_COMPILER_ID:MSVC>>:-O0 -g0>)
  target_link_libraries(${target} PRIVATE lessor::lessor lessor::testing)
endfunction()
