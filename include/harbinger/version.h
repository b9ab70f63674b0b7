/* The version of the library, the daemon and the command line: semantic versioning, the same for
 * all of them. */
#ifndef HARBINGER_VERSION_H
#define HARBINGER_VERSION_H

#define HARBINGER_VERSION "0.1.0"

#endif
