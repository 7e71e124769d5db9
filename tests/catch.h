#ifndef LESSOR_TESTS_CATCH_H_
#define LESSOR_TESTS_CATCH_H_

// Catch2 3 or, as Debian 12 packages it, 2.13: tests include this header and no other of Catch2's.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#endif  // LESSOR_TESTS_CATCH_H_
