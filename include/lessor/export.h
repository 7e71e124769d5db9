// lessor/export.h: which names a shared library of lessor gives to others.
//
// LESSOR_SHARED is defined for lessor and its users alike if lessor is a shared library; its CMake
// targets and its pkg-config files see to that. Nobody else defines any of the macros here. A
// static lessor stays hidden inside a shared library that it is linked into.
#ifndef LESSOR_EXPORT_H_
#define LESSOR_EXPORT_H_

// LESSOR_EXPORT and LESSOR_TESTING_EXPORT: before a function, or between `class` and the name, of
// lessor::lessor and of lessor::testing.
// LESSOR_EXTERN_TEMPLATE_EXPORT, LESSOR_TEMPLATE_EXPORT: at an explicit instantiation's declaration
// and at its definition.
#if !defined(LESSOR_SHARED)
#define LESSOR_EXPORT
#define LESSOR_TESTING_EXPORT
#define LESSOR_EXTERN_TEMPLATE_EXPORT
#define LESSOR_TEMPLATE_EXPORT
#elif !defined(_WIN32)
#define LESSOR_EXPORT __attribute__((visibility("default")))
#define LESSOR_TESTING_EXPORT __attribute__((visibility("default")))
#define LESSOR_EXTERN_TEMPLATE_EXPORT __attribute__((visibility("default")))
#define LESSOR_TEMPLATE_EXPORT
#else
#if defined(LESSOR_BUILDING)
#define LESSOR_EXPORT __declspec(dllexport)
#define LESSOR_EXTERN_TEMPLATE_EXPORT
#define LESSOR_TEMPLATE_EXPORT __declspec(dllexport)
#else
#define LESSOR_EXPORT __declspec(dllimport)
#define LESSOR_EXTERN_TEMPLATE_EXPORT __declspec(dllimport)
#define LESSOR_TEMPLATE_EXPORT
#endif
#if defined(LESSOR_TESTING_BUILDING)
#define LESSOR_TESTING_EXPORT __declspec(dllexport)
#else
#define LESSOR_TESTING_EXPORT __declspec(dllimport)
#endif
#endif

#endif  // LESSOR_EXPORT_H_
