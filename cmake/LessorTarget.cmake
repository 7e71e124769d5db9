# lessor_target_defaults(<target>): what every target of this project is compiled with. Everything
# is set on the target itself, so that nothing reaches a project that adds this one.
function(lessor_target_defaults target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(
    ${target} PROPERTIES CXX_EXTENSIONS OFF
                         COMPILE_WARNING_AS_ERROR "${LESSOR_WARNINGS_AS_ERRORS}")
  if(MSVC)
    target_compile_options(${target} PRIVATE /W4 /permissive-)
    return()
  endif()
  target_compile_options(
    ${target}
    PRIVATE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wold-style-cast
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wcast-align
            -Wdouble-promotion
            -Wimplicit-fallthrough
            # g++ 12 sees null pointers that inlining at -O3 made up.
            $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wnull-dereference>)
endfunction()
