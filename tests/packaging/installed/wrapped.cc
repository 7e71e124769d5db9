#include "serve.h"

int main() { return Serve("two croissants") == "two croissants" ? 0 : 1; }
