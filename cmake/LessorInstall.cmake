# What `cmake --install` installs, all of it relocatable.
#
# The core is the package itself. Everything optional is a component of it, with a target, an export
# set, headers and a pkg-config file of its own: see lessor_install_component.

include(CMakePackageConfigHelpers)

set(lessor_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lessor")
set(lessor_pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
set(lessor_headers_dir "${CMAKE_INSTALL_INCLUDEDIR}/lessor")

# lessor_install_pkgconfig(<name> <target> <description> [<required module>...]): writes and installs
# <name>.pc. The prefix is where the file lies, so that the tree may be moved.
function(lessor_install_pkgconfig name target description)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
             BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${lessor_pkgconfig_dir}" OUTPUT_VARIABLE up)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pc_libdir "${CMAKE_INSTALL_LIBDIR}")
    set(up "${CMAKE_INSTALL_PREFIX}")
  else()
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    string(PREPEND up "\${pcfiledir}/")
  endif()
  string(REGEX REPLACE "/$" "" pc_prefix "${up}")
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}"
             OUTPUT_VARIABLE pc_includedir)
  get_target_property(type ${target} TYPE)
  set(pc_cflags "")
  if(type STREQUAL "SHARED_LIBRARY")
    set(pc_cflags " -DLESSOR_SHARED")
  endif()
  get_target_property(output ${target} OUTPUT_NAME)
  set(pc_library "${target}")
  if(output)
    set(pc_library "${output}")
  endif()
  set(pc_name "${name}")
  set(pc_description "${description}")
  list(JOIN ARGN ", " pc_requires)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/lessor.pc.in"
                 "${PROJECT_BINARY_DIR}/package/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/package/${name}.pc" DESTINATION "${lessor_pkgconfig_dir}")
endfunction()

# lessor_install_component(<component> <target> DESCRIPTION <text> [HEADERS <folder>...]
#                          [PACKAGES <package>...] [PKGCONFIG <module>...])
#
# Installs <target> as lessor::<component>, for find_package(lessor COMPONENTS <component>). HEADERS
# are folders of include/lessor. PACKAGES are what the component alone needs, by their names for
# find_package: they are looked for only where the component is asked for. PKGCONFIG names the same
# for pkg-config.
function(lessor_install_component component target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "DESCRIPTION" "HEADERS;PACKAGES;PKGCONFIG")
  install(
    TARGETS ${target}
    EXPORT lessor-${component}Targets
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(
    EXPORT lessor-${component}Targets
    NAMESPACE lessor::
    DESTINATION "${lessor_package_dir}")
  foreach(folder IN LISTS arg_HEADERS)
    install(
      DIRECTORY "${PROJECT_SOURCE_DIR}/include/lessor/${folder}/"
      DESTINATION "${lessor_headers_dir}/${folder}"
      FILES_MATCHING
      PATTERN "*.h")
  endforeach()
  set(packages "${arg_PACKAGES}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/lessor-component.cmake.in"
                 "${PROJECT_BINARY_DIR}/package/lessor-${component}.cmake" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/package/lessor-${component}.cmake"
          DESTINATION "${lessor_package_dir}")
  lessor_install_pkgconfig("lessor-${component}" ${target} "${arg_DESCRIPTION}"
                           "lessor = ${PROJECT_VERSION}" ${arg_PKGCONFIG})
endfunction()

install(
  TARGETS lessor
  EXPORT lessorTargets
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(
  EXPORT lessorTargets
  NAMESPACE lessor::
  DESTINATION "${lessor_package_dir}")
# The core's headers; the folder of a component is installed with the component.
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/lessor/"
  DESTINATION "${lessor_headers_dir}"
  FILES_MATCHING
  PATTERN "*.h"
  REGEX "/lessor/(testing)$" EXCLUDE)

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/lessorConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/package/lessorConfig.cmake"
  INSTALL_DESTINATION "${lessor_package_dir}"
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/package/lessorConfigVersion.cmake"
  VERSION "${PROJECT_VERSION}"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/lessorConfig.cmake"
              "${PROJECT_BINARY_DIR}/package/lessorConfigVersion.cmake"
        DESTINATION "${lessor_package_dir}")

# What the core links of Abseil, by the names of Abseil's own pkg-config files. Private ones too: a
# static library leaves them to its users.
get_target_property(linked lessor LINK_LIBRARIES)
list(FILTER linked INCLUDE REGEX "^absl::")
list(TRANSFORM linked REPLACE "^absl::" "absl_")
lessor_install_pkgconfig(lessor lessor "${PROJECT_DESCRIPTION}" ${linked})

lessor_install_component(
  testing lessor_testing
  DESCRIPTION "lessor's test kit: a simulated clock and ids that repeat"
  HEADERS testing)

if(LESSOR_BUILD_TOOL)
  install(TARGETS lessor_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# Programs and libraries find lessor's shared libraries next to themselves, wherever the tree is.
if(NOT WIN32 AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT IS_ABSOLUTE
                                                               "${CMAKE_INSTALL_BINDIR}")
  set(origin "$<IF:$<PLATFORM_ID:Darwin>,@loader_path,$ORIGIN>")
  set_property(TARGET lessor_testing APPEND PROPERTY INSTALL_RPATH "${origin}")
  if(LESSOR_BUILD_TOOL)
    cmake_path(SET bin_dir NORMALIZE "/${CMAKE_INSTALL_BINDIR}")
    cmake_path(SET lib_dir NORMALIZE "/${CMAKE_INSTALL_LIBDIR}")
    cmake_path(RELATIVE_PATH lib_dir BASE_DIRECTORY "${bin_dir}")
    set_property(TARGET lessor_tool APPEND PROPERTY INSTALL_RPATH "${origin}/${lib_dir}")
  endif()
endif()
