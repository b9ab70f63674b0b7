/* For implementers of an order of service only. An implementation embeds struct policy as its first
 * member. */
#ifndef HARBINGER_POLICY_POLICY_IMPL_H
#define HARBINGER_POLICY_POLICY_IMPL_H

#include "policy/policy.h"

struct policy_ops {
    const char *name;
    void (*free)(struct policy *p);
    void (*place)(struct policy *p, struct policy_msg *m, mono_t now);
    struct policy_msg *(*next)(struct policy *p, mono_t now);
    void (*put_back)(struct policy *p, struct policy_msg *m);
    void (*requeue)(struct policy *p, struct policy_msg *m, mono_t now);
    void (*remove)(struct policy *p, struct policy_msg *m);
    void (*hold)(struct policy *p, struct policy_msg *m); /* these two write m->held */
    void (*release)(struct policy *p, struct policy_msg *m);
    struct policy_msg *(*any)(const struct policy *p);
    void (*done)(struct policy *p, struct policy_msg *m,
                 double duration_ms);             /* NULL: not interested */
    mono_t (*tick)(struct policy *p, mono_t now); /* NULL: nothing is ever due */
    void (*level_stats)(const struct policy *p, unsigned level,
                        struct policy_level_stats *out); /* NULL: has no levels */
    const char *(*check)(const struct policy *p);
};

struct policy {
    const struct policy_ops *ops;
    size_t n_waiting, n_held; /* kept by policy.c */
};

#endif
