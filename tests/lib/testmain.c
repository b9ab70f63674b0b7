#include "lib/testmain.h"

#include <stdlib.h>

Suite *suite_of(const char *name, const TTest *const *tests)
{
    Suite *s = suite_create(name);
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 60);
    for (; *tests != NULL; tests++)
        tcase_add_test(tc, *tests);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
