/* What every unit test file provides; tests/lib/testmain.c runs it. */
#ifndef HARBINGER_TESTS_TESTMAIN_H
#define HARBINGER_TESTS_TESTMAIN_H

#include <check.h>

Suite *suite(void);

/* A suite of one case with the given tests, the last entry NULL. */
Suite *suite_of(const char *name, const TTest *const *tests);

#endif
