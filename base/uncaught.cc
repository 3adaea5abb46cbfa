/* Handles exceptions that libraries throw and nobody catches. */
#include <exception>
#include <new>

#define _Noreturn __attribute__((noreturn)) /* C11's keyword, which C++ lacks */
extern "C" {
#include "base/base.h"
#include "base/uncaught.h"
}

[[noreturn]] static void report() {
    try {
        std::exception_ptr thrown = std::current_exception();
        if (thrown) std::rethrow_exception(thrown);
    } catch (const std::bad_alloc &) {
        die("out of memory: a library asked for more than there is, or than is allowed (ulimit -v)");
    } catch (const std::exception &exception) {
        die("a library failed: %s", exception.what());
    } catch (...) {
    }
    die("a library failed, and does not say why");
}

void uncaught_install(void) { std::set_terminate(report); }
