/* What the import test must catch: a pure layer that reads the clock. */
#include <time.h>

long planted_now(void);

long planted_now(void)
{
    return (long)time(NULL);
}
