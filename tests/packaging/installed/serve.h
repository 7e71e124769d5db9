// What both units of the program share, without a word of lessor.
#ifndef SERVE_H_
#define SERVE_H_

#include <string>

#ifdef SERVE_SHARED
#define SERVE_EXPORT __attribute__((visibility("default")))
#else
#define SERVE_EXPORT
#endif

/// Produces `content`, consumes and acknowledges it; what was consumed.
SERVE_EXPORT std::string Serve(const std::string& content);

#endif  // SERVE_H_
