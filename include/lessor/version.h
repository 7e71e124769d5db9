// lessor/version.h: the only place where the version stands.
#ifndef LESSOR_VERSION_H_
#define LESSOR_VERSION_H_

#define LESSOR_VERSION_MAJOR 0
#define LESSOR_VERSION_MINOR 1
#define LESSOR_VERSION_PATCH 0

#define LESSOR_INTERNAL_PASTE_(major, minor) v##major##_##minor
#define LESSOR_INTERNAL_PASTE(major, minor) LESSOR_INTERNAL_PASTE_(major, minor)

/// The inline namespace that holds every name of the library: two minor versions of lessor in one
/// program are two sets of symbols, never a silent mixture.
#define LESSOR_ABI LESSOR_INTERNAL_PASTE(LESSOR_VERSION_MAJOR, LESSOR_VERSION_MINOR)

#endif  // LESSOR_VERSION_H_
